"""The simulation notices what a naive version breaks: each planted fault is found within a few seeds."""

import pytest

from jbm_kafka import compiled
from tests.simulation.planted import EXPECTED, Plant
from tests.simulation.run import BrokenPromiseError, Simulation

pytestmark = pytest.mark.skipif(compiled.are_used(), reason="faults are planted in the source: `make test-pure`")

SEEDS = [*range(1, 20), *range(40, 70), *range(100, 200)]
"""The rarest fault, late metadata, needs a session that expires in the middle of a checkpoint: seed 65."""
RARE = {
    "a_nack_counts_the_whole_unit": 111,
    "a_selector_that_comes_is_not_asked_of_what_is_there": 114,
    "a_commit_leaves_one_out": 103,
    "a_run_of_a_unit_goes_on_whoever_chooses_it": 26,
    "auto_acknowledges_when_it_hands_over": 17,
    "group_metadata_read_when_it_is_used": 104,
    "client_acknowledges_later_ones_too": 191,
    "what_a_rebalance_takes_counts": 46,
    "dups_ok_finishes_when_it_hands_over": 100,
    "dups_ok_gives_back_what_it_finished": 104,
    "stragglers_are_handed_out": 111,
}
"""A seed that found a fault long after the first: tried before the others, which takes half a minute each."""
STEPS = 500
IN_SHORT = ("handed_over_before_it_is_reserved", "client_acknowledges_later_ones_too")
"""Of them those that `make test` plants; test_plans.py has one of each plan."""


@pytest.mark.parametrize(
    "plant",
    [each if each.__name__ in IN_SHORT else pytest.param(each, marks=pytest.mark.thorough) for each in EXPECTED],
    ids=lambda plant: plant.__name__,
)
def test_a_planted_fault_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    rare = [RARE[plant.__name__]] if plant.__name__ in RARE else []
    found = next(filter(None, map(what_breaks, [*rare, *SEEDS])), "nothing")
    print(found.splitlines()[-1], found.splitlines()[0])
    assert found.startswith(EXPECTED[plant]), found


def what_breaks(seed: int) -> str:
    """The broken promise of a seed with its report; empty when all hold."""
    try:
        Simulation(seed, STEPS).run()
    except BrokenPromiseError as broken:
        return f"{broken}\nseed {seed}"
    return ""
