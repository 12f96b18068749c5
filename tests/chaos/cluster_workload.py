"""The work that goes on while a cluster has a fault: lanes with an input each, whose workers keep journals."""

import itertools
import json
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from jbm_kafka.devbroker.ports import free_port
from tests.amqp.server_process import ServerProcess, ServerTask, running
from tests.support.chaos_checks import Evidence, forwarded
from tests.support.chaos_crew import Crew
from tests.support.chaos_input import Input
from tests.support.chaos_journal import DONE, Step, done_by
from tests.support.chaos_run import DONE_S, LOOK_AT_JOURNALS_S, MOST_S, Run
from tests.support.chaos_topics import bodies, lag_of, read_committed
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.topics import create_topic
from tests.support.transaction_managers import LastResource
from tests.support.waiting import wait_until, wait_while_moving
from tests.support.xa_worker import MANAGERS, XATask, XAWorker

UNITS, PARTITIONS = 30, 4
WORK_MS, FULL_WORK_MS = (10.0, 25.0), (20.0, 50.0)
"""Of a message; with all lanes longer, so that they go on while a fault lasts and leave the processors idle."""
ODD = 0.05
"""The part of the messages that is sent twice, and the part that is delayed."""
ATTEMPTS_MAX = 6
XA_PART = 12
"""A branch for each message takes so many times longer than the others' work."""
THIRD = 1 / 3
TAKEN, FORWARDING = "taken", "forwarding"
FOREVER = {"retention.ms": "-1"}


@dataclass(frozen=True, slots=True)
class XALane:
    """A worker takes messages to a table and to another queue, in a branch each."""

    bootstrap: str
    queue: str
    folder: Path
    postgres: PostgresServer
    sent: Input
    worker: XAWorker

    def rows(self) -> list[tuple[str, int]]:
        """Those of the table, in the order of their insertion."""
        with self.postgres.connect() as database:
            found = [json.loads(body) for (body,) in database.execute("SELECT body FROM work ORDER BY ctid")]
        return [(row["unit"], row["number"]) for row in found]

    def finish(self) -> None:
        """Return when all is done, nothing is prepared or owed, and the worker has left."""
        seen = f"see {self.folder}"
        wanted = len(self.sent.bodies)
        wait_while_moving(
            self.rows, lambda rows: len(rows) >= wanted, about=f"all rows; {seen}", stuck_s=DONE_S, most_s=MOST_S
        )
        (self.folder / "stop").touch()
        for answer in (self.worker.answer(), self.worker.ask("recover"), *self.worker.ask("prepared")):
            assert answer is None, f"{answer}; {seen}"
        wait_until(lambda: lag_of(self.bootstrap, self.queue) == 0, about=f"all settled; {seen}", timeout_s=DONE_S)
        self.worker.ask_to_stop()
        self.worker.wait_stopped()

    def wrong(self) -> list[str]:
        """Each message is in the table once and in the other queue once, in its unit's order."""
        copies = bodies(read_committed(self.bootstrap, f"{self.queue}.out"))
        return [*forwarded(self.sent, self.rows()), *forwarded(self.sent, copies)]


@dataclass(slots=True)
class Workload:
    """All lanes. A fault may put another run into a lane's place, with what it excuses."""

    runs: dict[str, Run]
    crews: dict[str, Crew]
    sidecars: Sequence[ServerProcess]
    xa: XALane | None

    def wait_third(self, *lanes: str) -> None:
        """Return when the fastest of these lanes, without any of all, has done a third, and each has begun."""
        pause = threading.Event()

        def shares() -> dict[str, float]:
            pause.wait(LOOK_AT_JOURNALS_S)  # reading all journals costs the workers time
            runs = {name: self.runs[name] for name in lanes or self.runs}
            return {name: round(len(done_by(run.folder)) / len(run.sent.good), 2) for name, run in runs.items()}

        def is_there(done: dict[str, float]) -> bool:
            return bool(min(done.values())) and max(done.values()) > THIRD

        wait_while_moving(shares, is_there, about="a third of the work", stuck_s=DONE_S, most_s=MOST_S)
        print("done by then:", shares(), file=sys.stderr)

    def finish(self) -> None:
        """Return when everything is done and all have left."""
        for run in self.runs.values():
            run.wait_done()
        if self.xa:
            self.xa.finish()
        for crew in self.crews.values():
            crew.stop()

    def evidence(self) -> dict[str, Evidence]:
        """Of each lane but the XA worker's."""
        return {name: run.evidence(self.crews[name].kills) for name, run in self.runs.items()}


