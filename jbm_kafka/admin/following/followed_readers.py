"""How far behind the queries and archives of Spark are that are registered as readers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.channel.backlog import QueryLag
from jbm_kafka.ports import KafkaClientError, LogReader, TopicDescription

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 5.0
SLICE = 20
"""Offsets that are read to find the oldest unread record: the first of them may be the marker of a transaction."""

_Place = tuple[str, int, int]
_Ends = Mapping[str, Mapping[int, int]]


class FollowedReaders:
    """Knows when the oldest record was written that each of them has not read; one record is read once. One thread."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._written_ms: dict[_Place, int | None] = {}

    def lags(
        self, readers: Iterable[RegisteredReader], described: Mapping[str, TopicDescription], begins: _Ends, ends: _Ends
    ) -> tuple[QueryLag, ...]:
        """Return how far each is behind these ends; of one whose topic is gone nothing."""
        found: list[QueryLag] = []
        known: dict[_Place, int | None] = {}
        for each in readers:
            topic = described.get(each.topic)
            if topic is None or each.topic not in ends or each.topic not in begins:
                continue
            unread = each.unread(topic.topic_id, begins[each.topic], ends[each.topic])
            known |= self._oldest(topic, unread)
            written = [known[topic.topic_id, p, begin] for p, (begin, _) in unread.items()]
            found.append(
                QueryLag(
                    query=each.name.removesuffix(f"/{each.topic}"),
                    destination=each.topic,
                    records=sum(end - begin for begin, end in unread.values()),
                    oldest_at_ms=min((at_ms for at_ms in written if at_ms is not None), default=None),
                )
            )
        self._written_ms = known
        return tuple(found)

    def _oldest(self, topic: TopicDescription, unread: Mapping[int, tuple[int, int]]) -> dict[_Place, int | None]:
        """When the first record of each range was written; None: that is not known."""
        places = {p: (topic.topic_id, p, begin) for p, (begin, _) in unread.items()}
        missing = {p: (begin, min(begin + SLICE, end)) for p, (begin, end) in unread.items()
                   if self._written_ms.get(places[p]) is None}  # fmt: skip
        first: dict[int, int] = {}
        if missing:
            try:
                for record in self._reader.read(topic.name, missing, timeout_s=READ_TIMEOUT_S):
                    partition = record.partition()
                    assert partition is not None
                    first.setdefault(partition, record.timestamp()[1])
            except KafkaClientError as error:
                log.debug("%s cannot be read for the age of what queries have not read: %s", topic.name, error)
        return {place: self._written_ms.get(place) or first.get(p) for p, place in places.items()}
