"""What a browser counts as deliverable, on a Kafka in memory."""

from jbm_kafka.core.destination import Queue
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
    found = browse(kafka, QUEUE, namespace="", now_ms=500, lane=None, include_all=True)
    assert [seen.is_deliverable for seen in found] == [False, True, False, True, False]
