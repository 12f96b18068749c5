"""Units that some client sends to another partition than their hash says."""

import logging

import pytest

from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.unit_places import Path, UnitPlaces
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.sidecar.log_lines.message_lines import MISPLACED_MS, MessageLines
from jbm_kafka.sidecar.stages.misrouted_units import UNITS_MAX, UnitRoutes

HOME = partition_for(b"joe", 4)
OTHER = (HOME + 1) % 4


def references(*units: bytes | None) -> list[Reference]:
    return [Reference(offset, unit, 4, 0, 0, None, None) for offset, unit in enumerate(units)]


def misplaced(places: UnitPlaces, partition: int, *units: bytes | None) -> list[tuple[int, int, int]]:
    """(partition, offset, where its unit is) of what is told."""
    told: list[tuple[int, int, int]] = []
    routes = UnitRoutes(lambda: places, lambda at, reference, home: told.append((at, reference.offset, home)))
    routes.look(partition, references(*units))
    return told


def test_each_message_of_a_unit_where_its_hash_does_not_put_it_is_told() -> None:
    """Of UNIT-17: a plain librdkafka producer hashes by CRC32, and the unit was processed twice at once, silently."""
    assert misplaced(UnitPlaces(4), HOME, None, b"joe") == []
    assert misplaced(UnitPlaces(4), OTHER, None, b"joe", b"joe") == [(OTHER, 1, HOME), (OTHER, 2, HOME)]


def test_of_a_unit_that_moves_nothing_is_told() -> None:
    assert misplaced(UnitPlaces(4, next_partitions=8), partition_for(b"joe", 8), b"joe") == []
    assert misplaced(UnitPlaces(4, paths={b"joe": Path(OTHER)}), OTHER, b"joe") == []
    assert misplaced(UnitPlaces(4, paths={b"joe": Path(HOME, ending="mark")}), OTHER, b"joe") == []


def test_an_admission_that_stood_open_for_days_hid_a_client_that_hashes_otherwise() -> None:
    """A unit that moves is in one of two partitions, and nowhere else."""
    places = UnitPlaces(4, next_partitions=8)
    homes = {HOME, partition_for(b"joe", 8)}
    elsewhere = next(partition for partition in range(8) if partition not in homes)
    assert misplaced(places, elsewhere, b"joe") == [(elsewhere, 0, HOME)]
    told: list[int] = []
    routes = UnitRoutes(lambda: places, lambda at, *_: told.append(at))
    routes.look(HOME, references(b"joe"))
    places = UnitPlaces(8)
    routes.look(HOME, references(b"joe"))
    assert told == [HOME], "it was looked up once more"


def test_the_log_tells_whether_the_client_goes_on_and_names_no_unit(caplog: pytest.LogCaptureFixture) -> None:
    """It came once for each process, so nobody could see whether the sender had stopped; and it named a customer."""
    lines = MessageLines()
    routes = UnitRoutes(lambda: UnitPlaces(4), lambda at, each, home: lines.misplaced("orders", at, each, home, 0))
    for _ in range(3):
        routes.look(OTHER, references(b"joe"))
    lines.log_counts(MISPLACED_MS)
    first, more = [row.getMessage() for row in caplog.records if row.levelno == logging.WARNING]
    assert first.startswith(f"orders[{OTHER}] offset 0 is in the wrong partition, for its unit is in {HOME}: ")
    assert "partitioner=murmur2_random" in first
    assert first.endswith(f"; id ID:kafka:orders:{OTHER}:0")
    assert more.startswith("orders: 2 more messages in the wrong partition came within 600 s: ")
    assert "joe" not in caplog.text
    lines.log_counts(2 * MISPLACED_MS)
    assert len(caplog.records) == 2, "nobody sends so any more"


def test_each_unit_is_looked_up_once_and_only_while_the_count_is_known() -> None:
    asked: list[int] = []

    def count() -> UnitPlaces | None:
        asked.append(1)
        return UnitPlaces(1) if len(asked) > 1 else None

    routes = UnitRoutes(count, lambda *_: None)
    for _ in range(4):
        routes.look(0, references(b"joe", b"ann", None))
    assert len(asked) == 2


def test_what_is_remembered_of_units_is_bounded() -> None:
    routes = UnitRoutes(lambda: UnitPlaces(1), lambda *_: None)
    for begin in range(0, UNITS_MAX + 200, 50):
        routes.look(0, references(*(str(n).encode() for n in range(begin, begin + 50))))
    assert len(routes._known[0]) < UNITS_MAX
