"""Workers of the project's first version and of this one in one consumer group, on one queue.

The first version's code lies packed beside the other things that must stay readable. It has queues, and no topics.
"""

import json
import tarfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from jbm_kafka.admin import Admin
from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import ROOT, Crew
from tests.support.chaos_input import Input
from tests.support.chaos_journal import DONE, GOT, Step, done_by
from tests.support.chaos_run import DONE_S, Run
from tests.support.chaos_topics import bodies, read_committed
from tests.support.waiting import wait_until

PACKED = ROOT / "tests" / "golden" / "first_version.tar.xz"


@pytest.fixture
def first_version(tmp_path: Path) -> Path:
    """The folder of its code."""
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path / "first", filter="data")
    return tmp_path / "first"


@pytest.mark.thorough
def test_workers_of_the_first_version_are_replaced_by_new_ones_and_back(
    bootstrap: str, queue_name: str, tmp_path: Path, first_version: Path
) -> None:
    """UNIT-1, UNIT-2, REDELIVER-3, REDELIVER-5: each reads the changelog and the state folder that the other wrote."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "crew", units=30, each=40, seed=41, poison=12,
        work_ms=(20.0, 40.0), max_attempts=8, delay_ms=2_000,
    )  # fmt: skip
    with Crew(run.task, seed=run.seed) as crew:
        crew.code = first_version
        crew.hire_ready(2)
        run.wait_done(100)
        crew.code = ROOT
        crew.kill_one()  # w3 replaces it, and has its state folder
        crew.hire_ready(1)
        run.wait_done(300)
        crew.code = first_version
        crew.kill_one()  # w5
        run.wait_done(600)
        crew.code = ROOT
        crew.kill_one()  # w6
        run.wait_done()
        crew.stop()
    evidence = run.evidence(crew.kills)
    worked = {step.worker for step in evidence.steps if step.kind == DONE}
    of_first = {name for name in worked if f"that of {first_version}" in (run.folder / f"{name}.log").read_text()}
    assert of_first == {"w1", "w2", "w5"}, run.explain("of the first version")
    assert worked >= {"w3", "w4"}, run.explain("of this one")
    run.assert_right([*what_is_wrong(evidence), *fallen(evidence.steps)])


@pytest.mark.thorough
def test_a_partition_with_something_parked_waits_for_a_newer_process_or_an_operator(
    bootstrap: str, queue_name: str, tmp_path: Path, first_version: Path
) -> None:
    """LOG-8: nothing of it is lost by going back beyond 0.1.0, and `move` lets the partition go on there."""
    run = Run.prepare(
        bootstrap, queue_name, tmp_path / "newer", units=6, each=20, seed=43, poison=0, refused=0.0, partitions=1,
        is_sent=False, truncate="settled", truncate_look_ms=500, park_look_ms=500,
    )  # fmt: skip
    message("late", delay_ms=3_600_000).send(bootstrap, queue_name, partitions=1)
    run.sent.send(bootstrap, queue_name, partitions=1)
    with Crew(run.task, seed=run.seed) as crew:
        crew.hire_ready(1)
        run.wait_done()  # the group has committed the end: what is delayed stands in the changelog alone
        crew.stop()
    message("behind").send(bootstrap, queue_name, partitions=1)
    older = replace(run, task=replace(run.task, folder=str(tmp_path / "older"), truncate=""))
    with Crew(older.task, seed=run.seed) as crew:
        crew.code = first_version
        crew.hire()
        log = older.folder / "w1.log"
        wait_until(lambda: "kind 'parked' is not known" in log.read_text(), about=f"refused: {log}", timeout_s=DONE_S)
    assert not done_by(older.folder)
    aside = f"{queue_name}.aside"
    with Admin(bootstrap) as admin:
        assert admin.doctor().parked[run.task.group] == 1
        admin.create_queue(aside, partitions=1)
        admin.move(queue_name, aside, unit="late")
        assert run.task.group not in admin.doctor().parked
    with Crew(older.task, seed=run.seed) as crew:
        crew.code = first_version
        crew.hire_ready(1)
        wait_until(lambda: ("behind", 0) in done_by(older.folder), about=older.explain("behind"), timeout_s=DONE_S)
        older.wait_settled()
        crew.stop()
    with Admin(bootstrap) as admin:
        admin.move(aside, queue_name, everything=True)
    assert bodies(read_committed(bootstrap, queue_name))[-1] == ("late", 0)  # the log has it again, at its end


def message(unit: str, **what: int) -> Input:
    """One, the first of its unit."""
    return Input(
        {unit: 1}, frozenset(), [(unit, json.dumps({"unit": unit, "number": 0, "poison": False, "refuse": 0, **what}))]
    )


def fallen(steps: Sequence[Step]) -> Iterator[str]:
    """REDELIVER-1: an owner goes on counting where the one before was. He may not know of the last one."""
    highest: defaultdict[tuple[str, int], int] = defaultdict(int)
    for step in steps:
        if step.kind == GOT:
            count, before = step.delivery_count, highest[step.message]
            if count < before - 1:
                yield f"{step.worker} got {step.message} with count {count}, after {before}"
            highest[step.message] = max(before, count)
