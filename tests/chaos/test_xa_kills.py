"""Messages go to a table of a real PostgreSQL and to another queue, while processes stand still, die and are replaced.

Of each input there is one row and one output in the end, and nothing is prepared: no branch, and nothing in the
database. The kills in each gap of one worker are in test_xa_postgres.py.
"""

from __future__ import annotations

import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka.admin import Admin
from jbm_kafka.devbroker import LocalBroker
from tests.support.chaos_topics import group_members, read_committed, send_texts, send_to_each, unit_of
from tests.support.hanging_transactions import wait_readable
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.topics import create_topic, delete_topics_beginning_with
from tests.support.transaction_managers import COMMIT, ROLLBACK, LastResource
from tests.support.waiting import wait_until
from tests.support.xa_worker import MANAGERS, XATask, XAWorker

SOON_S = 60.0
NOTHING_S = 1.0
STEPS = ("prepare", "decide", "finish")
TEXTS = ("a", "b", "c")
thorough = pytest.mark.thorough


@dataclass
class Shop:
    """One test's queues, database and processes."""

    bootstrap: str
    name: str
    postgres: PostgresServer
    folder: Path
    gone: ExitStack
    manager: str = MANAGERS[0]
    sent: list[str] = field(default_factory=list)

    @property
    def target(self) -> str:
        return f"{self.name}.out"

    def open(self, *, partitions: int = 1) -> None:
        """Queues and tables."""
        for queue in (self.name, self.target):
            create_topic(self.bootstrap, queue, partitions=partitions, config={"retention.ms": "-1"})
        (self.folder / "decisions").mkdir()
        with self.postgres.connect(autocommit=True) as database:
            database.execute("CREATE TABLE work (body text)")
            database.execute(LastResource.TABLE)

    def send(self, texts: Sequence[str], unit: str | None = None) -> None:
        """To the queue's first partition."""
        send_texts(self.bootstrap, self.name, texts, unit=unit)
        self.sent += texts

    def worker(self, name: str) -> XAWorker:
        """A process with a state folder of that name."""
        task = XATask(
            bootstrap=self.bootstrap, database=self.postgres.url, manager=self.manager, queue=self.name,
            target=self.target, decisions=str(self.folder / "decisions"), state_dir=str(self.folder / f"{name}-state"),
        )  # fmt: skip
        worker = XAWorker(task, self.folder / f"{name}.log")
        self.gone.callback(worker.end_anyhow)
        worker.wait_ready()
        return worker

    def rows(self) -> list[str]:
        with self.postgres.connect() as database:
            return [str(row[0]) for row in database.execute("SELECT body FROM work")]

    def outputs(self) -> list[str]:
        return [(message.value() or b"").decode() for message in read_committed(self.bootstrap, self.target)]

    def assert_each_once(self, worker: XAWorker) -> None:
        """After this process has done what is left."""
        assert worker.ask("recover") is None
        while (body := worker.ask("work", NOTHING_S if self.is_done() else SOON_S)) is not None:
            assert body in self.sent, body
            do(worker, *STEPS)
        assert Counter(self.rows()) == Counter(self.sent)
        assert Counter(self.outputs()) == Counter(self.sent)
        with self.postgres.connect() as database:
            assert database.execute("SELECT gid FROM pg_prepared_xacts").fetchall() == []
        assert worker.ask("prepared") == []

    def explain(self, about: str, /) -> str:
        """With where its processes say what they do."""
        return f"{about}; see {self.folder}"

    def is_done(self) -> bool:
        """As many rows as inputs."""
        return len(self.rows()) >= len(self.sent)


def do(worker: XAWorker, *steps: str) -> None:
    """Steps that succeed, and a decision to commit."""
    for step in steps:
        assert worker.ask(step) == (COMMIT if step == "decide" else None), step


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


MakeShop = Callable[..., Shop]


