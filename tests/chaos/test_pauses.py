"""Healthy workers that work for seconds and pause for seconds: nobody joins, leaves or dies."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.broker import local_broker
from tests.support.chaos_checks import Evidence, what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_journal import GOT
from tests.support.chaos_run import Run
from tests.support.chaos_topics import group_members

WORKERS = 3
SESSION_TIMEOUT_MS = 15_000
"""Nobody dies here, and on a busy machine nobody is taken for dead."""
STOCK: Mapping[str, str] = {"group.initial.rebalance.delay.ms": "3000"}
"""What brokers do unless they are told not to."""


def handed_out_again(run: Evidence) -> list[str]:
    """Every message is handed out once, to one worker."""
    got = Counter(step.message for step in run.steps if step.kind == GOT)
    return [f"{message} was handed out {count} times" for message, count in sorted(got.items()) if count > 1]


def work_and_pause(
    bootstrap: str, name: str, folder: Path, *, work_ms: tuple[float, float], pause_ms: float, idle_ms: int
) -> None:
    """Each of three CLIENT workers works on two messages, acknowledges them, and pauses longer than it may be idle."""
    assert pause_ms > idle_ms
    run = Run.prepare(
        bootstrap, name, folder, partitions=9, units=8, each=3, seed=1, poison=0, refused=0.0, mode="CLIENT", batch=2,
        max_attempts=3, work_ms=work_ms, pause_ms=pause_ms, receiver_idle_ms=idle_ms,
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )  # fmt: skip
    with Crew(run.task, seed=run.seed) as crew:
        crew.hire_ready(WORKERS)
        members = set(group_members(bootstrap, name))
        run.wait_done()
        assert set(group_members(bootstrap, name)) == members, "somebody left and joined again"
        crew.stop()
    evidence = run.evidence({})
    assert len({step.worker for step in evidence.steps}) == WORKERS, "not all worked"
    run.assert_right([*what_is_wrong(evidence, has_kills=False), *handed_out_again(evidence)])


@pytest.mark.thorough
def test_workers_that_pause_take_nothing_from_each_other(bootstrap: str, queue_name: str, tmp_path: Path) -> None:
    """UNIT-2, REDELIVER-1: none is refused an acknowledgement, no message is handed out twice, none is a dead letter.

    A consumer that had not asked for three seconds left its group, and each leave and join took from the others.
    """
    work_and_pause(bootstrap, queue_name, tmp_path / "crew", work_ms=(300, 700), pause_ms=900, idle_ms=300)


@pytest.mark.slow
def test_workers_that_pause_take_nothing_from_each_other_on_a_stock_broker(kafka_name: str, tmp_path: Path) -> None:
    """UNIT-2, REDELIVER-1: the same where a group's first rebalance waits three seconds."""
    with local_broker(tmp_path / "stock", STOCK) as broker:
        work_and_pause(broker.bootstrap, kafka_name, tmp_path / "crew", work_ms=(300, 700), pause_ms=900, idle_ms=300)


@pytest.mark.slow
def test_workers_of_seconds_that_pause_for_seconds(bootstrap: str, queue_name: str, tmp_path: Path) -> None:
    """UNIT-2, REDELIVER-1: 8 s of work, 4 s of pause, the shipped settings; 5 of 12 acknowledgements were refused."""
    work_and_pause(bootstrap, queue_name, tmp_path / "crew", work_ms=(3_500, 4_500), pause_ms=4_000, idle_ms=3_000)
