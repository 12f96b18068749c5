"""What the log says of an application that is in one message for long: nothing did, until it was closed."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.lane.slow_consumers import EACH_MAX, FIRST_MS, LOOK_MS
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock


@pytest.fixture
def process() -> Iterator[SteppedSidecar]:
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    yield process
    process.crash()


@pytest.fixture(autouse=True)
def all_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "jbm_kafka.messages")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was said since it was asked last."""
    found = [row.getMessage() for row in caplog.records if row.name == "jbm_kafka.messages"]
    caplog.clear()
    return found


def take(process: SteppedSidecar, link: Link) -> None:
    """As a receive takes the next message."""
    link.demand.credit = 1
    process.run(lambda: len(link.buffer) > 0)
    assert link.pop() is not None


@pytest.mark.parametrize("listens", [True, False])
def test_an_application_that_hung_in_a_message_had_no_line(
    process: SteppedSidecar, caplog: pytest.LogCaptureFixture, listens: bool
) -> None:
    """Of LOG-3: told after a minute, and whenever it has doubled; never of what it finished, or asked after."""
    link = process.attach("s")
    process.send("a secret", unit=b"joe", headers=[("JMSMessageID", b"ID:c1:5")])
    process.send("another", headers=[("JMSMessageID", b"ID:c1:6")])
    take(process, link)
    link.demand.is_in_listener = listens
    process.run_for(FIRST_MS - LOOK_MS)
    assert lines(caplog) == []
    process.run_for(2 * LOOK_MS)
    [line] = lines(caplog)
    what = "a listener is in it" if listens else "received and not acknowledged, and nothing was asked"
    assert line.startswith(f"orders[0] offset 0: {what} for 6")
    assert "; 1 message waits behind it in this process (partition 0); if it hangs, stop this process" in line
    assert line.endswith("; id ID:c1:5")
    assert "secret" not in line
    assert "joe" not in line
    process.run_for(FIRST_MS - 2 * LOOK_MS)
    assert lines(caplog) == []
    process.run_for(3 * LOOK_MS)
    assert len(lines(caplog)) == 1
    process.run_for(FIRST_MS)
    assert lines(caplog) == []

    take(process, link)
    process.run_for(FIRST_MS - LOOK_MS)
    assert lines(caplog) == []
    process.run_for(2 * LOOK_MS)
    [line] = lines(caplog)
    assert line.endswith(" s; id ID:c1:6")
    link.demand.is_in_listener = False
    link.settlement.leases[0].acknowledge(1)
    process.run_for(FIRST_MS)
    process.run_for(FIRST_MS)
    assert lines(caplog) == []


def test_many_that_hang_are_counted(process: SteppedSidecar, caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-3."""
    links = [process.attach(f"s{number}") for number in range(EACH_MAX + 3)]
    process.send(*(str(number) for number in range(len(links))))
    for link in links:
        take(process, link)
        link.demand.is_in_listener = True
    process.run_for(FIRST_MS + 2 * LOOK_MS)
    [*each, last] = lines(caplog)
    assert len(each) == EACH_MAX
    assert last == "queue:orders: 3 more receivers of this process are in one message for a minute or longer"


def test_a_listener_that_hung_was_never_above_info(process: SteppedSidecar, caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-3: who watches warnings alone saw nothing for an hour. Nothing waits behind it, so it has some minutes."""
    link = process.attach("s")
    process.send("only one", unit=b"joe")
    take(process, link)
    link.demand.is_in_listener = True
    for _ in range(3):
        process.run_for(FIRST_MS)
    assert [row.levelname for row in caplog.records] == ["INFO", "INFO"]
    assert "s; its unit waits for it; id " in caplog.messages[0]
    caplog.clear()
    process.run_for(FIRST_MS)
    process.run_for(FIRST_MS)
    [row] = caplog.records
    assert row.levelname == "WARNING"
    assert "; if it hangs, stop this process, and others get what it has; id " in row.getMessage()


def test_what_waits_behind_it_makes_it_a_warning_at_once(
    process: SteppedSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    """Of LOG-3: 42 messages of eight units waited behind one, without a line above INFO."""
    link, other = process.attach("s"), process.attach("t")
    process.send("1", "2", "3", unit=b"joe")
    process.send("4", unit=b"ann")
    take(process, link)
    link.demand.is_in_listener = True
    process.run_for(FIRST_MS + LOOK_MS)
    [row] = caplog.records
    assert row.levelname == "WARNING"
    assert "; 2 messages wait behind it in this process (partition 0); if it hangs" in row.getMessage()
    assert "ann" not in row.getMessage()
    caplog.clear()

    take(process, other)  # nobody is free now, and what comes waits for one of them
    other.demand.is_in_listener = True
    process.send("5", unit=b"kim")
    process.run_for(FIRST_MS + LOOK_MS)
    first, second = (row.getMessage() for row in caplog.records)
    assert "; 3 messages wait behind it in this process (partition 0)" in first
    assert "; 3 messages wait behind it in this process (partition 0)" in second


def test_what_waits_for_a_time_waits_for_no_listener(process: SteppedSidecar, caplog: pytest.LogCaptureFixture) -> None:
    link = process.attach("s")
    process.send("now")
    later_ms = process.clock.now_ms() + 3_600_000
    process.send("later", headers=[("JMSDeliveryTime", str(later_ms).encode())])
    take(process, link)
    link.demand.is_in_listener = True
    process.run_for(FIRST_MS + 2 * LOOK_MS)
    assert [row.levelname for row in caplog.records] == ["INFO"]
