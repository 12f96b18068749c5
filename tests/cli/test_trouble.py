"""What goes wrong is told in one line with the remedy: exit code 1 when it could not be done, 2 for wrong usage."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.support.waiting import in_time

NOWHERE = "127.0.0.1:1"
SOON_S = 10.0

COMMANDS = [
    ("create", "q"),
    ("list",),
    ("show", "q"),
    ("send", "q", "--text", "x"),
    ("receive", "q"),
    ("browse", "q"),
    ("dead-letters", "list"),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_broker_that_does_not_answer_is_told_soon(run: Run, command: tuple[str, ...]) -> None:
    said = in_time(lambda: run(*command, "--bootstrap", NOWHERE), SOON_S)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"jbm-kafka: no Kafka answers at {NOWHERE}; look after its brokers, or")
    assert said.err.count("\n") == 1


def test_who_named_a_local_address_by_the_environment_is_told_to_correct_it(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To start a local broker was advised, or to name one, which was done."""
    monkeypatch.setenv("JBM_BOOTSTRAP", NOWHERE)
    assert run("list").err == (
        f"jbm-kafka: no Kafka answers at {NOWHERE}; look after its brokers, or correct the address (JBM_BOOTSTRAP, "
        f"--bootstrap HOST:PORT)\n"
    )


def test_a_host_of_an_unknown_name_is_told_as_such(run: Run) -> None:
    said = run("list", "--bootstrap", "no-such-host.invalid:9092")
    assert said.code == 1
    assert said.err.startswith(
        "jbm-kafka: no Kafka answers at no-such-host.invalid:9092: the name no-such-host.invalid is unknown here; look "
        "after its brokers, or correct the address"
    )
    assert "broker start" not in said.err, "an empty broker of this machine was advised to who named a cluster"
    assert said.err.count("\n") == 1


def test_a_misspelt_queue_is_told_with_the_likely_one(kafka: Run, queue: str) -> None:
    said = kafka("show", queue[:-1])
    assert said.code == 1
    assert (
        f"there is no Kafka topic '{queue[:-1]}'; did you mean '{queue}'? jbm-kafka list tells which there are"
        in said.err
    )


@pytest.mark.parametrize("command", [("show",), ("send", "--text", "x"), ("receive",), ("browse",)])
def test_a_missing_queue_is_told_with_the_remedy_and_is_not_made(
    kafka: Run, kafka_name: str, command: tuple[str, ...]
) -> None:
    for _ in range(2):
        said = kafka(command[0], kafka_name, *command[1:])
        assert (said.code, said.out) == (1, "")
        looks = command[0] in ("show", "browse")  # who looks for it does not want a new one
        assert ("jbm-kafka list tells which there are" if looks else f"jbm-kafka create {kafka_name}") in said.err
        assert said.err.count("\n") == 1


def test_a_missing_dead_letter_queue_is_empty_when_shipped_and_an_error_when_named(kafka: Run, kafka_name: str) -> None:
    assert kafka("dead-letters", "list").code == 0
    assert kafka("dead-letters", "list", "--from", kafka_name).code == 1


