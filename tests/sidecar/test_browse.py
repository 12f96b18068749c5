"""What a browser counts as deliverable, on a Kafka in memory."""

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.browse import browse
from tests.kafka.world import send_all
from tests.support.manual_clock import ManualClock

QUEUE = Queue("orders")


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
    found = browse(kafka, QUEUE, namespace="", now_ms=500, group_worker=None, include_all=True)
    assert [seen.is_deliverable for seen in found] == [False, True, False, True, False]


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
            for seen in browse(
                kafka, QUEUE, namespace="", now_ms=500, group_worker=None, include_all=include_all, selector=selector
            )
        ]
        for include_all in (True, False)
    }
    assert found == {True: [1, 2, 3], False: [2, 3]}
