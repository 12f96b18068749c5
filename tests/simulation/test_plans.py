"""Goal: subscriptions, selectors, pauses and commands of operators keep their promises under all that goes wrong.

Method: as in test_seeds, with further acts and a model of each (`subscriptions`, `topic_acts`, `selector_acts`,
`pause_acts`, `hold_acts`, `move_acts`, `topic_move_acts`, `lease_acts`, `branch_acts`); and each planted fault is found
within the same seeds.
"""

import pytest

from jbm_kafka import compiled
from tests.simulation import (
    planted_in_branches,
    planted_in_holds,
    planted_in_leases,
    planted_in_moves,
    planted_in_pauses,
    planted_in_selectors,
    planted_in_subscriptions,
    planted_in_topic_moves,
    planted_on_the_shelf,
)
from tests.simulation.pause_acts import PauseActs
from tests.simulation.planted_in_subscriptions import Plant
from tests.simulation.profile import Plan
from tests.simulation.run import BrokenPromiseError, Simulation

STEPS = 300
STEPS_OF = {Plan.BRANCHES: 600}
"""Of those in which more must come together."""
SEEDS = {
    Plan.LEASES: 14,
    Plan.TOPICS: 14,
    Plan.SELECTORS: 12,
    Plan.PAUSES: 12,
    Plan.HOLDS: 8,
    Plan.MOVES: 14,
    Plan.TOPIC_MOVES: 10,
    Plan.SHELF: 10,
    Plan.BRANCHES: 16,
}
"""Within how many of each a planted fault is found."""
SEEDS_IN_SHORT, SEEDS_IN_THOROUGH = 5, 8
"""Of them those that are played without a fault; all, and more, in `make test-slow`."""
LONG_SEEDS = 60
RARE = {
    "a_release_is_of_everything": 35,
    "a_client_id_that_was_let_go_stays": 13,
    "a_later_portion_passes_what_stayed": 27,
    "who_comes_back_without_partitions_does_not_look": 4,
    "a_recovery_holds_no_unit": 3,
    "each_consumers_messages_pass_by_themselves": 8,
    "a_decider_is_taken_over_by_an_id_of_its_own": 4,
    "a_rollback_counts_nothing": 2,
    "a_decision_goes_by_what_was_read_before": 2,
    "who_selects_is_blind_to_who_does_not": 13,
    "what_is_out_of_attempts_leaves_by_itself": 6,
    "nobody_hears_of_one_that_comes_later": 11,
    "who_comes_back_sees_only_who_is_recorded": 160,
    "what_is_acknowledged_on_arrival_is_handed_over": 51,
    "a_run_of_a_unit_goes_on_whoever_chooses_it": 31,
    "what_is_behind_in_a_unit_goes_too": 29,
}
"""A seed that finds a fault for which much must come together; when it does not any more, look for another."""
FOUND = {
    "a send is refused before three seconds have gone by since the pause": (Plan.PAUSES, 28, 400),
    "what a session had in its buffer overtakes what its branch gives back": (Plan.BRANCHES, 36, 600),
}
"""(plan, seed, steps) that once broke a promise, by symptom."""
FAULTS = {
    Plan.TOPICS: planted_in_subscriptions.EXPECTED,
    Plan.SELECTORS: planted_in_selectors.EXPECTED,
    Plan.PAUSES: planted_in_pauses.EXPECTED,
    Plan.HOLDS: planted_in_holds.EXPECTED,
    Plan.BRANCHES: planted_in_branches.EXPECTED,
    Plan.LEASES: planted_in_leases.EXPECTED,
    Plan.MOVES: planted_in_moves.EXPECTED,
    Plan.TOPIC_MOVES: planted_in_topic_moves.EXPECTED,
    Plan.SHELF: planted_on_the_shelf.EXPECTED,
}
IN_SHORT = {
    Plan.TOPICS: "another_of_the_name_goes_on",
    Plan.SELECTORS: "a_selector_is_asked_of_the_message_before",
    Plan.PAUSES: "sends_are_let_through",
    Plan.HOLDS: "a_release_forgets_the_attempts",
    Plan.LEASES: "other_processes_are_thought_dead",
    Plan.MOVES: "it_is_answered_before_it_is_durable",
    Plan.SHELF: "what_has_come_back_stays_there",
    Plan.BRANCHES: "a_recovery_forgets_what_is_prepared",
}
"""The fault of each plan that `make test` plants, but for one that is much like another."""


