"""What a browser counts as deliverable, on a Kafka in memory."""

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.browse import browse
from jbm_kafka.sidecar.channel_group import ChannelGroup
from tests.kafka.world import send_all
from tests.sidecar.parts import group_worker_behind
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

QUEUE = Queue("orders")
GROUP = ChannelGroup.of_queue(QUEUE, namespace="")


def test_what_follows_an_expired_head_is_shown() -> None:
    """Of LOG-3: a browser hid the whole unit, though a receiver would get it: the expired one leaves first."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=1, config={})
    rows: list[tuple[bytes | None, bytes | None]] = [
        (b"a", b"100"),
        (b"a", None),
        (b"a", None),
        (b"b", b"900"),
        (None, b"100"),
    ]
    records = [Outgoing(QUEUE.name, 0, key, None, [("JMSExpiration", expiry)]) for key, expiry in rows]
    send_all(kafka, records)
    found = browse(kafka, GROUP, now_ms=500, hands=None, include_all=True)
    assert [seen.is_deliverable for seen in found] == [False, True, False, True, False]


def test_without_a_changelog_the_committed_offset_tells_what_is_left() -> None:
    """Of LOG-3: whoever deleted it, receivers begin there, and show and browsers told all of the log."""
    clock = ManualClock()
    cluster = MemoryCluster(clock, waits=False)
    process = SteppedSidecar("one", cluster)
    link = process.attach("s")
    process.send("a", "b", "c")
    process.receive(link, 3)
    link.settlement.leases[0].acknowledge(0)
    committed = cluster.group(group_worker_behind(link).data.group.group_id).committed
    process.run(lambda: any(offset.position == 1 for offset in committed.values()))
    process.crash()
    cluster.delete_topic(QUEUE.changelog_topic())
    found = browse(MemoryKafka(cluster), GROUP, now_ms=clock.now_ms(), hands=None, include_all=True)
    assert [seen.record.value() for seen in found] == [b"b", b"c"]


def test_a_selector_leaves_out_messages_and_lets_nobody_past_the_head_of_its_unit() -> None:
    """Of UNIT-6: what follows a head that is not selected is not deliverable for that."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic(QUEUE.name, partitions=1, config={})
    rows: list[tuple[bytes | None, bytes]] = [(b"a", b"US"), (b"a", b"EU"), (None, b"EU"), (b"b", b"EU"), (None, b"US")]
    send_all(kafka, [Outgoing(QUEUE.name, 0, key, None, [("jms.string.region", told)]) for key, told in rows])
    selector = parse_selector("region = 'EU'")
    found = {
        include_all: [
            seen.record.offset()
            for seen in browse(kafka, GROUP, now_ms=500, hands=None, include_all=include_all, selector=selector)
        ]
        for include_all in (True, False)
    }
    assert found == {True: [1, 2, 3], False: [2, 3]}
