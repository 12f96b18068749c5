"""One page of what a queue or subscription holds, from a position on: nothing reads the whole log for a page.

Pages are in the order of the log, partitions merged by when their messages were sent; priorities change nothing here.
A page that begins in the midst of a log does not know the earlier messages of a unit, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from jbm_kafka.browsing.browse import OpenedLook, open_look
from jbm_kafka.browsing.browse_order import MergedLog
from jbm_kafka.browsing.unacknowledged_query import UnacknowledgedQuery
from jbm_kafka.ports import AccessRefused, Kafka, KafkaAdmin
from jbm_kafka.ports.provider import Seen
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.own_topics import size_of

MARGIN_MS = 60_000
"""Senders stamp their messages, and their clocks may be so far apart."""
FIRST_OFFSETS, FIRST_LARGE_OFFSETS = 16, 2
"""The first read, of each partition; the latter where the topic takes bodies of many megabytes: it shows how large they
are. Each read costs as much as some thousand messages, so there should be few."""
LARGE_BYTES = 2 * 2**20
RECORDS_MAX = 4_000
"""Kept of what one read gave: a page needs few."""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class LookedPage(Generic[Row]):
    """A page, and where the next one begins."""

    rows: tuple[Row, ...]
    next: Mapping[int, int] | None
    """The offset at which a partition goes on; None: everything was looked at."""
    looked_at: int
    """So many records were read for it."""
    left: int
    """So many more are there at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWish:
    """Which page."""

    begin: Mapping[int, int]
    """The offset at which a partition goes on; empty: at the beginning."""
    since_ms: int | None
    """Only what was sent since then; None: all."""
    until_ms: int | None
    rows_max: int
    records_max: int
    """It ends after so many records, however few of them it shows."""
    for_s: float
    """It ends after so long, likewise."""


def look_page(
    kafka: Kafka,
    group: ChannelGroup,
    wish: PageWish,
    row_of: Callable[[Seen, bool], Row | None],
    *,
    now_ms: int,
    hands: UnacknowledgedQuery | None,
) -> LookedPage[Row]:
    """The next rows.

    Args:
        row_of: the row of a message; None: it is not wanted. The second argument is True when it is known whether
            earlier messages of its unit are held.
        hands: as of `browse`.

    Raises:
        KafkaClientError: it cannot be read.
    """
    with closing(kafka.admin()) as admin, closing(kafka.log_reader()) as reader:
        opened = open_look(group, admin, reader, now_ms=now_ms, hands=hands)
        begin = dict(wish.begin)
        if wish.since_ms is not None:
            since = admin.positions_since(group.topic, list(opened.spans), wish.since_ms)
            begin = {place: max(at, begin.get(place, 0)) for place, at in since.items()}
        positions = _positions(opened, begin)
        spans = {place: (max(first, positions[place]), last) for place, (first, last) in opened.spans.items()}
        parked = {
            place: [record for record in records if (record.offset() or 0) >= positions[place]]
            for place, records in opened.parked.items()
        }
        known = {place for place, at in positions.items() if at <= _first(opened, place)}
        first = FIRST_LARGE_OFFSETS if _takes_large(admin, group.topic) else FIRST_OFFSETS
        log = MergedLog(reader, group.topic, spans, parked, records_max=RECORDS_MAX, first_offsets=first)
        rows: list[Row] = []
        looked_at, deadline, is_over = 0, monotonic() + wish.for_s, True
        for record in log:
            place, offset = record.partition() or 0, record.offset() or 0
            if wish.until_ms is not None and record.timestamp()[1] > wish.until_ms + MARGIN_MS:
                break
            if len(rows) >= wish.rows_max or looked_at >= wish.records_max or monotonic() > deadline:
                is_over = False
                break
            looked_at, positions[place] = looked_at + 1, offset + 1
            found = opened.looks[place].at(place, record)
            row = None if found is None else row_of(found.seen, place in known)
            if row is not None:
                rows.append(row)
        left = sum(max(last - max(first, positions[place]), 0) for place, (first, last) in opened.spans.items())
        return LookedPage(tuple(rows), None if is_over else positions, looked_at, 0 if is_over else left)


def _takes_large(admin: KafkaAdmin, topic: str) -> bool:
    """Return True unless the topic is known to take small records alone.

    Whoever may only read may not see a topic's configuration; a page costs such a one a few reads more.
    """
    try:
        return size_of(admin.describe([topic], with_config=True)[topic]) > LARGE_BYTES
    except AccessRefused:
        return True


def _positions(opened: OpenedLook, begin: Mapping[int, int]) -> dict[int, int]:
    return {place: max(_first(opened, place), begin.get(place, 0)) for place in opened.spans}


def _first(opened: OpenedLook, place: int) -> int:
    """Where what is held of a partition begins, parked messages included."""
    parked = opened.parked.get(place)
    first = opened.spans[place][0]
    return min(parked[0].offset() or 0, first) if parked else first