def steps_of(plan: Plan) -> int:
    """How many acts each seed has before its calm end."""
    return STEPS_OF.get(plan, STEPS)


def played(plan: Plan, what: object, *, in_short: bool) -> object:
    """A parameter pair of `make test`, or else of `make test-thorough`."""
    return pytest.param(plan, what, marks=() if in_short else pytest.mark.thorough)


@pytest.mark.parametrize(
    ("plan", "seed"),
    [played(plan, seed, in_short=seed <= SEEDS_IN_SHORT) for plan in SEEDS for seed in range(1, SEEDS_IN_THOROUGH + 1)],
)
def test_every_promise_holds_with(plan: Plan, seed: int) -> None:
    """TOPIC-1, TOPIC-2, TOPIC-3, TOPIC-4, UNIT-6, UNIT-12, UNIT-16, SEL-1, PAUSE-1, PAUSE-2, of ACK-9: in each.

    CONN-2, of UNIT-14, SEND-6, LOG-9, SEL-2, ACK-10.
    """
    Simulation(seed, steps_of(plan), plan).run()


@pytest.mark.parametrize("symptom", FOUND)
def test_what_once_broke_holds_with(symptom: str) -> None:
    plan, seed, steps = FOUND[symptom]
    Simulation(seed, steps, plan).run()


class _Impatient(PauseActs):
    """Sends, pauses and resumes also when everybody has heard, and the three seconds are not yet over."""

    def _let_all_hear(self) -> None:
        super()._let_all_hear()
        for act in (self._produce, self._pause, self._resume) if not self._world.is_ending else ():
            act()


@pytest.mark.parametrize("seed", [3, 4, 6, 7])
def test_who_acts_before_a_pause_must_hold_breaks_no_promise(seed: int) -> None:
    simulation = Simulation(seed, STEPS, Plan.PAUSES)
    simulation.acts = _Impatient(simulation.world)
    simulation.run()


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("plan", SEEDS)
def test_every_promise_holds_for_long_with(plan: Plan) -> None:
    for seed in range(SEEDS_IN_THOROUGH + 1, LONG_SEEDS + 1):
        Simulation(seed, steps_of(plan), plan).run()


@pytest.mark.skipif(compiled.are_used(), reason="faults are planted in the source: `make test-pure`")
@pytest.mark.parametrize(
    ("plan", "plant"),
    [
        played(plan, plant, in_short=plant.__name__ == IN_SHORT.get(plan))
        for plan, expected in FAULTS.items()
        for plant in expected
    ],
    ids=lambda value: value.value if isinstance(value, Plan) else value.__name__,
)
def test_a_fault_is_found_in(plan: Plan, plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    rare = [RARE[plant.__name__]] if plant.__name__ in RARE else []
    found = next(filter(None, (what_breaks(plan, seed) for seed in (*rare, *range(1, SEEDS[plan] + 1)))), "nothing")
    print(found.splitlines()[0])
    assert found.startswith(FAULTS[plan][plant]), found


def what_breaks(plan: Plan, seed: int) -> str:
    """The broken promise of a seed; empty when all hold."""
    try:
        Simulation(seed, steps_of(plan), plan).run()
    except BrokenPromiseError as broken:
        return str(broken)
    return ""


def test_a_broken_promise_names_its_plan() -> None:
    simulation = Simulation(1, 50, Plan.TOPICS)
    simulation.acts.by_name = dict.fromkeys(simulation.acts.by_name, _fails)
    with pytest.raises(BrokenPromiseError, match=r"python -m tests.simulation --plan topics --seed 1 --steps 50"):
        simulation.run()


def _fails() -> None:
    raise AssertionError("broken by hand")
