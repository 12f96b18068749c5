"""Transacted sessions take from one queue and send to another, and are killed at random meanwhile."""

from pathlib import Path

import pytest

from tests.support.chaos_checks import forwarded, held_by_two, out_of_order, settled_more_than_once
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run
from tests.support.chaos_topics import bodies, channel_events, read_committed
from tests.support.topics import create_topic


def play(bootstrap: str, name: str, folder: Path, *, seed: int, kills: int, each: int) -> None:
    """Forward everything; each kill falls at another share of it."""
    target = f"{name}.out"
    create_topic(bootstrap, target, partitions=4, config={"retention.ms": "-1"})
    run = Run.prepare(
        bootstrap, name, folder, units=40, each=each, seed=seed, poison=0, refused=0.0,
        mode="TRANSACTED", batch=5, forward_to=target, max_attempts=-1,
    )  # fmt: skip
    with Crew(run.task, seed=seed) as crew:
        crew.hire_ready(3)
        run.at_progress(kills, crew.kill_one)
        run.wait_done()
        crew.stop()
    assert len(crew.kills) == kills
    found = run.evidence(crew.kills)
    events = channel_events(bootstrap, name)
    wrong = [*forwarded(run.sent, bodies(read_committed(bootstrap, target))), *settled_more_than_once(events)]
    run.assert_right([*wrong, *held_by_two(found), *out_of_order(found.steps)])


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
def test_every_input_is_forwarded_once_and_in_order(bootstrap: str, queue_name: str, tmp_path: Path, seed: int) -> None:
    """ACK-7, STATE-7, LOG-5, UNIT-1: what a killed session had not committed is neither sent nor taken."""
    play(bootstrap, queue_name, tmp_path / "crew", seed=seed, kills=3, each=40)


@pytest.mark.slow
def test_every_input_is_forwarded_once_over_twenty_kills(bootstrap: str, queue_name: str, tmp_path: Path) -> None:
    """ACK-7, LOG-5, UNIT-1: as above, for longer."""
    play(bootstrap, queue_name, tmp_path / "crew", seed=104, kills=20, each=250)
