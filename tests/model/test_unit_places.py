"""Goal: whatever senders, admissions and endings do meanwhile, a unit never waits in two partitions (UNIT-11).

Method: all interleavings in a small world, breadth first: two senders with views of the registry that grow old,
messages that are on their way for a while and may be lost, receivers that settle, runs that admit partitions and that
end paths, and that die between any two steps and begin anew. Time is a step like any other. The one thing that is
checked, at each arrival, is written from docs/semantics.md: nothing of the unit is held in another partition. Then
every condition that decision 41 names is left out, one at a time, and the split must be found.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from jbm_kafka.core.channel.unit_places import Path, UnitPlaces
from jbm_kafka.core.murmur2 import partition_for

LEASE = 1
ON_ITS_WAY = 1
WAIT = LEASE + ON_ITS_WAY + 1
"""In steps of time. The lease's last moment, and the way's, are in the same step as what waits for them."""
SENDERS = 2
STALE = 99
ONE = UnitPlaces(1)
UNIT = next(unit for n in range(99) if partition_for(unit := f"u{n}".encode(), 2) == 1 != partition_for(unit, 3))
"""With one partition it is in 0, with two in 1, with three in 0 or 2."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What everybody keeps to."""

    wait: int = WAIT
    lease: int = LEASE
    claims: bool = True
    """A unit that an admission would move, and one whose path is being ended, is claimed first."""
    reads_what_is_held: bool = True
    reads_after_the_wait: bool = True
    compares_marks: bool = True
    looks_again_before_the_end: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """An admission or an ending, from its mark to its end."""

    mark: str
    left: int
    """Steps of time to be waited."""
    has_read: bool = False
    held: bool = False
    """What it read: something of the unit is held."""


@dataclass(frozen=True, slots=True)
class World:
    """All there is at one moment. The registry is kept as what it says of the one unit."""

    places: UnitPlaces = ONE
    views: tuple[tuple[UnitPlaces, int], ...] = ((ONE, 0),) * SENDERS
    """What each sender has read, and how long ago."""
    on_their_way: tuple[tuple[int, int], ...] = ()
    """Messages that may still arrive: partition, and for how long."""
    held: frozenset[int] = frozenset()
    """The partitions that hold something of the unit."""
    admission: Run | None = None
    ending: Run | None = None
    marks: int = 0
    split: bool = False


def key(world: World) -> object:
    def of(places: UnitPlaces) -> object:
        return places.partitions, places.next_partitions, places.admission, places.paths.get(UNIT)

    # Which sender has which view makes no difference.
    views = tuple(sorted((str(of(view)), age) for view, age in world.views))
    rest = (world.on_their_way, world.held, world.admission, world.ending, world.marks, world.split)
    return of(world.places), views, rest


