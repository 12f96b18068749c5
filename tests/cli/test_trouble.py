"""What goes wrong is told in one line with the remedy: exit code 1 when it could not be done, 2 for wrong usage."""

import io
import os
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.waiting import in_time

NOWHERE = "127.0.0.1:1"
SOON_S = 10.0


@pytest.mark.parametrize("address", [NOWHERE, "no-such-host.invalid:9092"])
@pytest.mark.parametrize("command", [("create", "q"), ("list",), ("send", "q", "--text", "x"), ("receive", "q")])
def test_a_broker_that_does_not_answer_is_told_soon(
    run: Run, monkeypatch: pytest.MonkeyPatch, address: str, command: tuple[str, ...]
) -> None:
    """Who named it is told to correct that, and not to start a broker of this machine, which would be empty."""
    monkeypatch.setenv("JBM_BOOTSTRAP", address)
    said = in_time(lambda: run(*command), SOON_S)
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        f"jbm-kafka: no Kafka answers at {address}; look after its brokers, or correct the address (JBM_BOOTSTRAP, "
        f"--bootstrap HOST:PORT)\n"
    )


@pytest.mark.parametrize("command", [("show",), ("send", "--text", "x"), ("receive",), ("browse",), ("pause",)])
def test_a_missing_queue_is_told_and_is_not_made(cli: Run, kafka_name: str, command: tuple[str, ...]) -> None:
    for _ in range(2):
        said = cli(command[0], kafka_name, *command[1:])
        assert (said.code, said.out) == (1, "")
        assert f"there is no Kafka topic {kafka_name!r}; " in said.err
        assert "auto_create=False" not in said.err
        assert said.err.count("\n") == 1


def test_a_missing_dead_letter_queue_is_empty_when_shipped_and_an_error_when_named(cli: Run, kafka_name: str) -> None:
    assert cli("dead-letters", "list").code == 0
    assert cli("dead-letters", "list", "--from", kafka_name).code == 1


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "jbm.x", "x.jbm-changelog", "x" * 201, "..", "\u00e9", "\x1b[2J", "topic:a b", "queue:"]
)
def test_an_illegal_name_is_wrong_usage_and_says_why(run: Run, name: str) -> None:
    for command in ("create", "show", "receive"):
        said = run(command, "--bootstrap", NOWHERE, "--", name)
        assert (said.code, said.out) == (2, "")
        assert "Invalid value" in said.err
        assert "\x1b" not in said.err


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":9092", "localhost:kafka", "h:0", "h:65536", "h:1,"]
)
def test_an_address_that_is_none_is_wrong_usage(run: Run, address: str) -> None:
    said = run("list", "--bootstrap", address)
    assert said.code == 2
    assert "write 'host:port'" in said.err


def test_a_body_too_large_for_the_topic_is_told_with_the_remedy(cli: Run, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(2_000_000))  # Kafka measures what is left after compression
    said = cli("send", queue, str(file))
    assert said.code == 1
    assert "max.message.bytes" in said.err
    assert said.err.count("\n") == 1


def test_a_reader_that_has_enough_is_no_failure(cli: Run, queue: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in `jbm-kafka browse orders --json | head -n 1`."""
    cli("send", queue, "--text", "x", "--count", "2000")
    reading, writing = os.pipe()
    os.close(reading)
    gone = os.fdopen(writing, "w")
    with monkeypatch.context() as patched, suppress(OSError):
        patched.setattr(sys, "stdout", gone)
        said = cli("browse", queue, "--all", "--json")
        gone.close()
    assert (said.code, said.err) == (0, "")


def test_a_message_that_could_not_be_printed_stays_in_the_queue(
    cli: Run, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("send", queue, "--text", "precious")
    for options in ((), ("--count", "0")):
        full = Path("/dev/full").open("w")  # noqa: SIM115 - closing it fails, too
        with monkeypatch.context() as patched, suppress(OSError):
            patched.setattr(sys, "stdout", full)
            said = cli("receive", queue, *options)
            full.close()
        assert said.code == 1
        assert said.err == "jbm-kafka: standard output cannot be written: No space left on device\n"
    assert '"body": "precious"' in cli("receive", queue, "--json").out


@pytest.mark.parametrize(
    ("stream", "given", "command", "code", "told"),
    [
        ("stdout", None, "receive {queue}", 1, "jbm-kafka: standard output is closed; nothing was done"),
        ("stdin", None, "send {queue} -", 2,
         "jbm-kafka send: Invalid value for '[FILE|-]': standard input is closed; nothing was sent"),
        ("stdin", io.BytesIO(), "send {queue} -", 2,
         "jbm-kafka send: standard input is empty; nothing was sent. For an empty body: --text ''"),
        ("stdin", None, "remove {queue} --all", 2,
         "jbm-kafka remove: nobody can be asked here whether it is meant: give --yes, or --dry-run to see what "
         "would go"),
    ],
)  # fmt: skip
def test_a_closed_stream_is_told_before_anything_is_done(
    cli: Run, queue: str, monkeypatch: pytest.MonkeyPatch, stream: str, given: io.BytesIO | None, command: str,
    code: int, told: str,
) -> None:  # fmt: skip
    """It was "a bug: AttributeError", and `receive` had taken a message by then."""
    cli("send", queue, "--text", "x")
    with monkeypatch.context() as patched:
        patched.setattr(sys, stream, None if given is None else io.TextIOWrapper(given))
        said = cli(*command.format(queue=queue).split())
    assert (said.code, said.out, said.err) == (code, "", f"{told}\n")
    assert cli("receive", queue).out == "x\n"
