"""Consumer processes come and go in order while messages flow."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize(
    ("seed", "mode", "batch"), [(1, "INDIVIDUAL", 1), pytest.param(2, "CLIENT", 5, marks=pytest.mark.slow)]
)
def test_nothing_comes_twice_when_nobody_is_killed(
    bootstrap: str, queue_name: str, tmp_path: Path, seed: int, mode: str, batch: int
) -> None:
    """UNIT-1, UNIT-2, REDELIVER-1, of UNIT-7: partitions move both ways; no repeat, and no count but by a nack."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=40, each=70, seed=seed, mode=mode, batch=batch,
        session_timeout_ms=30_000,
    )  # fmt: skip
    with Crew(run.task, seed=seed) as crew:
        crew.hire_ready(1)
        acts: list[Callable[[], object]] = [
            crew.hire,
            crew.dismiss_one,
            crew.hire,
            crew.hire,
            crew.dismiss_one,
            crew.dismiss_one,
        ]

        def act_next() -> None:
            acts.pop(0)()

        run.at_progress(len(acts), act_next)
        run.wait_done()
        crew.stop()
    run.assert_right(what_is_wrong(run.evidence({}), has_kills=False))
