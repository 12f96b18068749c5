"""Where units are while their queue gets partitions; tests/model/test_unit_places.py plays all of it."""

from jbm_kafka.core.channel.unit_places import Path, UnitPlaces
from jbm_kafka.core.murmur2 import partition_for

MOVING = next(u for n in range(99) if partition_for(u := f"u{n}".encode(), 2) != partition_for(u, 5))
STAYING = next(u for n in range(99) if partition_for(u := f"u{n}".encode(), 2) == partition_for(u, 5))
HERE = partition_for(MOVING, 2)


def test_only_a_unit_in_motion_is_claimed_before_it_is_sent_to() -> None:
    """Of UNIT-11."""
    places = UnitPlaces(2).admitting(5, "m")
    assert places.partition(STAYING) == partition_for(STAYING, 2)
    assert places.partition(MOVING) is None
    assert places.home(MOVING) == HERE
    claimed = places.claimed([MOVING, STAYING])
    assert claimed.paths == {MOVING: Path(HERE)}
    assert claimed.partition(MOVING) == HERE
    assert claimed.claimed([MOVING]) is claimed


def test_what_is_held_and_what_was_claimed_stays_when_the_count_changes() -> None:
    """Of UNIT-11: and nothing else; with the count in force then."""
    places = UnitPlaces(2).admitting(5, "m")
    assert places.admitted("m", [MOVING, STAYING]) == UnitPlaces(5, paths={MOVING: Path(HERE)})
    assert places.claimed([MOVING]).admitted("m", [MOVING]) == UnitPlaces(5, paths={MOVING: Path(HERE)})
    assert places.admitted("m", []) == UnitPlaces(5)
    assert places.admitted("another", [MOVING]) is None


def test_an_admission_goes_on_under_its_mark_or_is_taken_back() -> None:
    """Of UNIT-11: who was killed left the mark, and what was claimed says what is so."""
    places = UnitPlaces(2).admitting(5, "m")
    assert places.admitting(5, "n") is places
    assert places.admitting(2, "n") is places
    assert places.admitting(6, "n").admission == "n"
    assert places.given_up("another") is places
    assert places.claimed([MOVING]).given_up("m") == UnitPlaces(2, paths={MOVING: Path(HERE)})


def test_a_path_ends_by_the_mark_that_nobody_took_away() -> None:
    """Of UNIT-11."""
    places = UnitPlaces(5, paths={MOVING: Path(HERE), b"other": Path(0)})
    ending = places.ending([MOVING, b"unknown"], "m")
    assert ending.paths == {MOVING: Path(HERE, "m"), b"other": Path(0)}
    assert ending.partition(MOVING) is None
    assert ending.ended("m", []).paths == {b"other": Path(0)}
    assert ending.ended("m", [MOVING]) == ending.ended("n", []).claimed([MOVING]) == places
    assert ending.claimed([MOVING]).ended("m", []) == places


def test_where_a_unit_may_be_while_partitions_are_admitted() -> None:
    places = UnitPlaces(4, next_partitions=8)
    for unit in (b"joe", b"ann", b"bob", b"eve", b"kim"):
        now, soon = partition_for(unit, 4), partition_for(unit, 8)
        assert {p for p in range(8) if places.may_be_in(unit, p)} == {now, soon}
        assert {p for p in range(8) if UnitPlaces(4).may_be_in(unit, p)} == {now}
    assert {p for p in range(8) if UnitPlaces(8, paths={b"joe": Path(7)}).may_be_in(b"joe", p)} == {7}
