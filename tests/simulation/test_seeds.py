"""Goal: under crashes, rebalances, zombies, lost answers, refused records and clocks that jump, every promise holds.

Method: whole sidecars run over an in-memory Kafka, one step at a time, in an order that a seed decides. After each
act the invariants are checked; at the end nothing goes wrong any more, and every
message must come to its end. A failure prints the command that repeats it.
"""

import os
import random
import secrets
from collections.abc import Sequence
from functools import partial

import pytest

from jbm_kafka.core.channel import parking
from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.ports import CommittedOffset
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.sidecar.channel import parked_records
from tests.simulation.names import group_of
from tests.simulation.run import BrokenPromiseError, Simulation

STEPS = 500
FIXED_SEEDS, MORE_SEEDS = range(1, 21), range(21, 41)
RANDOM_SEEDS = 4
LONG_STEPS, LONG_SEEDS = 1_500, 400

FOUND = {
    "first hand-over shows a second attempt": (12, 600),
    "an aborted transaction's gap stalls its queue": (9, 600),
    "sends go twice after an unknown outcome": (250, 900),
    "a commit without its acknowledgements after a late freeze": (221, 900),
    "channels stay frozen after a late freeze": (253, 900),
    "a clock set back ends a delay early": (393, 900),
    "a clock set back prolongs a delay": (545, 900),
    "two consumers of a session take messages from each other for ever": (351, 900),
    "a message seen and returned uncounted comes as if new": (249, 900),
    "a message given back at a commit's end is forgotten": (788, 900),
}
"""(seed, steps) that once broke a promise, by symptom. What a seed draws changes with the simulation, so the symptoms
that can be shown in small have tests in tests/sidecar and tests/core too."""


def play(seed: int, steps: int) -> None:
    Simulation(seed, steps).run()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if metafunc.function is test_every_promise_holds:
        asked = metafunc.config.getoption("--simulation-seed", default=None)
        run = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # the processes of one run must agree
        chance = [run.randrange(10**9) for _ in range(RANDOM_SEEDS)]
        more = [pytest.param(seed, marks=pytest.mark.thorough) for seed in MORE_SEEDS]
        metafunc.parametrize("seed", [*FIXED_SEEDS, *more, *chance] if asked is None else [asked])


def test_every_promise_holds(seed: int, request: pytest.FixtureRequest) -> None:
    """UNIT-1, UNIT-2, REDELIVER-1, REDELIVER-5, REDELIVER-7, ACK-7, LOG-5, LOG-6, LOG-7, of LOG-2: in every history."""
    print(f"seed {seed}")
    play(seed, request.config.getoption("--simulation-steps", default=None) or STEPS)


@pytest.mark.parametrize("seed", [5, pytest.param(8, marks=pytest.mark.thorough)])
def test_every_promise_holds_where_much_is_parked(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """LOG-11: whatever ends a checkpoint, and whoever is next, the number beside is that of the records."""
    parked: list[Parked] = []
    decided = parked_records.ParkedRecords.take

    def take(self: parked_records.ParkedRecords) -> Sequence[Parked]:
        taken = decided(self)
        parked.extend(taken)
        return taken

    monkeypatch.setattr(parking, "SETTLED_FOR_EACH", 0)
    monkeypatch.setattr(parked_records.ParkedRecords, "take", take)
    monkeypatch.setattr("tests.simulation.world.SidecarConfig", partial(SidecarConfig, park_look_ms=100))
    play(seed, STEPS)
    assert parked


@pytest.mark.thorough
@pytest.mark.parametrize("symptom", FOUND)
def test_what_once_broke_holds(symptom: str) -> None:
    play(*FOUND[symptom])


@pytest.mark.slow
@pytest.mark.timeout(3_600)
def test_every_promise_holds_for_long() -> None:
    first = secrets.randbelow(10**9)
    print(f"seeds {first} to {first + LONG_SEEDS - 1}")
    for seed in range(first, first + LONG_SEEDS):
        play(seed, LONG_STEPS)


def test_a_seed_repeats_its_history() -> None:
    histories = []
    for _ in range(2):
        simulation = Simulation(5, 300)
        simulation.run()
        histories.append(list(simulation.world.history))
    assert histories[0] == histories[1]


def test_a_broken_promise_names_the_command_that_repeats_it() -> None:
    simulation = Simulation(3, 120)
    group = simulation.world.cluster.group(group_of("orders"))
    group.committed["orders", 0] = CommittedOffset(position=7, metadata="")
    with pytest.raises(BrokenPromiseError) as broken:
        simulation.run()
    assert str(broken.value).startswith("offsets_agree: orders[0] committed")
    assert "python -m tests.simulation --seed 3 --steps 120" in str(broken.value)