@pytest.fixture
def make_shop(bootstrap: str, postgres: PostgresServer, tmp_path: Path) -> Iterator[MakeShop]:
    """Of the shared broker, or of another."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    with ExitStack() as gone:

        def make(manager: str = MANAGERS[0], *, at: str = bootstrap, partitions: int = 1) -> Shop:
            shop = Shop(at, name, postgres, tmp_path, gone, manager)
            shop.open(partitions=partitions)
            return shop

        yield make
    delete_topics_beginning_with(bootstrap, name)


@thorough
def test_the_first_commit_of_a_coordinator_that_stood_still_is_refused(make_shop: MakeShop) -> None:
    """ACK-10: another rolled back meanwhile; and its manager finds that this is so."""
    shop = make_shop()
    shop.send(TEXTS, unit="u")
    still = shop.worker("still")
    assert still.ask("work", SOON_S) == "a"
    do(still, "prepare")
    still.freeze()
    other = shop.worker("other")
    do(other, "recover")
    still.thaw()
    assert still.ask("decide") == ROLLBACK
    assert still.ask("commit").startswith("TransactionRolledBackError: ")
    assert shop.outputs() == []
    still.kill()
    shop.assert_each_once(other)


@pytest.mark.parametrize("manager", [MANAGERS[0], pytest.param(MANAGERS[1], marks=thorough)])
def test_a_commit_needs_no_owner_of_what_was_received(make_shop: MakeShop, manager: str) -> None:
    """ACK-10: the outputs are there when it returns; the next owner settles the inputs."""
    shop = make_shop(manager)
    shop.send(TEXTS, unit="u")
    owner = shop.worker("owner")
    assert owner.ask("work", SOON_S) == "a"
    do(owner, "prepare", "decide")
    owner.kill()
    coordinator = shop.worker("coordinator")
    do(coordinator, "recover")
    assert shop.outputs() == shop.rows() == ["a"]
    shop.assert_each_once(shop.worker("next"))


@thorough
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_branch_is_decided_when_its_partition_is_with_another_process(make_shop: MakeShop, is_commit: bool) -> None:
    """ACK-10, UNIT-2: its unit is held there until then, and goes on or begins anew."""
    shop = make_shop()
    shop.send(TEXTS, unit="u")
    first, second = shop.worker("first"), shop.worker("second")
    assert first.ask("work", SOON_S) == "a"
    do(first, "prepare", *(["decide"] if is_commit else []))
    first.kill()
    assert second.ask("work", SOON_S / 4) is None, "it got what is in the branch, or what is behind that"
    do(second, "recover")
    assert second.ask("work", SOON_S) == ("b" if is_commit else "a")
    do(second, *STEPS)
    shop.assert_each_once(second)


@thorough
def test_what_a_branch_sends_goes_where_its_unit_is_at_its_commit(make_shop: MakeShop) -> None:
    """ACK-10, UNIT-11: partitions were added between prepare and commit, and the unit's hash says another one."""
    shop = make_shop()
    unit = unit_of(1, 2)
    shop.send(TEXTS, unit=unit)
    worker = shop.worker("worker")
    assert worker.ask("work", SOON_S) == "a"
    do(worker, "prepare")
    with Admin(shop.bootstrap) as admin:
        assert admin.admit_partitions(shop.target, partitions=2, wait_s=SOON_S) == (1, 2)
    do(worker, "decide", "finish")
    assert [message.partition() for message in read_committed(shop.bootstrap, shop.target)] == [1]
    shop.assert_each_once(worker)


@thorough
def test_a_rebalance_and_a_close_do_not_wait_for_a_prepared_branch(make_shop: MakeShop) -> None:
    """ACK-10: for what a session has in hand they would wait for a minute."""
    shop = make_shop(partitions=2)
    send_to_each(shop.bootstrap, shop.name, "first", partitions=2)
    shop.sent += ["first"] * 2
    first, second = shop.worker("first"), shop.worker("second")
    assert first.ask("work", SOON_S) == "first"
    do(first, "prepare")
    second.ask("open")

    def is_shared() -> bool:
        return sorted(group_members(shop.bootstrap, shop.name).values()) == [1, 1]

    wait_until(is_shared, about="a partition for each", timeout_s=SOON_S / 2)
    assert first.ask("close") is None
    first.kill()
    wait_until(
        lambda: list(group_members(shop.bootstrap, shop.name).values()) == [2], about="all", timeout_s=SOON_S / 2
    )
    assert len(second.ask("prepared")) == 1
    shop.assert_each_once(second)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("manager", MANAGERS)
@pytest.mark.parametrize("seed", range(1, 3))
def test_whatever_takes_part_is_killed_by_chance(
    make_shop: MakeShop, dedicated_broker: Callable[[], LocalBroker], postgres: PostgresServer, manager: str, seed: int
) -> None:
    """ACK-10: three workers, the database and the broker, again and again."""
    broker = dedicated_broker()
    shop, chance, pause = make_shop(manager, at=broker.bootstrap), random.Random(seed), threading.Event()
    for number in range(400):
        shop.send([f"{number}"], unit=f"u{number % 40}")
    crew: dict[str, Any] = {}

    def start(name: str) -> None:
        crew[name] = shop.worker(name)
        crew[name].tell("run", str(shop.folder))

    for name in ("0", "1", "2"):
        start(name)
    for _ in range(25):
        pause.wait(chance.uniform(0.5, 5.0))  # the moment of the kill: nothing is waited for
        match chance.choice(["worker", "worker", "worker", "postgres", "broker"]):
            case "postgres":
                postgres.kill()
                postgres.start()
            case "broker":
                broker.kill()
                broker.start()
                wait_readable(shop.bootstrap, shop)
            case _:
                name = chance.choice(sorted(crew))
                crew[name].kill()
                start(name)
    wait_until(shop.is_done, about="all rows", timeout_s=10 * SOON_S)
    (shop.folder / "stop").touch()
    for worker in crew.values():
        with suppress(AssertionError):
            worker.answer()
        worker.kill()
    shop.assert_each_once(shop.worker("0"))
