"""Consumer processes are killed with SIGKILL and replaced while they compete for one queue.

What counts is read from the topics and from the journals that the workers append to: see tests/support/chaos_checks.py.
"""

from pathlib import Path

import pytest

from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run

KILLS = 3


def play(run: Run, *, kills: int = KILLS) -> Crew:
    """Three workers; one is killed and replaced each time a share of the input is done."""
    with Crew(run.task, seed=run.seed) as crew:
        crew.hire_ready(3)
        run.at_progress(kills, crew.kill_one)
        run.wait_done()
        crew.stop()
    assert len(crew.kills) == kills
    return crew


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kills_lose_nothing_and_break_no_order(bootstrap: str, queue_name: str, tmp_path: Path, seed: int) -> None:
    """UNIT-1, UNIT-2, UNIT-3, ACK-9, REDELIVER-5, LOG-5: INDIVIDUAL, acknowledged in the background."""
    run = Run.prepare(bootstrap, queue_name, tmp_path / "crew", units=40, each=60, seed=seed)
    crew = play(run)
    run.assert_right(what_is_wrong(run.evidence(crew.kills)))


@pytest.mark.parametrize("seed", [11, 12])
def test_with_blocking_acknowledgement_only_what_was_in_hand_comes_again(
    bootstrap: str, queue_name: str, tmp_path: Path, seed: int
) -> None:
    """ACK-9: CLIENT, each acknowledgement durable before it returns."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=30, each=50, seed=seed,
        mode="CLIENT", batch=10, block_on_acknowledge=True,
    )  # fmt: skip
    crew = play(run)
    run.assert_right(what_is_wrong(run.evidence(crew.kills), is_blocking=True))
