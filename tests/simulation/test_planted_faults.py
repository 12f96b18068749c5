"""The simulation notices what a naive version breaks: each planted fault is found within a few seeds."""

import pytest

from jbm_kafka import compiled
from tests.simulation.planted import EXPECTED, Plant
from tests.simulation.run import BrokenPromiseError, Simulation

pytestmark = pytest.mark.skipif(compiled.are_used(), reason="faults are planted in the source: `make test-pure`")

SEEDS = [*range(1, 20), *range(40, 70), *range(100, 200)]
"""The rarest fault, late metadata, needs a session that expires in the middle of a checkpoint: seed 65."""
STEPS = 500


@pytest.mark.parametrize("plant", EXPECTED, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    found = next(filter(None, map(what_breaks, SEEDS)), "nothing")
    print(found.splitlines()[-1], found.splitlines()[0])
    assert found.startswith(EXPECTED[plant]), found


def what_breaks(seed: int) -> str:
    """The broken promise of a seed with its report; empty when all hold."""
    try:
        Simulation(seed, STEPS).run()
    except BrokenPromiseError as broken:
        return f"{broken}\nseed {seed}"
    return ""
