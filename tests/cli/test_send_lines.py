"""Who sends the lines of a file and fails in the middle is told which line failed and which lines are in the queue."""

import io
import os
from collections.abc import Iterable
from pathlib import Path

import click
import pytest

from jbm_kafka import ConnectionFactory, Message, Queue
from jbm_kafka.cli.send import MessageMaker, send_bodies
from jbm_kafka.cli.send_progress import SendProgress
from jbm_kafka.core.jms_errors import JMSError, SendTimeoutError
from tests.cli.conftest import Run

NOWHERE = "127.0.0.1:1"
QUEUE = Queue("orders")


def _said(bodies: Iterable[bytes], kind: str | None, *, count: int = 1) -> tuple[str, list[object]]:
    """How the sends of them ended, and what is in the queue then."""
    noun = "line" if count == 1 else "message"
    with ConnectionFactory("memory://lines").create_context() as jms:
        consumer = jms.create_consumer(QUEUE)
        with ConnectionFactory("memory://lines").create_connection() as other, other.create_session() as session:
            said = "sent"
            try:
                send_bodies(
                    session.create_producer(QUEUE), bodies, MessageMaker(kind), SendProgress(QUEUE, noun), count=count
                )
            except (JMSError, click.UsageError) as error:
                said = f"{type(error).__name__}: {error}"
        found: list[object] = []
        while (message := consumer.receive(0.2)) is not None:
            found.append(message.body)
    return said, found


@pytest.mark.parametrize("is_of_file", [True, False])
@pytest.mark.parametrize(
    ("kind", "third", "why"),
    [
        ("map", b'{"a":', "--kind map: the body is not JSON: Expecting value: column 6 (char 5)"),
        ("object", b"[NaN]", "--kind object: the body is not JSON: NaN is Python's, and no number of JSON"),
        ("object", b"9" * 5_000, "--kind object: the body is not JSON: a number has more than 4,300 digits; write it"),
        ("map", b"[1]", "--kind map wants a JSON object, as in {"),
        (
            "text",
            b"\xff",
            "--kind text: the body is not UTF-8: 'utf-8' codec can't decode byte 0xff in position 0: invalid start "
            "byte; give --kind bytes, or leave --kind out",
        ),
    ],
)
def test_a_line_of_another_kind_is_told_before_the_first_is_sent(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, third: bytes, why: str, is_of_file: bool
) -> None:
    """It was told without its number when the lines before it were sent; the exit code was that of a failing Kafka.

    No Kafka is asked: there is none.
    """
    file = tmp_path / "half.json"
    file.write_bytes(b'{"a": 1}\n{"a": 2}\n' + third + b'\n{"a": 4}\n')
    with file.open("rb") as opened:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(opened))  # as in `send - <half.json`
        said = run("send", "q", str(file) if is_of_file else "-", "--lines", "--kind", kind, "--bootstrap", NOWHERE)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith(f"jbm-kafka send: line 3: {why}")
    assert said.err.endswith("; nothing was sent\n")


def test_a_wrong_line_of_a_pipe_is_told_with_those_that_were_sent() -> None:
    said, found = _said(iter([b'{"a": 1}', b'{"a": 2}', b"{", b'{"a": 4}']), "map")
    assert said.startswith("UsageError: line 3: --kind map: the body is not JSON: Expecting property name")
    assert said.endswith("; lines 1 to 2 were sent to queue:orders, and nothing else")
    assert found == [{"a": 1}, {"a": 2}]


def test_nothing_behind_a_line_that_is_too_large_is_sent() -> None:
    """It said "after 3 sent" of lines 1, 2 and 4: who went on after three sent the fourth twice."""
    said, found = _said(iter([b"ok 1", b"ok 2", os.urandom(2_000_000), b"ok 4"]), None)
    assert said.startswith("JMSError: line 3: queue:orders: a message of 2000")
    assert said.endswith("; lines 1 to 2 were sent to queue:orders, and nothing else")
    assert found == ["ok 1", "ok 2"]


def test_lines_of_all_sizes_are_sent_in_their_order_each_so_often() -> None:
    said, found = _said(iter([b"a", b"b" * 200_000, b"c"]), None, count=2)
    assert said == "sent"
    assert found == ["a", "a", "b" * 200_000, "b" * 200_000, "c", "c"]


def test_a_single_message_that_fails_is_told_without_a_number() -> None:
    with ConnectionFactory("memory://lines").create_connection() as connection, connection.create_session() as session:
        producer = session.create_producer(QUEUE)
        with pytest.raises(JMSError, match=r"^queue:orders: a message of 2000\d+ bytes .* max.message.bytes$"):
            send_bodies(producer, [os.urandom(2_000_000)], MessageMaker(None), SendProgress(QUEUE), count=1)


FAULT, LATE = JMSError("no"), SendTimeoutError("late")


@pytest.mark.parametrize(
    ("reports", "begun", "told"),
    [
        ([FAULT], 1, "line 1: no; nothing was sent"),
        ([None, FAULT], 2, "line 2: no; line 1 was sent to queue:orders, and nothing else"),
        (
            [None, None, FAULT, None, FAULT, None, None],
            7,
            "line 3: no; lines 1 to 2, 4 and 6 to 7 were sent to queue:orders, and nothing else",
        ),
        (
            [None, LATE, None],
            5,
            "line 2: late; lines 1 and 3 were sent to queue:orders, and nothing else for certain; of lines 2 and 4 to "
            "5 it is not known",
        ),
        ([LATE], 1, "line 1: late; nothing was sent for certain; of line 1 it is not known"),
        ([None, None], 3, "the first 2 were sent to queue:orders; of 1 more it is not known"),
    ],
)
def test_lines_sent_behind_one_that_failed_are_told_one_by_one(
    reports: list[Exception | None], begun: int, told: str
) -> None:
    """They are under way when it fails: only who knows which arrived can go on from there."""
    progress = SendProgress(QUEUE, "line")
    progress.begun = begun
    for error in reports:
        progress.reported(Message(), error)
    assert progress.text() == told
