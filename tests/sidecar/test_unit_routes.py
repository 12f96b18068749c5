"""Units that some client sends to another partition than their hash says."""

import logging

import pytest

from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.core.reference import Reference
from jbm_kafka.core.unit_places import UnitPlaces
from jbm_kafka.sidecar.unit_routes import UNITS_MAX, UnitRoutes


def references(*units: bytes | None) -> list[Reference]:
    return [Reference(offset, unit, 4, 0, 0, None, None) for offset, unit in enumerate(units)]


def test_a_unit_where_its_hash_does_not_put_it_is_warned_of_once_a_queue(caplog: pytest.LogCaptureFixture) -> None:
    """Of UNIT-17: a plain librdkafka producer hashes by CRC32, and the unit was processed twice at once, silently."""
    routes = UnitRoutes("queue:orders", lambda: UnitPlaces(4))
    home = partition_for(b"joe", 4)
    routes.look(home, references(None, b"joe"))
    assert caplog.text == ""
    other = (home + 1) % 4
    for _ in range(2):
        routes.look(other, references(b"joe"))
    (record,) = [r for r in caplog.records if r.levelno == logging.WARNING]
    assert f"unit 'joe' are in partition {other} and belong into {home}" in record.getMessage()
    assert "partitioner=murmur2_random" in record.getMessage()


def test_the_warning_of_a_long_unit_was_a_line_of_a_megabyte(caplog: pytest.LogCaptureFixture) -> None:
    unit = b"u" * 2**20
    UnitRoutes("queue:orders", lambda: UnitPlaces(4)).look((partition_for(unit, 4) + 1) % 4, references(unit))
    assert "… (1048576 characters) are in partition" in caplog.text
    assert len(caplog.text) < 1_000


def test_each_unit_is_looked_up_once_and_only_while_the_count_is_known() -> None:
    asked: list[int] = []

    def count() -> UnitPlaces | None:
        asked.append(1)
        return UnitPlaces(1) if len(asked) > 1 else None

    routes = UnitRoutes("queue:orders", count)
    for _ in range(4):
        routes.look(0, references(b"joe", b"ann", None))
    assert len(asked) == 2


def test_what_is_remembered_of_units_is_bounded() -> None:
    routes = UnitRoutes("queue:orders", lambda: UnitPlaces(1))
    for begin in range(0, UNITS_MAX + 200, 50):
        routes.look(0, references(*(str(n).encode() for n in range(begin, begin + 50))))
    assert len(routes._known[0]) < UNITS_MAX
