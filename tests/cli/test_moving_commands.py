"""`jbm-kafka export`, `import` and `adopt`."""

import json
from pathlib import Path

from jbm_kafka.ports import Outgoing
from jbm_kafka.providers.in_memory import World
from tests.cli.conftest import Run, write


def test_what_is_held_goes_into_a_file_and_back(cli: Run, queue: str, tmp_path: Path) -> None:
    """Of LOG-13."""
    file = str(tmp_path / "a.avro")
    cli("send", queue, "--text", "x")
    assert cli("export", queue, file).out == f"queue:{queue}: 1 message in {file}\n"
    said = cli("export", queue, file)
    assert (said.code, said.err) == (1, f"jbm-kafka: {file}: there is such a file; name one that is not there\n")
    assert cli("import", file, "--to", "restored").out == "queue:restored: 1 message imported\n"
    assert cli("import", file, "--to", "restored").out == (
        "queue:restored: 0 messages imported, 1 were there already by an import of this file\n"
    )
    assert json.loads(cli("import", file, "--to", "restored", "--json").out)["present"] == 1
    assert cli("receive", "restored").out == "x\n"
    refused = cli("import", file)
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "is where the file is from" in refused.err
    assert cli("import", str(tmp_path / "b.avro")).err == (
        f"jbm-kafka: No such file or directory: {tmp_path / 'b.avro'}\n"
    )


def test_a_copied_topic_is_adopted(cli: Run, queue: str, world: World) -> None:
    """Of LOG-14."""
    write(world, *(Outgoing(queue, p, b"u", b"x") for p in (0, 0, 1)))
    said = cli("adopt", queue, "--from", "0=1,1=1")
    assert said.code == 0, said
    assert said.out.startswith(
        f"queue:{queue}: adopted; nothing but messages comes with it: no attempts, delays or duplicate ids\n"
        f"  1 record is in the log from there on\n"
    )
    assert cli("receive", queue).out == "x\n"
    assert "is of this very topic" in cli("adopt", queue, "--from", "end").err
    wrong = cli("adopt", queue, "--from", "0:1")
    assert (wrong.code, "'0:1' is none of begin, end, held, or offsets such as 0=12,1=40" in wrong.err) == (2, True)
