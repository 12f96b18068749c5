"""What `show` counts of the messages of a queue."""

from jbm_kafka.admin.counts import Tally, count_group, tallies
from jbm_kafka.codec.pause_record import NOTHING
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.channel.unit_places import UnitPlaces
from jbm_kafka.core.destination import Queue
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import CommittedOffset, Outgoing
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.channel_group import ChannelGroup
from tests.support.manual_clock import ManualClock
from tests.support.records import Record

NOW_MS = 1_000


def seen(*headers: Header, due_at_ms: int = 0, attempts: int = 0, offset: int = 0) -> Seen:
    record = Record(headers=headers, partition=0, offset=offset, timestamp_ms=500 + offset)
    return Seen(record=record, state=MessageState.NEW, attempts=attempts, due_at_ms=due_at_ms, is_deliverable=False)


def test_a_unit_that_waits_for_an_operator_is_not_counted_as_delayed() -> None:
    """It looked as if it would go on by itself."""
    rows = [seen(due_at_ms=FOREVER_MS, attempts=10), seen(due_at_ms=NOW_MS + 5, attempts=1, offset=1), seen(offset=2)]
    assert tallies(rows, UnitPlaces(1), NOW_MS) == {
        0: Tally(held=3, delayed=1, retried=2, for_operator=1, oldest_at_ms=500),
    }


def test_what_has_expired_and_that_nobody_receives_is_counted() -> None:
    """It was held, not delayed, and no browser showed it as deliverable: nobody could tell why."""
    rows = [seen(("JMSExpiration", b"999")), seen(("JMSExpiration", b"1001"), offset=1)]
    assert tallies(rows, UnitPlaces(1), NOW_MS) == {0: Tally(held=2, expired=1, oldest_at_ms=500)}


def test_what_was_settled_while_it_is_counted_is_not_beyond_the_end() -> None:
    """`show` of a busy queue said "settled to 12, end 10": the two are asked for one after the other."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    admin = MemoryKafka(cluster).admin()
    cluster.create_topic("orders", 1, {})
    with cluster.changed:
        for _ in range(10):
            cluster.append(Outgoing("orders", 0, None, b"", ()), None)
    admin.alter_offsets("jbm.queue.orders", "orders", {0: CommittedOffset(12, "")})
    (partition,) = count_group(
        ChannelGroup.of_queue(Queue("orders"), namespace=""),
        admin.describe(["orders"])["orders"],
        admin=admin,
        seen=dict,
        count_max=100,
        pause=NOTHING,
        places=UnitPlaces(1),
        has_changelog=True,
    ).partitions
    assert (partition.settled_to, partition.end) == (10, 10)
