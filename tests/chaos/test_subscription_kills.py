"""Processes that receive from subscriptions of one topic are killed and frozen while messages are sent to it.

Each subscription is judged as a queue is. Two are durable ones of one process each, with a client id; one is shared.
"""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.chaos_checks import what_is_wrong
from tests.support.chaos_crew import Crew
from tests.support.chaos_input import Input
from tests.support.chaos_journal import count_done
from tests.support.chaos_run import DONE_S, LOOK_AT_JOURNALS_S, Run
from tests.support.chaos_worker import Task
from tests.support.topics import create_topic
from tests.support.waiting import wait_until

PARTITIONS = 8
WORKERS = {"audit": 1, "bill": 1, "team": 2}
"""By subscription; those of one worker are unshared and have a client id."""
AHEAD, LOOK_EVERY = 400, 100
"""So many messages are sent before the fastest subscription has done them, so that most are sent among the kills."""


def task_of(bootstrap: str, topic: str, name: str, folder: Path, seed: int) -> Task:
    """Each topic has a subscription of its own: with another topic it would take the other's place, and its events."""
    create_topic(bootstrap, f"{topic}.{name}", partitions=2, config={"retention.ms": "-1"})
    is_shared, of_this_topic = WORKERS[name] > 1, f"{name}{topic[-12:]}"
    return Task(
        name="", folder=str(folder), state_dir="", bootstrap=bootstrap, queue=topic,
        dead_letters=f"{topic}.{name}", partitions=PARTITIONS, seed=seed,
        subscription=of_this_topic if is_shared else name, client_id="" if is_shared else of_this_topic,
    )  # fmt: skip


def play(run: Run, crew: Crew, rounds: int) -> None:
    """One subscription: blows by its own progress, for each is as fast as its workers."""
    blows = [crew.kill_one, crew.freeze_one, crew.thaw] * rounds

    def strike() -> None:
        blows.pop(0)()

    run.at_progress(len(blows), strike)
    run.wait_done()
    crew.stop()


def send_among_kills(runs: list[Run], bootstrap: str, topic: str) -> None:
    """Sends no further than `AHEAD` of the fastest."""
    pause = threading.Event()

    def wait_turn(sent: int) -> None:
        def is_near() -> bool:
            pause.wait(LOOK_AT_JOURNALS_S)  # reading all journals costs the workers time
            return max(count_done(run.folder) for run in runs) >= sent - AHEAD

        if sent % LOOK_EVERY == 0 and sent >= AHEAD:
            wait_until(is_near, about=runs[0].explain(f"done {AHEAD} behind {sent} sent"), timeout_s=DONE_S)

    runs[0].sent.send(bootstrap, topic, partitions=PARTITIONS, wait_turn=wait_turn)


def kill_and_judge(bootstrap: str, topic: str, folder: Path, *, seed: int, each: int, rounds: int) -> None:
    """All of it."""
    create_topic(bootstrap, topic, partitions=PARTITIONS, config={"retention.ms": "-1", "retention.bytes": "-1"})
    given = Input.mixed(units=40, each=each, seed=seed, refused=0.05, poison=3)
    runs = [Run(bootstrap, task_of(bootstrap, topic, name, folder / name, seed), given, seed) for name in WORKERS]
    with ExitStack() as gone:
        crews = [gone.enter_context(Crew(run.task, seed=seed)) for run in runs]
        for crew, count in zip(crews, WORKERS.values(), strict=True):
            crew.hire_ready(count)  # from now on the subscriptions are there
        with ThreadPoolExecutor() as side_by_side:
            ended = [side_by_side.submit(play, run, crew, rounds) for run, crew in zip(runs, crews, strict=True)]
            ended.append(side_by_side.submit(send_among_kills, runs, bootstrap, topic))
            for each_end in ended:
                each_end.result()
    for crew, run in zip(crews, runs, strict=True):
        assert len(crew.kills) == 2 * rounds
        run.assert_right(what_is_wrong(run.evidence(crew.kills)))


@pytest.mark.thorough
def test_kills_lose_nothing_and_break_no_order_in_any_subscription(
    bootstrap: str, queue_name: str, tmp_path: Path
) -> None:
    """UNIT-12, of TOPIC-2, TOPIC-3, ACK-9, CONN-2, LOG-6: in each a process is killed, and another stands still."""
    kill_and_judge(bootstrap, queue_name, tmp_path, seed=7, each=50, rounds=1)


@pytest.mark.slow
@pytest.mark.timeout(900)  # four minutes on a machine that many share
@pytest.mark.parametrize("seed", [301, 302, 303])
def test_many_kills_lose_nothing_and_break_no_order_in_any_subscription(
    bootstrap: str, queue_name: str, tmp_path: Path, seed: int
) -> None:
    """UNIT-12, of TOPIC-2, TOPIC-3, ACK-9, CONN-2, LOG-6: as above, for longer."""
    kill_and_judge(bootstrap, queue_name, tmp_path, seed=seed, each=100, rounds=3)
