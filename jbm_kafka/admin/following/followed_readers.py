"""How far behind the queries and archives of Spark are that are registered as readers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.channel.backlog import QueryLag
from jbm_kafka.ports import KafkaClientError, LogReader, TopicDescription

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 5.0
SLICE = 20
"""Offsets that are read by one look for the oldest unread record: the first ones may be markers of transactions, or
records of some that were rolled back. The next look goes on behind them."""

_Place = tuple[str, int, int]
_Ends = Mapping[str, Mapping[int, int]]


class _Look(NamedTuple):
    written_ms: int | None
    """When the first record from the place on was written; None: none was found yet."""
    next: int
    """The first offset that was not looked at for it."""


class FollowedReaders:
    """Knows when the oldest record was written that each of them has not read; one record is read once. One thread."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader
        self._looks: dict[_Place, _Look] = {}

    def lags(
        self, readers: Iterable[RegisteredReader], described: Mapping[str, TopicDescription], begins: _Ends, ends: _Ends
    ) -> tuple[QueryLag, ...]:
        """Return how far each is behind these ends; of one whose topic is gone nothing."""
        found: list[QueryLag] = []
        looks: dict[_Place, _Look] = {}
        for each in readers:
            topic = described.get(each.topic)
            if topic is None or each.topic not in ends or each.topic not in begins:
                continue
            unread = each.unread(topic.topic_id, begins[each.topic], ends[each.topic])
            self._look(topic, unread, looks)
            written = [looks[topic.topic_id, p, begin].written_ms for p, (begin, _) in unread.items()]
            found.append(
                QueryLag(
                    query=each.name.removesuffix(f"/{each.topic}"),
                    destination=each.topic,
                    records=sum(end - begin for begin, end in unread.values()),
                    oldest_at_ms=min((at_ms for at_ms in written if at_ms is not None), default=None),
                )
            )
        self._looks = looks
        return tuple(found)

    def _look(self, topic: TopicDescription, unread: Mapping[int, tuple[int, int]], looks: dict[_Place, _Look]) -> None:
        """Add a look for the first record of each range."""
        of = {p: (topic.topic_id, p, begin) for p, (begin, _) in unread.items()}
        missing: dict[int, tuple[int, int]] = {}
        for p, (begin, end) in unread.items():
            known = looks[of[p]] = looks.get(of[p]) or self._looks.get(of[p]) or _Look(None, begin)
            if known.written_ms is None and known.next < end:
                missing[p] = known.next, min(known.next + SLICE, end)
        if not missing:
            return
        first: dict[int, int] = {}
        try:
            for record in self._reader.read(topic.name, missing, timeout_s=READ_TIMEOUT_S):
                partition = record.partition()
                assert partition is not None
                first.setdefault(partition, record.timestamp()[1])
        except KafkaClientError as error:
            log.debug("%s cannot be read for the age of what queries have not read: %s", topic.name, error)
            return
        looks.update({of[p]: _Look(first.get(p), end) for p, (_, end) in missing.items()})
