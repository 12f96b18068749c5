"""A log that loses what a queue still held: the group worker goes on at its start, and tells what is gone."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from jbm_kafka.codec.events import decode_events
from jbm_kafka.core.channel.entries import MessageEvent, MessageFate
from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.clock import SystemClock
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.sidecar.parts import link_of
from tests.support.waiting import wait_until

ORDERS = Queue("orders")
SOON_S = 20.0


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster(SystemClock())
    cluster.create_topic("orders", 1, {})
    return cluster


@pytest.fixture
def link(cluster: MemoryCluster) -> Iterator[Link]:
    """A receiver of the queue that takes whatever comes."""
    clock = SystemClock()
    sidecar = Sidecar(
        kafka=MemoryKafka(cluster),
        clock=clock,
        config=SidecarConfig(checkpoint_interval_ms=20),
        stores=Stores(MemoryJournal(clock=clock), MemoryHeldStore(), "jbm.one.0", lambda: None),
    )
    with ExitStack() as stack:
        stack.callback(sidecar.close)
        link = link_of("s")
        link.demand.is_waiting = True
        link.group_worker = sidecar.sources.attach(ORDERS, link)
        stack.callback(lambda: link.group_worker.detach(link.terms.link_id))
        yield link


def send(cluster: MemoryCluster, *bodies: bytes) -> None:
    with cluster.changed:
        for body in bodies:
            assert isinstance(cluster.append(Outgoing("orders", 0, None, body), None), int)


def next_offset(link: Link) -> int:
    def taken() -> Delivery | None:
        with link.lock:
            delivery = link.pop()
            if delivery is None and not link.is_asking:
                link.request(1)
        return delivery

    return wait_until(taken, about="a message", timeout_s=SOON_S).offset


def skipped(cluster: MemoryCluster) -> list[MessageEvent]:
    found: list[MessageEvent] = []
    with cluster.changed:
        for log in cluster.topics["jbm.events"].logs:
            records, _ = log.read(log.begin, 1_000, committed_only=True)
            events = [decode_events(record.value() or b"") for record in records]
            found += [m for event in events for m in event.messages if m.fate is MessageFate.SKIPPED]
    return found


def test_a_group_worker_goes_on_at_the_start_of_a_log_that_lost_its_position_and_notes_what_is_gone(
    cluster: MemoryCluster, link: Link
) -> None:
    """Of LOG-4: nothing vanishes untold, whoever deleted it."""
    send(cluster, b"a")
    assert next_offset(link) == 0
    with cluster.changed:  # the group worker sees the log only when both have happened
        send(cluster, b"b", b"c", b"d")
        cluster.log("orders", 0).delete_before(3)
    assert next_offset(link) == 3
    (event,) = wait_until(lambda: skipped(cluster), about="the event", timeout_s=SOON_S)
    assert (event.offset, event.unit, event.target) == (0, None, None)
    assert event.reason.startswith("offsets 0 to 2, as far as they were not settled")
    send(cluster, b"e")
    assert next_offset(link) == 4
    assert len(skipped(cluster)) == 1
