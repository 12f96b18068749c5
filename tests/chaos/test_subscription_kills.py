"""Processes that receive from subscriptions of one topic are killed: each subscription is judged as a queue is."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run
from tests.support.chaos_topics import send_input
from tests.support.chaos_worker import Task
from tests.support.topics import create_topic

PARTITIONS = 8
SEED = 7
KILLS = 2
WORKERS = {"audit": 1, "bill": 1, "team": 2}
"""By subscription; those of one worker are unshared and have a client id."""


def task_of(bootstrap: str, topic: str, name: str, folder: Path) -> Task:
    create_topic(bootstrap, f"{topic}.{name}", partitions=2, config={"retention.ms": "-1"})
    is_shared = WORKERS[name] > 1
    return Task(
        name="", folder=str(folder), state_dir="", bootstrap=bootstrap, queue=topic,
        dead_letters=f"{topic}.{name}", partitions=PARTITIONS, seed=SEED,
        subscription=name, client_id="" if is_shared else f"{name}{topic[-12:]}",
    )  # fmt: skip


def play(run: Run, crew: Crew) -> None:
    """One subscription: kills by its own progress, for each is as fast as its workers."""
    run.at_progress(KILLS, crew.kill_one)
    run.wait_done()
    crew.stop()


def test_kills_lose_nothing_and_break_no_order_in_any_subscription(
    bootstrap: str, queue_name: str, tmp_path: Path
) -> None:
    """UNIT-12, of TOPIC-2, TOPIC-3, ACK-9, CONN-2: two durable subscriptions and a shared one read along."""
    config = {"retention.ms": "-1", "retention.bytes": "-1"}
    create_topic(bootstrap, queue_name, partitions=PARTITIONS, config=config)
    tasks = [task_of(bootstrap, queue_name, name, tmp_path / name) for name in WORKERS]
    with ExitStack() as gone:
        crews = [gone.enter_context(Crew(task, seed=SEED)) for task in tasks]
        for crew, count in zip(crews, WORKERS.values(), strict=True):
            crew.hire_ready(count)  # from now on the subscriptions are there
        sent = send_input(
            bootstrap, queue_name, partitions=PARTITIONS, units=40, each=50, seed=SEED, refused=0.05, poison=3
        )
        runs = [Run(bootstrap, task, sent, SEED) for task in tasks]
        with ThreadPoolExecutor() as side_by_side:
            for ended in [side_by_side.submit(play, run, crew) for run, crew in zip(runs, crews, strict=True)]:
                ended.result()
    for crew, run in zip(crews, runs, strict=True):
        assert len(crew.kills) == KILLS
        run.assert_right(what_is_wrong(run.evidence(crew.kills)))
