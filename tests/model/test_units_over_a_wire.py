"""Goal: what goes back over a wire comes as if there were none (UNIT-3, REDELIVER-1), wherever reads and cuts fall.

Method: Hypothesis makes what a server has sent, how much of it the client received and its application saw, what is
given back, and where the outcomes are split into reads, or the connection breaks. The rules that both ends use are the
product's. Paper says what becomes of each message: counted where it was given back, marked where it was seen. Then each
rule is broken, one at a time, and a history that shows it must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from jbm_kafka.core.channel.first_outcome import NOTHING_SAID, SaidBehind, outcomes, rows_behind
from jbm_kafka.core.channel.settlement import Modified, uncounted
from jbm_kafka.core.receiving.going_back import behind

UNITS = ("joe", "ann", None)
Fate = tuple[bool, bool]
"""It counts as an attempt; it comes again marked."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What both ends go by."""

    behind: Callable[..., list[int]] = behind
    uncounted: Callable[..., list[Modified]] = uncounted
    outcomes: Callable[..., list[tuple[Modified, SaidBehind]]] = outcomes
    rows_behind: Callable[..., list[Modified]] = rows_behind


@dataclass(frozen=True, slots=True)
class History:
    """Messages are their places in the order sent, which the server has as offsets and the client numbers from 100."""

    units: Sequence[str | None]
    received: int
    """So many have come to the client."""
    seen: int
    """So many of those its application has had."""
    is_settled: frozenset[int]
    """What was acknowledged before, of what no unit has anything behind that goes back."""
    named: int | None
    """The one that is given back, as by `nack`; None: all that the application has, as by `recover`."""
    reads: Sequence[int]
    """How many outcomes are in each read."""
    cut: int | None
    """The connection breaks before this read; None: it does not."""

    def has(self, place: int) -> bool:
        return place not in self.is_settled

    def given_back(self) -> list[int]:
        held = [place for place in range(self.seen) if self.has(place)]
        if self.named is None or not held:
            return held
        return [held[self.named % len(held)]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    units = draw(st.lists(st.sampled_from(UNITS), min_size=1, max_size=9))
    received = draw(st.integers(0, len(units)))
    seen = draw(st.integers(0, received))
    done = draw(st.integers(0, seen))
    reads = draw(st.lists(st.integers(1, 4), max_size=6))
    named = draw(st.none() | st.integers(0, 8))
    return History(units, received, seen, frozenset(range(done)), named, reads, draw(st.none() | st.integers(0, 3)))


def by_paper(history: History) -> dict[int, set[Fate]]:
    """What may become of each message that goes back; of the others nothing is here."""
    named = history.given_back()
    said = _reads(history, _told_of(history, named))
    is_cut = history.cut is not None and history.cut < len(said)
    heard = {place for read in (said[: history.cut] if is_cut else said) for place in read}
    fates: dict[int, set[Fate]] = {}
    for place, unit in enumerate(history.units):
        earlier = [first for first in named if unit is not None and history.units[first] == unit and first <= place]
        if not history.has(place) or not (earlier or place in named or is_cut):
            continue
        is_heard = any(first in heard for first in earlier) or place in heard
        # Where the server never heard, it cannot know: its client may have seen all.
        fates[place] = {(place in named, place in named or place < history.seen) if is_heard else (False, True)}
    return fates


def _told_of(history: History, named: Sequence[int]) -> list[int]:
    """In the order of the outcomes: unit by unit, as they were first met."""
    told = [
        place
        for place in range(history.received)
        if history.has(place) and (place in named or any(_is_behind(history, first, place) for first in named))
    ]
    keys = [history.units[place] or place for place in told]
    return sorted(told, key=lambda place: keys.index(history.units[place] or place))


def _is_behind(history: History, first: int, place: int) -> bool:
    return history.units[first] is not None and history.units[first] == history.units[place] and first < place


def _reads(history: History, told: Sequence[Any]) -> list[list[Any]]:
    reads, left = [], list(told)
    for count in history.reads:
        if left:
            reads.append(left[:count])
            left = left[count:]
    return [*reads, left] if left else reads


def by_rules(history: History, rules: Rules) -> dict[int, list[Fate]]:
    """What the two ends make of it."""
    first = 100
    with_us = {first + place: history.units[place] for place in range(history.received) if history.has(place)}
    unread = {first + place for place in range(history.seen, history.received)}
    named = [Modified(first + place, counted=True) for place in history.given_back()]
    later = rules.behind(
        [(with_us[row.offset], row.offset) for row in named], [(n, (u, n)) for n, u in with_us.items()]
    )
    rows = [*named, *rules.uncounted(set(later) - {row.offset for row in named}, unread)]
    server = ServerHand({place: unit for place, unit in enumerate(history.units) if history.has(place)}, rules)
    for number, read in enumerate(_reads(history, rules.outcomes(rows, with_us.__getitem__))):
        if number == history.cut:
            server.lose()
            break
        server.read([(row._replace(offset=row.offset - first), said) for row, said in read])
    return server.fates


class ServerHand:
    """What the server has sent and not heard of."""

    def __init__(self, unsettled: dict[int, str | None], rules: Rules) -> None:
        self.fates: dict[int, list[Fate]] = {}
        self._unsettled = unsettled
        self._rules = rules

    def read(self, told: Iterable[tuple[Modified, SaidBehind]]) -> None:
        together: list[tuple[Modified, str | None]] = []
        for row, said in told:
            if row.offset not in self._unsettled:
                continue
            unit = self._unsettled.pop(row.offset)
            together.append((row, unit))
            if said != NOTHING_SAID:
                later = self._take_behind([(unit, row.offset)])
                together += [(each, unit) for each in self._rules.rows_behind(row, said, later)]
        rest = self._take_behind([(unit, row.offset) for row, unit in together])
        for row in [*(row for row, _ in together), *self._rules.uncounted(rest, None)]:
            self.fates.setdefault(row.offset, []).append((row.counted, row.counted or row.was_seen))

    def lose(self) -> None:
        for place in self._unsettled:
            self.fates.setdefault(place, []).append((False, True))

    def _take_behind(self, first: list[tuple[str | None, int]]) -> list[int]:
        found = self._rules.behind(first, [(place, (unit, place)) for place, unit in self._unsettled.items()])
        for place in found:
            self._unsettled.pop(place, None)
        return found


def check(history: History, rules: Rules) -> None:
    expected = {place: sorted(fates) for place, fates in by_paper(history).items()}
    assert by_rules(history, rules) == expected, history


@settings(max_examples=500, deadline=None)
@given(histories())
def test_what_goes_back_over_a_wire_comes_as_if_there_were_none(history: History) -> None:
    """UNIT-3, REDELIVER-1."""
    check(history, Rules())


def says_nothing(rows: Iterable[Modified], unit_of: Any) -> list[tuple[Modified, SaidBehind]]:
    return [(row, NOTHING_SAID) for row, _ in outcomes(rows, unit_of)]


def says_all_is_seen(rows: Iterable[Modified], unit_of: Any) -> list[tuple[Modified, SaidBehind]]:
    return [(row, said and SaidBehind(said.alike, 9)) for row, said in outcomes(rows, unit_of)]


def says_it_in_one_unit(rows: Iterable[Modified], unit_of: Any) -> list[tuple[Modified, SaidBehind]]:
    return outcomes(rows, lambda number: "joe" if unit_of(number) else None)


def forgets_what_is_alike(first: Modified, said: SaidBehind, offsets: Sequence[int]) -> list[Modified]:
    return rows_behind(first, SaidBehind(0, said.alike + said.seen), offsets)


def counts_all(first: Modified, said: SaidBehind, offsets: Sequence[int]) -> list[Modified]:
    return rows_behind(first, SaidBehind(said.alike + said.seen, 0), offsets)


def counts_from_the_end(first: Modified, said: SaidBehind, offsets: Sequence[int]) -> list[Modified]:
    return rows_behind(first, said, offsets[::-1])


def marks_nothing(offsets: Iterable[int], unread: Any) -> list[Modified]:
    return uncounted(offsets, None)


def marks_all(offsets: Iterable[int], unread: Any) -> list[Modified]:
    return uncounted(offsets, ())


def takes_nothing_along(first: Any, held: Any) -> list[int]:
    return []


def takes_what_is_before(first: Any, held: Any) -> list[int]:
    return behind([(unit, 0) for unit, _ in first], held)


def takes_one_along(first: Any, held: Any) -> list[int]:
    return behind(first, held)[:1]


@pytest.mark.parametrize(
    "broken",
    [
        *(Rules(outcomes=each) for each in (says_nothing, says_all_is_seen, says_it_in_one_unit)),
        *(Rules(rows_behind=each) for each in (forgets_what_is_alike, counts_all, counts_from_the_end)),
        *(Rules(uncounted=each) for each in (marks_nothing, marks_all)),
        *(Rules(behind=each) for each in (takes_nothing_along, takes_what_is_before, takes_one_along)),
    ],
)
def test_a_broken_rule_is_found(broken: Rules) -> None:
    """UNIT-3, REDELIVER-1."""

    @settings(max_examples=3_000, deadline=None, database=None, phases=[Phase.generate], derandomize=True)
    @given(histories())
    def histories_show_it(history: History) -> None:
        check(history, broken)

    with pytest.raises(AssertionError):
        histories_show_it()
