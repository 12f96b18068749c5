"""Dead letters by what went wrong: a pure fold, and the selector that chooses a group.

Errors of one kind are one (core/failure_kind.py): `no customer 17` and `no customer 18`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel

from jbm_kafka.admin import DeadLetter
from jbm_kafka.codec.dead_letter import (
    ACTUAL_EXPIRY,
    DEAD_LETTER_REASON,
    LAST_ERROR_KIND,
    ORIG_DESTINATION,
    ORIG_SUBSCRIPTION,
)
from jbm_kafka.core.channel.departure import EXPIRED
from jbm_kafka.core.failure_kind import failure_kind

UNITS_KEPT = 10_000
"""Units that are told apart in one group."""


class LetterGroup(BaseModel):
    """Letters of one origin that left for one reason, with one error."""

    error: str
    """With a mark for what varies; empty: none is known."""
    reason: str
    """Empty: it tells none; somebody else wrote it there."""
    origin: str
    """As in `queue:orders`; empty: none."""
    subscription: str
    count: int
    units: int
    without_unit: int
    first_at_ms: int
    last_at_ms: int
    selector: str
    """It chooses these letters, and none of another group."""
    example: str
    """The place of the latest, as 0.17."""
    example_error: str
    """As it was."""


@dataclass(slots=True)
class _Sum:
    count: int = 0
    units: set[str] = field(default_factory=set)
    without_unit: int = 0
    first_at_ms: int = 1 << 62
    last_at_ms: int = -1
    example: str = ""
    example_error: str = ""


class LetterGroups:
    """Takes letters one after the other. One thread."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str, str, str], _Sum] = {}
        self.count = 0

    def take(self, letters: Iterable[DeadLetter]) -> None:
        """Count these."""
        for letter in letters:
            error = letter.last_error or ""
            origin = letter.origin
            key = (failure_kind(error), letter.reason or "", origin.destination or "", origin.subscription or "")
            found = self._sums.setdefault(key, _Sum())
            self.count, found.count = self.count + 1, found.count + 1
            if letter.unit is None:
                found.without_unit += 1
            elif len(found.units) < UNITS_KEPT:
                found.units.add(letter.unit)
            found.first_at_ms = min(found.first_at_ms, letter.died_at_ms)
            if letter.died_at_ms >= found.last_at_ms:
                found.last_at_ms = letter.died_at_ms
                found.example, found.example_error = f"{letter.partition}.{letter.offset}", error

    def found(self) -> Sequence[LetterGroup]:
        """The groups, the largest first."""
        groups = [
            LetterGroup(
                error=error,
                reason=reason,
                origin=origin,
                subscription=subscription,
                count=each.count,
                units=len(each.units),
                without_unit=each.without_unit,
                first_at_ms=each.first_at_ms,
                last_at_ms=each.last_at_ms,
                selector=group_selector(error, reason, origin, subscription),
                example=each.example,
                example_error=each.example_error,
            )
            for (error, reason, origin, subscription), each in self._sums.items()
        ]
        return sorted(groups, key=lambda group: (-group.count, group.origin, group.error))


def group_selector(error: str, reason: str, origin: str, subscription: str) -> str:
    """Return what chooses the letters of a group."""
    parts = [_is(ORIG_DESTINATION, origin)]
    if subscription:
        parts.append(_is(ORIG_SUBSCRIPTION, subscription))
    if reason == EXPIRED:
        parts += [f"{DEAD_LETTER_REASON} IS NULL", f"{ACTUAL_EXPIRY} IS NOT NULL"]
    else:
        parts.append(_is(DEAD_LETTER_REASON, reason))
    parts.append(_is(LAST_ERROR_KIND, error))
    return " AND ".join(parts)


def _is(name: str, value: str) -> str:
    return f"{name} = {_quoted(value)}" if value else f"{name} IS NULL"


def _quoted(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
