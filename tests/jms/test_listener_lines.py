"""What the log says of listeners that raise."""

from __future__ import annotations

import pytest

from jbm_kafka import Queue
from jbm_kafka.jms.receiving import listening
from jbm_kafka.jms.receiving.listener_lines import EACH_MAX, INTERVAL_MS, ListenerLines
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.waiting import wait_until


def raise_for(
    lines: ListenerLines, count: int, error: BaseException, now_ms: int = 0, destination: str = "orders"
) -> None:
    for number in range(count):
        lines.raised(f"ID:{number}", f"queue:{destination}", error, "it comes again", now_ms)


def test_an_outage_of_what_listeners_call_buried_every_other_line(caplog: pytest.LogCaptureFixture) -> None:
    """550 tracebacks of 12 lines each in 25 s."""
    lines = ListenerLines()
    raise_for(lines, 500, OSError("the warehouse is away"))
    assert len(caplog.records) == EACH_MAX
    assert [record.exc_info is not None for record in caplog.records] == [True] + [False] * (EACH_MAX - 1)
    told = [record.getMessage() for record in caplog.records]
    assert told[0] == "message ID:0 of queue:orders: its listener raised; it comes again"
    assert told[1] == "message ID:1 of queue:orders: its listener raised OSError again; it comes again"
    lines.tell_due(INTERVAL_MS)
    counted = caplog.records[-1]
    assert counted.getMessage() == "queue:orders: its listener raised OSError 495 more times within 5.0 s"
    assert counted.levelname == "WARNING"


def test_what_is_not_the_same_is_told_by_itself(caplog: pytest.LogCaptureFixture) -> None:
    lines = ListenerLines()
    raise_for(lines, 10, OSError())
    caplog.clear()
    raise_for(lines, 1, KeyError())
    raise_for(lines, 1, OSError(), destination="letters")
    assert all(record.exc_info is not None for record in caplog.records)
    assert len(caplog.records) == 2


def test_one_that_comes_back_after_a_while_has_its_traceback_again(caplog: pytest.LogCaptureFixture) -> None:
    lines = ListenerLines()
    raise_for(lines, 1, OSError())
    lines.tell_due(INTERVAL_MS)
    raise_for(lines, 1, OSError(), now_ms=INTERVAL_MS)
    assert [record.exc_info is not None for record in caplog.records] == [True, True]


def test_a_flood_that_goes_on_has_no_second_traceback(caplog: pytest.LogCaptureFixture) -> None:
    lines = ListenerLines()
    for now_ms in range(0, 3 * INTERVAL_MS, 100):
        lines.tell_due(now_ms)
        raise_for(lines, 1, OSError(), now_ms=now_ms)
    assert sum(record.exc_info is not None for record in caplog.records) == 1
    assert len(caplog.records) == EACH_MAX + 2


def test_what_was_counted_at_the_end_is_told(caplog: pytest.LogCaptureFixture) -> None:
    lines = ListenerLines()
    raise_for(lines, 7, SystemExit(1))
    lines.end(1_000)
    assert "called sys.exit()" in caplog.text
    assert caplog.records[-1].getMessage() == "queue:orders: its listener raised SystemExit 2 more times within 1.0 s"


def test_a_second_exit_in_a_listener_had_a_garbled_line(caplog: pytest.LogCaptureFixture) -> None:
    """`set an event that the main thread waits for SystemExit again`."""
    raise_for(ListenerLines(), 2, SystemExit(1))
    first, second = [record.getMessage() for record in caplog.records]
    assert first.endswith("its listener called sys.exit(), which ends nothing here: set an event that the main thread "
                          "waits for; it comes again")  # fmt: skip
    assert second == "message ID:1 of queue:orders: its listener called sys.exit() again; it comes again"


def test_a_listener_of_a_connection_that_nobody_started_was_silent(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A receive there warned at once."""
    monkeypatch.setattr(listening, "UNSTARTED_S", 0.0)
    with MemoryWorld() as world:
        connection = world.factory().create_connection()
        connection.create_session().create_consumer(Queue("orders")).set_listener(print)
        wait_until(lambda: bool(caplog.messages), about="the warning", timeout_s=30)
        connection.close()
    [line] = caplog.messages
    assert line.startswith("queue:orders: a listener waits on a connection that is not started, so nothing comes: ")


def test_the_fields_of_a_line_tell_which_message_it_was(caplog: pytest.LogCaptureFixture) -> None:
    lines = ListenerLines("handler")
    lines.raised("ID:1", "queue:orders", OSError(), "it comes again", 0, (3, 17), 2)
    found = vars(caplog.records[0])
    assert [found[name] for name in ("destination", "partition", "offset", "message_id", "attempt", "reason")] == [
        "orders",
        3,
        17,
        "ID:1",
        2,
        "OSError",
    ]
