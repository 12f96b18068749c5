"""`jbm-kafka bodies`, and commands that read and write large bodies by the way."""

import json
import shutil
from pathlib import Path

import pytest

from jbm_kafka.client.bodies.folder_store import FolderStore
from jbm_kafka.client.bodies.large_bodies import BODY_BYTES_MAX
from jbm_kafka.codec.large_body import body_name
from tests.cli.conftest import Run

TEXT = "x" * (BODY_BYTES_MAX + 1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JBM_LARGE_BODIES", f"file:{tmp_path}/bodies")
    made = tmp_path / "bodies"
    made.mkdir()
    return made


def _left(folder: Path) -> str:
    name = body_name("2020-01-01", 1_577_836_800_000, "0" * 32)
    FolderStore(folder).put(name, b"left")
    return name


def test_what_a_command_sends_and_receives_may_be_large(cli: Run, queue: str, folder: Path) -> None:
    """BODY-2: a browse shows it too."""
    assert cli("send", queue, "--text", TEXT).code == 0
    assert len(list(folder.glob("*/*"))) == 1
    assert json.loads(cli("browse", queue, "--json").out)["body"] == TEXT
    assert TEXT in cli("receive", queue, "--timeout", "10").out


def test_a_body_that_is_gone_hides_no_other_message(cli: Run, queue: str, folder: Path) -> None:
    """BODY-3, BODY-5: a table fetches none and tells the size; JSON tells why it has none."""
    cli("send", queue, "--text", TEXT)
    cli("send", queue, "--text", "after it")
    shutil.rmtree(folder)
    folder.mkdir()
    table = cli("browse", queue).out
    assert f"({len(TEXT)} bytes, kept beside Kafka)" in table
    assert "after it" in table
    shown = [json.loads(line) for line in cli("browse", queue, "--json").out.splitlines()]
    assert sorted(str(each["body"]) for each in shown) == ["None", "after it"]
    assert ["is not in" in each["body_error"] for each in shown if "body_error" in each] == [True]
    received = cli("receive", queue, "--timeout", "10", "--count", "2")
    assert (received.code, "is not in" in received.err) == (1, True)


def test_bodies_are_listed_and_removed(cli: Run, queue: str, folder: Path, tmp_path: Path) -> None:
    """BODY-8: by name, size, age, and whether Kafka names them."""
    cli("send", queue, "--text", TEXT)
    assert "2020-01-01 00:00:00" not in cli("bodies", "list").out
    left = _left(folder)
    assert "not looked for" in cli("bodies", "list").out
    found = json.loads(cli("bodies", "list", "--names", "--json").out)
    assert [(each["name"] == left, each["size_bytes"], each["is_named"]) for each in found] == [
        (True, 4, False),
        (False, len(TEXT), True),
    ]
    assert cli("bodies", "remove", "--unnamed", "--dry-run").out == "1 bodies of 4 bytes would be removed, 1 are kept\n"
    names = tmp_path / "names.txt"
    names.write_text(f"{left}\n")
    kept = cli("bodies", "remove", "--unnamed", "--named-in", str(names), "--yes")
    assert kept.out == "0 bodies of 0 bytes removed, 2 are kept\n"
    assert cli("bodies", "remove", "--unnamed", "--yes").out == "1 bodies of 4 bytes removed, 1 are kept\n"
    assert json.loads(cli("bodies", "remove", "--older-than", "86400", "--yes", "--json").out)["kept"] == 1


def test_nothing_goes_that_nobody_meant(cli: Run, queue: str, folder: Path) -> None:
    """BODY-8: which, and whether it is meant, must be said."""
    _left(folder)
    assert cli("bodies", "remove").code == 2
    asked = cli("bodies", "remove", "--unnamed")
    assert (asked.code, "--yes" in asked.err) == (2, True)
    assert "at least 3600" in cli("bodies", "remove", "--unnamed", "--older-than", "5", "--yes").err
    assert len(list(folder.glob("*/*"))) == 1


def test_a_command_without_the_store_says_how_to_name_it(cli: Run, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """BODY-3: and one with a wrong one, what is wrong."""
    monkeypatch.setenv("JBM_LARGE_BODIES", "")
    assert "JBM_LARGE_BODIES" in cli("bodies", "list").err
    monkeypatch.setenv("JBM_LARGE_BODIES", "bodies")
    said = cli("bodies", "list")
    assert (said.code, "large_bodies is 'bodies'" in said.err) == (1, True)


def test_the_file_of_the_commands_may_name_the_store(
    cli: Run, queue: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """BODY-2: the environment wins."""
    monkeypatch.setenv("JBM_LARGE_BODIES", "")
    _left(folder)
    file = tmp_path / "config.toml"
    file.write_text(f'large_bodies = "file:{folder}"\n')
    assert len(json.loads(cli("bodies", "list", "--json", "--config", str(file)).out)) == 1