class Explorer:
    """All steps that can be taken next."""

    def __init__(self, rules: Rules, *, runs_max: int, sent_max: int) -> None:
        self.rules = rules
        self._runs_max = runs_max
        self._sent_max = sent_max

    def following(self, world: World) -> Iterator[World]:
        if all(left for _, left in world.on_their_way):
            yield self._later(world)
        for sender in range(SENDERS):
            yield self._look(world, sender)
            if len(world.on_their_way) < self._sent_max:
                yield from self._send(world, sender)
        for message in world.on_their_way:
            yield from self._arrive(world, message)
        for partition in world.held:
            yield replace(world, held=world.held - {partition})
        yield from self._admit(world)
        yield from self._end(world)

    def _later(self, world: World) -> World:
        def waited(run: Run | None) -> Run | None:
            return None if run is None else replace(run, left=max(run.left - 1, 0))

        return replace(
            world,
            # What is too old to go by is the same, whatever it says.
            views=tuple((view, age + 1) if age < self.rules.lease else (ONE, STALE) for view, age in world.views),
            on_their_way=tuple(sorted((p, left - 1) for p, left in world.on_their_way)),
            admission=waited(world.admission),
            ending=waited(world.ending),
        )

    def _look(self, world: World, sender: int) -> World:
        views = list(world.views)
        views[sender] = world.places, 0
        return replace(world, views=tuple(views))

    def _send(self, world: World, sender: int) -> Iterator[World]:
        view, age = world.views[sender]
        if age > self.rules.lease:
            return
        partition = view.partition(UNIT)
        if partition is None:
            if self.rules.claims:
                world = self._look(replace(world, places=world.places.claimed([UNIT])), sender)
                partition = world.places.partition(UNIT)
                assert partition is not None
            else:
                partition = view.home(UNIT)
        yield replace(world, on_their_way=tuple(sorted([*world.on_their_way, (partition, ON_ITS_WAY)])))

    def _arrive(self, world: World, message: tuple[int, int]) -> Iterator[World]:
        left = list(world.on_their_way)
        left.remove(message)
        lost = replace(world, on_their_way=tuple(left))
        yield lost
        yield replace(lost, held=world.held | {message[0]}, split=bool(world.held - {message[0]}))

    def _admit(self, world: World) -> Iterator[World]:
        run = world.admission
        if run is None:
            if world.marks < self._runs_max and world.places.partitions < 3:
                wanted = world.places.next_partitions or world.places.partitions + 1
                places = world.places.admitting(wanted, f"m{world.marks}")
                begun = Run(places.admission, self.rules.wait)
                if not self.rules.reads_after_the_wait:
                    begun = replace(begun, has_read=True, held=bool(world.held))
                yield replace(world, places=places, admission=begun, marks=world.marks + 1)
            return
        yield replace(world, admission=None)  # it died
        if run.left:
            return
        if not run.has_read:
            yield replace(world, admission=replace(run, has_read=True, held=bool(world.held)))
            return
        held = [UNIT] if run.held and self.rules.reads_what_is_held else []
        mark = run.mark if self.rules.compares_marks else world.places.admission
        after = world.places.admitted(mark, held) if mark else None
        yield replace(world, admission=None, places=after or world.places)

    def _end(self, world: World) -> Iterator[World]:
        run = world.ending
        if run is None:
            if world.marks < self._runs_max and UNIT in world.places.paths and not world.held:
                mark = f"m{world.marks}"
                begun = Run(mark, self.rules.wait, has_read=not self.rules.looks_again_before_the_end)
                yield replace(world, places=world.places.ending([UNIT], mark), ending=begun, marks=world.marks + 1)
            return
        yield replace(world, ending=None)
        if run.left:
            return
        if not run.has_read:
            yield replace(world, ending=replace(run, has_read=True, held=bool(world.held)))
            return
        mark = run.mark
        if not self.rules.compares_marks and (path := world.places.paths.get(UNIT)) is not None:
            world = replace(world, places=replace(world.places, paths={UNIT: replace(path, ending=mark)}))
        places = world.places.ended(mark, [UNIT] if run.held else [])
        yield replace(world, ending=None, places=places)


def explore(rules: Rules, start: World, *, runs_max: int, sent_max: int = 1) -> tuple[bool, int]:
    """Whether the unit can be split, and how many worlds there are."""
    explorer = Explorer(rules, runs_max=runs_max, sent_max=sent_max)
    seen = {key(start)}
    waiting = deque([start])
    while waiting:
        for world in explorer.following(waiting.popleft()):
            if world.split:
                return True, len(seen)
            if (found := key(world)) not in seen:
                seen.add(found)
                waiting.append(world)
    return False, len(seen)


STARTS = {
    "admitting": (World(), 2),
    "ending": (
        World(
            places=UnitPlaces(2, paths={UNIT: Path(0)}),
            views=((UnitPlaces(2, paths={UNIT: Path(0)}), 0),) * SENDERS,
            marks=1,
        ),
        3,
    ),
}


@pytest.mark.parametrize("name", STARTS)
def test_a_unit_never_waits_in_two_partitions(name: str) -> None:
    """Of UNIT-11."""
    start, runs = STARTS[name]
    is_split, worlds = explore(Rules(), start, runs_max=runs)
    assert not is_split
    assert worlds > 1_000


@pytest.mark.parametrize(
    ("name", "rules"),
    [
        ("admitting", Rules(wait=WAIT - 1)),
        ("admitting", Rules(lease=LEASE + 1)),
        ("admitting", Rules(claims=False)),
        ("admitting", Rules(reads_what_is_held=False)),
        ("admitting", Rules(reads_after_the_wait=False)),
        ("ending", Rules(wait=WAIT - 1)),
        ("ending", Rules(lease=LEASE + 1)),
        ("ending", Rules(claims=False)),
        ("ending", Rules(compares_marks=False)),
        ("ending", Rules(looks_again_before_the_end=False)),
    ],
)
def test_every_condition_is_needed(name: str, rules: Rules) -> None:
    """Decision 41: each of them left out splits the unit."""
    start, runs = STARTS[name]
    assert explore(rules, start, runs_max=runs)[0]
