"""Keeps the batches for a topic that takes only small ones within what it takes.

librdkafka fills batches to one size for all topics, and a broker refuses a batch that is larger than its topic's
`max.message.bytes`, though each record in it would fit.
"""

from jbm_kafka.kafka.profiles import BATCH_BYTES
from jbm_kafka.ports import Outgoing

_BATCH_FRAME_BYTES = 61
_RECORD_FRAME_BYTES = 32
_HEADER_FRAME_BYTES = 10
_UTF8_BYTES_MAX = 4


class SmallBatches:
    """What one producer has queued since its last flush for such topics. The producer's thread only."""

    def __init__(self) -> None:
        self._queued_bytes: dict[tuple[str, int], int] = {}

    def count(self, record: Outgoing) -> bool:
        """A record about to be queued; True: flush first, for with what is queued for its partition it is too much."""
        limit_bytes = record.batch_bytes_max
        if not 0 < limit_bytes < BATCH_BYTES:
            return False
        place = (record.topic, record.partition)
        size = _bytes_at_most(record)
        queued_bytes = self._queued_bytes.get(place, 0)
        is_too_much = queued_bytes > 0 and _BATCH_FRAME_BYTES + queued_bytes + size > limit_bytes
        if is_too_much:
            self._queued_bytes.clear()
            queued_bytes = 0
        self._queued_bytes[place] = queued_bytes + size
        return is_too_much

    def clear(self) -> None:
        """Nothing is queued."""
        self._queued_bytes.clear()


def _bytes_at_most(record: Outgoing) -> int:
    size = _RECORD_FRAME_BYTES + len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size += _HEADER_FRAME_BYTES + _UTF8_BYTES_MAX * len(name) + len(content or b"")
    return size
