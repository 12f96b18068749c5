"""The broker itself is killed with SIGKILL in the middle of commits, and started again on the same data.

It is the test's own. What it has acknowledged outlives its process: the system has it, written or not yet.

Not in every run of the suite, because Kafka 4.3.1 fails it: five times in some hundred and twenty kills; such a run
ends as expected to fail (XFAIL), with what Kafka's own tool says of it. Where it is killed after it has decided a
commit and before it has written the marks of that, it was seen to tell itself complete when it came back, without a
mark in any of the partitions. Such a partition's readers stand still until the same producer writes there again, or
an operator ends it: docs/topics.md. When a broker starts, its coordinator may come to an undone commit before it
knows who leads the partitions, and then takes them for deleted: "Couldn't find leader endpoint for partitions ...
likely deleted already and hence can be skipped", at INFO. Mostly it is made coordinator once more a moment later and
writes the marks after all.
"""

import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.devbroker import LocalBroker
from tests.jms.support import receive
from tests.support.chaos_checks import forwarded, out_of_order, settled_more_than_once
from tests.support.chaos_crew import Crew
from tests.support.chaos_run import Run
from tests.support.chaos_topics import bodies, read_committed
from tests.support.hanging_transactions import wait_readable
from tests.support.topics import create_topic


def play(
    broker: LocalBroker, folder: Path, *, seed: int, kills: int, each: int, session_timeout_ms: int, down_s: float = 0.0
) -> None:
    """Transacted sessions take from one queue and send to another; each kill falls at another share of it.

    The broker stays down for a random time up to `down_s`, and for as long as its start takes.
    """
    bootstrap, chance, pause = broker.bootstrap, random.Random(seed), threading.Event()
    create_topic(bootstrap, "out", partitions=4, config={"retention.ms": "-1"})
    run = Run.prepare(
        bootstrap, "in", folder, units=40, each=each, seed=seed, poison=0, refused=0.0, partitions=4,
        mode="TRANSACTED", batch=5, forward_to="out", max_attempts=-1, session_timeout_ms=session_timeout_ms,
    )  # fmt: skip

    def kill_and_start() -> None:
        broker.kill()
        pause.wait(chance.uniform(0, down_s))  # an outage of its own length: nothing is waited for
        broker.start()
        wait_readable(bootstrap, run)

    with Crew(run.task, seed=seed) as crew:
        crew.hire_ready(2)
        run.at_progress(kills, kill_and_start)
        run.wait_done()
        crew.stop()
    wait_readable(bootstrap, run)
    found = run.evidence({})
    wrong = [*forwarded(run.sent, bodies(read_committed(bootstrap, "out"))), *settled_more_than_once(found.events)]
    run.assert_right([*wrong, *out_of_order(found.steps)])


@pytest.mark.slow
@pytest.mark.timeout(600)  # half a minute alone on a machine, minutes where many share it
def test_commits_go_on_after_broker_kills(dedicated_broker: Callable[[], LocalBroker], tmp_path: Path) -> None:
    """Of CONN-3: nothing lost, doubled or out of order, no partition blocked, and no application started again."""
    play(dedicated_broker(), tmp_path / "crew", seed=1, kills=2, each=40, session_timeout_ms=2_000)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "session_timeout_ms"), [(201, 6_000), (202, 20_000)])
def test_commits_go_on_after_a_dozen_broker_kills(
    dedicated_broker: Callable[[], LocalBroker], tmp_path: Path, seed: int, session_timeout_ms: int
) -> None:
    """Of CONN-3: as above, for longer, with outages that cost the members their partitions and such that do not."""
    play(
        dedicated_broker(), tmp_path / "crew", seed=seed, kills=12, each=250, session_timeout_ms=session_timeout_ms,
        down_s=12.0,
    )  # fmt: skip


@pytest.mark.thorough
def test_a_broker_killed_right_after_a_hand_over_left_its_worker_standing_still_for_good(
    dedicated_broker: Callable[[], LocalBroker], kafka_name: str
) -> None:
    """LOG-5: it had committed a checkpoint and never marked it, in 5 of 6 kills; no channel of it opened again."""
    broker, queue = dedicated_broker(), Queue(kafka_name)
    with ConnectionFactory(broker.bootstrap).create_connection() as connection, connection.create_session() as session:
        consumer = session.create_consumer(queue)
        session.create_producer(queue).send("held", unit_of_order="joe")
        assert receive(consumer).body == "held"
        broker.kill()
        broker.start()
        again = consumer.receive(120)
        assert again is not None
        assert (again.body, again.redelivered) == ("held", True)