@pytest.mark.parametrize(
    "name", ["", "a b", "a/b", "jbm.x", "x.jbm-changelog", "x" * 201, "..", "é", "\x1b[2J", "topic:a b", "queue:"]
)
@pytest.mark.parametrize("command", ["create", "show", "browse", "receive"])
def test_an_illegal_name_is_wrong_usage_and_says_why(run: Run, command: str, name: str) -> None:
    said = run(command, "--bootstrap", NOWHERE, "--", name)
    assert (said.code, said.out) == (2, "")
    assert "Invalid value" in said.err
    assert "\x1b" not in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("create",),
        ("create", "q", "--partitions", "0"),
        ("send", "q"),
        ("send", "q", "--text", "x", "-"),
        ("send", "q", "--text", "x", "--lines"),
        ("send", "q", "--text", "x", "--unit", ""),
        ("send", "q", "--text", "x", "--count", "0"),
        ("send", "q", "--text", "x", "--priority", "10"),
        ("send", "q", "--text", "x", "--delay-ms", "99999999999999999"),
        ("send", "q", "--text", "x", "--time-to-live-ms", "99999999999999999"),
        ("receive", "q", "--timeout", "nan"),
        ("send", "q", "--text", "x", "--property", "novalue"),
        ("send", "q", "--text", "x", "--property", "n:int=1.5"),
        ("send", "q", "--text", "x", "--property", "n:byte=128"),
        ("send", "q", "--text", "x", "--property", "n:uuid=1"),
        ("send", "q", "--text", "x", "--property", "JMSType=1"),
        ("send", "q", "--text", "x", "--property", "=1"),
        ("send", "q", "/no/such/file"),
        ("receive", "q", "--timeout", "-1"),
        ("receive", "q", "--unit", ""),
        ("receive", "q", "--unit", "\udcff"),  # a byte that is no UTF-8
        ("send", "q", "--text", "x", "--unit", "\udcff"),
        ("receive", "q", "--selector", "a == 1"),
        ("receive", "q", "--selector", "a = 1", "--unit", "joe"),
        ("browse", "q", "--selector", "a == 1"),
        ("dead-letters",),
        ("dead-letters", "list", "--selector", "a = \udcff"),
        ("dead-letters", "retry", "--selector", "a = = 1"),
        ("dead-letters", "retry", "--count", "0"),
        ("list", "extra"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_tried(run: Run, arguments: tuple[str, ...]) -> None:
    said = run(*arguments)
    assert (said.code, said.out) == (2, ""), said
    assert said.err.startswith(("jbm-kafka ", "Usage: jbm-kafka dead-letters "))  # a group alone shows its help


@pytest.mark.parametrize(
    "address", ["", "localhost", "localhost:", ":9092", "localhost:kafka", "h:0", "h:65536", "h:1,"]
)
def test_an_address_that_is_none_is_wrong_usage(run: Run, address: str) -> None:
    said = run("list", "--bootstrap", address)
    assert said.code == 2
    assert "write 'host:port'" in said.err


def test_a_body_too_large_for_the_topic_is_told_with_the_remedy(kafka: Run, queue: str, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(os.urandom(2_000_000))  # Kafka measures what is left after compression
    said = kafka("send", queue, str(file))
    assert said.code == 1
    assert "max.message.bytes" in said.err
    assert said.err.count("\n") == 1


def test_a_reader_that_has_enough_is_no_failure(kafka: Run, queue: str, bootstrap: str) -> None:
    kafka("send", queue, "--text", "x", "--count", "2000")
    command = f"{sys.executable} -m jbm_kafka.cli.main browse {queue} --all --json --bootstrap {bootstrap}"
    pipeline = f"{command} | head -n 1 | wc -l; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipeline], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("1\n0\n", "")


@pytest.mark.parametrize(
    ("command", "code", "told"),
    [
        ("list >&-", 1, "jbm-kafka: standard output is closed; nothing was done"),
        ("receive {queue} >&-", 1, "jbm-kafka: standard output is closed; nothing was done"),
        (
            "send {queue} - <&-",
            2,
            "jbm-kafka send: Invalid value for '[FILE|-]': standard input is closed; nothing was sent",
        ),
        (
            "send {queue} - </dev/null",
            2,
            "jbm-kafka send: standard input is empty; nothing was sent. For an empty body: --text ''",
        ),
        (
            "remove {queue} --all <&-",
            2,
            "jbm-kafka remove: nobody can be asked here whether they are meant: give --yes, or --dry-run to see which "
            "would go",
        ),
    ],
)
def test_a_closed_stream_is_told_before_anything_is_done(
    kafka: Run, queue: str, bootstrap: str, command: str, code: int, told: str
) -> None:
    """It was "a bug: AttributeError", and `receive` had taken a message by then."""
    kafka("send", queue, "--text", "x")
    line = f"JBM_BOOTSTRAP={bootstrap} {sys.executable} -m jbm_kafka.cli.main {command.format(queue=queue)}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{told}\n")
    assert kafka("receive", queue).out == "x\n"


def test_a_send_that_is_interrupted_tells_how_far_it_came(kafka: Run, queue: str, bootstrap: str) -> None:
    """It said "interrupted" below an empty line, and nobody knew which of the lines were sent."""
    command = [sys.executable, "-m", "jbm_kafka.cli.main", "send", queue, "--lines", "-", "--bootstrap", bootstrap]
    for number in (signal.SIGINT, signal.SIGTERM):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sending:
            assert sending.stdin is not None
            sending.stdin.write("1\n2\n3\n")
            sending.stdin.flush()
            assert kafka("receive", queue, "--count", "3", "--timeout", "60").code == 0
            sending.send_signal(number)
            _, said = sending.communicate()
        assert (sending.returncode, said) == (1, f"jbm-kafka: interrupted: the first 3 were sent to queue:{queue}\n")
