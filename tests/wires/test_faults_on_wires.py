"""The simulation notices what a naive version breaks: each planted fault is found within a few seeds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from jbm_kafka import compiled
from tests.wires.planted_on_wires import PLANTS, Plant
from tests.wires.wire_history import BrokenWireError, WireHistory

pytestmark = pytest.mark.skipif(compiled.are_used(), reason="faults are planted in the source: `make test-pure`")

STEPS = 400
MORE_SEEDS = range(1, 40)
"""Tried when the seed of a fault shows it no more, as what it draws changes with the simulation."""
IN_SHORT = ("what_a_lost_client_had_forwarded_comes_unmarked", "nothing_goes_along_at_the_client")
"""Of them those that `make test` plants."""


@pytest.mark.parametrize(
    "plant",
    [each if each.__name__ in IN_SHORT else pytest.param(each, marks=pytest.mark.thorough) for each in PLANTS],
    ids=lambda plant: plant.__name__,
)
def test_a_fault_planted_on_a_wire_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    first, world, promise = PLANTS[plant]
    histories = (what_breaks(seed, world) for seed in (first, *MORE_SEEDS))
    found = next((told for told in histories if told.startswith(promise)), "nothing")
    print(found.splitlines()[-1], found.splitlines()[0])
    assert found != "nothing"


def what_breaks(seed: int, world: Mapping[str, Any]) -> str:
    """The broken promise of a seed with its report; empty when all hold."""
    try:
        WireHistory(seed, STEPS, world).run()
    except BrokenWireError as broken:
        return f"{broken}\nseed {seed}"
    return ""
