"""Processes whose sessions choose different messages of one queue are killed with SIGKILL and replaced.

A unit's messages go to one session and the other in turn, so each acknowledgement lets the next session go on with
the unit, in whatever process that is after a kill.
"""

from pathlib import Path

import pytest

from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run

pytestmark = pytest.mark.thorough

TYPES = ("order", "bill")
"""Of JMSType, in turn within each unit."""


def play(run: Run, *, kills: int) -> None:
    """Two processes, of which one is killed each time a share of the input is done."""
    with Crew(run.task, seed=run.seed) as crew:
        crew.hire_ready(2)
        run.at_progress(kills, crew.kill_one)
        run.wait_done()
        crew.stop()
    assert len(crew.kills) == kills
    run.assert_right(what_is_wrong(run.evidence(crew.kills)))


def test_kills_among_selectors_lose_nothing_and_break_no_order(bootstrap: str, queue_name: str, tmp_path: Path) -> None:
    """UNIT-1, UNIT-2, REDELIVER-5, of SEL-1, SEL-2, ACK-9: a killed process's lease on its selectors refuses nobody."""
    run = Run.prepare(bootstrap, queue_name, tmp_path / "crew", units=30, each=40, seed=51, types=TYPES)
    play(run, kills=2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [511, 512])
def test_many_kills_among_selectors(bootstrap: str, queue_name: str, tmp_path: Path, seed: int) -> None:
    """UNIT-1, UNIT-2, REDELIVER-5, of SEL-1, SEL-2, ACK-9: as above, for longer, three types of messages."""
    run = Run.prepare(bootstrap, queue_name, tmp_path / "crew", units=60, each=120, seed=seed, types=(*TYPES, "note"))
    play(run, kills=8)
