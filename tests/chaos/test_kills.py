"""Consumer processes are killed with SIGKILL and replaced while they compete for one queue.

What counts is read from the topics and from the journals that the workers append to: see tests/support/chaos_checks.py.
"""

import threading
from pathlib import Path

import pytest

from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run

KILLS = 3
KILL_EVERY_S = 5.0
FEW_LEFT = 2_000
"""Messages; with fewer nobody is killed any more, so that the end is not a matter of luck."""


def play(run: Run, *, kills: int = KILLS) -> Crew:
    """Three workers; one is killed and replaced each time a share of the input is done."""
    with Crew(run.task, seed=run.seed) as crew:
        crew.hire_ready(3)
        run.at_progress(kills, crew.kill_one)
        run.wait_done()
        crew.stop()
    assert len(crew.kills) == kills
    return crew


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_kills_lose_nothing_and_break_no_order(bootstrap: str, queue_name: str, tmp_path: Path, seed: int) -> None:
    """UNIT-1, UNIT-2, UNIT-3, REDELIVER-5, LOG-5, of ACK-9: INDIVIDUAL, acknowledged in the background."""
    run = Run.prepare(bootstrap, queue_name, tmp_path / "crew", units=40, each=60, seed=seed)
    crew = play(run)
    run.assert_right(what_is_wrong(run.evidence(crew.kills)))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [11, pytest.param(12, marks=pytest.mark.slow)])
def test_with_blocking_acknowledgement_only_what_was_in_hand_comes_again(
    bootstrap: str, queue_name: str, tmp_path: Path, seed: int
) -> None:
    """Of ACK-9: CLIENT, each acknowledgement durable before it returns."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=30, each=50, seed=seed,
        mode="CLIENT", batch=10, block_on_acknowledge=True,
    )  # fmt: skip
    crew = play(run)
    run.assert_right(what_is_wrong(run.evidence(crew.kills), is_blocking=True))


@pytest.mark.thorough
def test_each_poison_message_dies_once_however_often_its_worker_does(
    bootstrap: str, queue_name: str, tmp_path: Path
) -> None:
    """REDELIVER-3, REDELIVER-5: nothing but poison, so that every kill falls among dead-letterings."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=900, each=1, seed=31, poison=900,
        max_attempts=2, delay_ms=20, work_ms=(1.0, 3.0),
    )  # fmt: skip
    with Crew(run.task, seed=run.seed) as crew:
        crew.hire_ready(2)
        for share in range(1, KILLS + 1):
            run.wait_dead_letters(len(run.sent.poison) * share // (KILLS + 1))
            crew.kill_one()
        run.wait_settled()
        crew.stop()
    run.assert_right(what_is_wrong(run.evidence(crew.kills)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 102, 103])
def test_a_kill_every_five_seconds_at_full_size(bootstrap: str, queue_name: str, tmp_path: Path, seed: int) -> None:
    """UNIT-1, UNIT-2, REDELIVER-5, LOG-5, of ACK-9: 100 units of 200 messages."""
    run = Run.prepare(bootstrap, queue_name, tmp_path / "crew", units=100, each=200, seed=seed, poison=10)
    pause = threading.Event()
    with Crew(run.task, seed=seed) as crew:
        crew.hire_ready(3)
        while run.lag() > FEW_LEFT:
            pause.wait(KILL_EVERY_S)  # the rhythm of the test itself: nothing is waited for
            crew.kill_one()
        run.wait_done()
        crew.stop()
    assert len(crew.kills) >= KILLS
    run.assert_right(what_is_wrong(run.evidence(crew.kills)))
