"""Since when receivers have what they have in hand, and which receiver of a session got it. Owner thread only.

For people who ask why a message does not move (decision 39). A row for each batch that was handed over, and none for a
message: so it costs what a batch costs.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from jbm_kafka.core.reference import Reference, SessionId
from jbm_kafka.ports.link import Link

ROWS_LEAST = 64


class HandOver(NamedTuple):
    """One batch."""

    at_ms: int
    """As the channel's clock goes."""
    link_id: str
    session_id: SessionId
    offsets: Collection[int]


class HandOvers:
    """Of one channel."""

    __slots__ = ("_look_at", "_rows")

    def __init__(self) -> None:
        self._rows: list[HandOver] = []
        self._look_at = ROWS_LEAST

    def note(
        self,
        link: Link,
        at_ms: int,
        references: Sequence[Reference],
        in_hand: Mapping[SessionId, Container[int]],
        *,
        is_ascending: bool,
    ) -> None:
        """These were given to the link at that time. `in_hand`: what each session has now, so that old rows go."""
        first, last = references[0].offset, references[-1].offset
        is_run = is_ascending and last - first + 1 == len(references)
        offsets: Collection[int] = range(first, last + 1) if is_run else frozenset([r.offset for r in references])
        self._rows.append(HandOver(at_ms, link.terms.link_id, link.terms.session_id, offsets))
        if len(self._rows) >= self._look_at:
            self._rows = [row for row in self._rows if _is_held(row, in_hand.get(row.session_id, ()))]
            self._look_at = max(ROWS_LEAST, 2 * len(self._rows))

    def last_of(self, offset: int) -> HandOver | None:
        """How a message that is in hand came there."""
        for row in reversed(self._rows):
            if offset in row.offsets:
                return row
        return None


def _is_held(row: HandOver, hand: Container[int]) -> bool:
    return any(offset in hand for offset in row.offsets)