@contextmanager
def at_work(
    bootstrap: str,
    name: str,
    folder: Path,
    *,
    seed: int,
    each: int,
    is_full: bool,
    first: Callable[[str], Mapping[str, object]],
) -> Iterator[Workload]:
    """Two queues with two workers each and `each` messages a unit, and, if it is full, all other kinds of receivers.

    `first`: what the task of the first worker has otherwise, by the lane of the queue.
    """
    lanes: dict[str, tuple[Mapping[str, object], Sequence[Mapping[str, object]]]] = {
        TAKEN: ({"each": each}, [first(TAKEN), {}]),
        FORWARDING: (
            {
                "each": each // 3 if is_full else each,
                "mode": "TRANSACTED",
                "batch": 5,
                "forward_to": f"{name}.out",
                "poison": 0,
                "refused": 0.0,
                "max_attempts": -1,
            },
            [first(FORWARDING), {}],
        ),
    }
    work_ms = FULL_WORK_MS if is_full else WORK_MS
    with ExitStack() as stack:
        folder.mkdir()
        sidecars: Sequence[ServerProcess] = ()
        if is_full:
            dead_letters = f"{name}.amqp.dlq"
            sidecars = stack.enter_context(running(*(_sidecar(bootstrap, folder, n, dead_letters) for n in (1, 2))))
            places = [f"127.0.0.1:{one.task.port}" for one in sidecars]
            either = [{"bootstrap": f"amqp://{','.join(order)}"} for order in (places, places[::-1])]
            durable = {"each": each // 2, "subscription": "all", "client_id": name.replace("-", "")}
            lanes |= {
                "durable": (durable, [{}]),
                "handlers": ({"each": each, "mode": "HANDLER"}, [{}]),
                "amqp": ({"each": each}, either),
            }
        create_topic(bootstrap, f"{name}.out", partitions=PARTITIONS, config=FOREVER)
        runs, crews = {}, {}
        for lane, (task, workers) in lanes.items():
            run = runs[lane] = _prepared(bootstrap, f"{name}.{lane}", folder / lane, seed, {"work_ms": work_ms, **task})
            crew = crews[lane] = stack.enter_context(Crew(run.task, seed=seed))
            for changes in workers:
                crew.hire(changes=changes)
        for crew in crews.values():
            for process in crew.present.values():
                process.wait_ready()
        xa = stack.enter_context(_xa_lane(bootstrap, f"{name}.xa", folder / "xa", seed, each)) if is_full else None
        for run in reversed(runs.values()):  # all begin at about the same time, the fastest last
            run.sent.send(bootstrap, run.task.queue, partitions=PARTITIONS)
        yield Workload(runs, crews, sidecars, xa)


def _prepared(bootstrap: str, queue: str, folder: Path, seed: int, task: Mapping[str, object]) -> Run:
    given: dict[str, object] = {"odd": ODD, "max_attempts": ATTEMPTS_MAX, "is_sent": False, **task}
    prepare: Callable[..., Run] = Run.prepare
    return prepare(bootstrap, queue, folder, units=UNITS, seed=seed, partitions=PARTITIONS, **given)


def _sidecar(bootstrap: str, folder: Path, number: int, dead_letters: str) -> ServerTask:
    return ServerTask(
        bootstrap=bootstrap, port=free_port(), state_dir=str(folder / f"sidecar-{number}"), namespace="",
        dead_letters=dead_letters, partitions=PARTITIONS, max_attempts=ATTEMPTS_MAX, forwards=True,
    )  # fmt: skip


@contextmanager
def _xa_lane(bootstrap: str, queue: str, folder: Path, seed: int, each: int) -> Iterator[XALane]:
    (folder / "decisions").mkdir(parents=True)
    sent = Input.mixed(units=UNITS, each=max(each // XA_PART, 2), seed=seed, refused=0.0, poison=0, odd=ODD)
    for name in (queue, f"{queue}.out"):
        create_topic(bootstrap, name, partitions=PARTITIONS, config=FOREVER)
    sent.send(bootstrap, queue, partitions=PARTITIONS)
    with postgres_server() as postgres:
        with postgres.connect(autocommit=True) as database:
            database.execute("CREATE TABLE work (body text)")
            database.execute(LastResource.TABLE)
        task = XATask(
            bootstrap=bootstrap, database=postgres.url, manager=MANAGERS[0], queue=queue, target=f"{queue}.out",
            decisions=str(folder / "decisions"), state_dir=str(folder / "state"), session_timeout_ms=5_000,
        )  # fmt: skip
        worker = XAWorker(task, folder / "worker.log")
        try:
            worker.wait_ready()
            worker.tell("run", str(folder))
            yield XALane(bootstrap, queue, folder, postgres, sent, worker)
        finally:
            worker.end_anyhow()


def longest_gap_s(steps: Sequence[Step]) -> float:
    """In which no worker of the lane completed anything."""
    times = [step.at_ns for step in steps if step.kind == DONE]
    return max((after - before for before, after in itertools.pairwise(times)), default=0) / 1e9
