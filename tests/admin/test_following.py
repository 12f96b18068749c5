"""What follows the queues of a namespace tells the same as a look does, and reads only what is new."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue, Topic, XAConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.following import followed_group
from jbm_kafka.admin.following.backlog_follower import BacklogFollower
from jbm_kafka.admin.following.followed_readers import SLICE
from jbm_kafka.admin.following.following import Following
from jbm_kafka.codec.reader_record import RegisteredReader
from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.held_in_order import HeldKind
from jbm_kafka.jms.context import Context
from jbm_kafka.ports import CommittedOffset, Outgoing
from jbm_kafka.registry.readers import renew_reader
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import receive
from tests.support.waiting import wait_until

WAIT_S = 30.0
MINUTE_MS = 60_000
ORDERS, PRICES = Queue("orders"), Topic("prices")
SETTINGS = {
    "#": AddressSettings(partitions=2, max_delivery_attempts=2, on_dead_letter="hold", redelivery_delay_ms=MINUTE_MS),
    "mild": AddressSettings(partitions=1, max_delivery_attempts=1, on_dead_letter="continue"),
}


def context(world: MemoryWorld, **more: str) -> Context:
    factory = world.factory(address_settings=SETTINGS, **more)
    return factory.create_context(AcknowledgeMode.INDIVIDUAL)


@contextmanager
def following(world: MemoryWorld) -> Iterator[BacklogFollower]:
    core = AdminCore(world.url, None, "", 30.0)
    with closing(core), closing(BacklogFollower(core)) as made:
        yield made


def by_name(follow: BacklogFollower) -> Mapping[tuple[str, str], Backlog]:
    return {(each.destination, each.subscription): each for each in follow.step().backlogs}


def kinds(backlog: Backlog) -> dict[str, int]:
    return {kind.value: count for kind, count in backlog.counts.items() if count}


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world


def test_each_kind_is_told_with_its_age_while_nobody_receives(world: MemoryWorld) -> None:
    """LOG-3, of a queue, a subscription and dead letters."""
    with context(world, client_id="c") as jms:
        jms.create_durable_consumer(PRICES, "audit", selector="region = 'EU'").close()
        producer = jms.create_producer()
        for text in ("first", "second"):
            producer.send(ORDERS, text, unit_of_order="a")
        producer.send(ORDERS, "short", time_to_live_ms=30_000)
        producer.send(ORDERS, "later", delivery_delay_ms=MINUTE_MS)
        for region in ("EU", "US"):
            producer.send(PRICES, "1", properties={"region": region})
        producer.send(Queue("mild"), "poison")
        with jms.create_consumer(Queue("mild")) as consumer:
            receive(consumer).nack()
            assert consumer.receive_nowait() is None
    with following(world) as follow:
        found = by_name(follow)
        orders = found["orders", ""]
        assert kinds(orders) == {"deliverable": 2, "blocked": 1, "delayed": 1}
        assert (orders.held, orders.is_counted, orders.receivers, orders.uncommitted) == (4, True, 0, 0)
        assert kinds(found["prices", "c/audit"]) == {"deliverable": 1}
        assert kinds(found["DLQ", ""]) == {"deliverable": 1}
        assert found["mild", ""].held == 0
        sent_ms = world.clock.now_ms()
        world.clock.advance(45_000)
        orders = by_name(follow)["orders", ""]
        assert kinds(orders) == {"deliverable": 1, "blocked": 1, "delayed": 1, "expired": 1}
        assert set(orders.oldest_at_ms.values()) == {orders.oldest_held_at_ms} == {sent_ms}
        world.clock.advance(MINUTE_MS)
        assert kinds(by_name(follow)["orders", ""]) == {"deliverable": 2, "blocked": 1, "expired": 1}


def test_a_unit_on_hold_a_pause_and_a_prepared_branch_are_told(world: MemoryWorld) -> None:
    """Of ACK-10 and LOG-3: with what stands behind them."""
    with context(world) as jms:
        for unit in ("held", "held", "branch"):
            jms.create_producer().send(ORDERS, "x", unit_of_order=unit)
        with jms.create_consumer(ORDERS, "JMSXGroupID = 'held'") as consumer:
            for _ in range(2):
                receive(consumer).nack()
                world.clock.advance(MINUTE_MS)
            assert consumer.receive_nowait() is None
    factory = XAConnectionFactory(world.url, address_settings=SETTINGS)
    with factory.create_xa_connection() as connection, connection.create_xa_session() as session:
        session.tpc_begin(session.xid(1, "branch", "b"))
        with session.create_consumer(ORDERS, "JMSXGroupID = 'branch'") as consumer:
            assert consumer.receive(WAIT_S) is not None
        session.tpc_prepare()
    with Admin(world.url) as admin, following(world) as follow:
        admin.pause(ORDERS, "receiving")
        found = follow.step()
        (orders,) = (each for each in found.backlogs if each.destination == "orders")
        assert kinds(orders) == {"on_hold": 1, "blocked": 1, "in_hand": 1}
        assert (orders.is_receiving_paused, orders.is_sending_paused) == (True, False)
        assert (found.prepared, found.oldest_prepared_at_ms) == (1, world.clock.now_ms())
        admin.resolve(admin.prepared()[0].xid, "rollback")
        assert follow.step().prepared == 0


def test_of_too_many_the_number_is_told_and_the_age_of_the_oldest(
    world: MemoryWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(followed_group, "HELD_MAX", 3)
    with context(world) as jms, following(world) as follow:
        began_ms = world.clock.now_ms()
        for _ in range(4):
            jms.create_producer().send(ORDERS, "x")
            world.clock.advance(1_000)
        orders = by_name(follow)["orders", ""]
        assert (orders.held, orders.is_counted, orders.counts, orders.oldest_at_ms) == (4, False, {}, {})
        assert orders.oldest_held_at_ms == began_ms
        with jms.create_consumer(ORDERS) as consumer:
            receive(consumer).acknowledge()
        assert kinds(by_name(follow)["orders", ""]) == {"deliverable": 3}


def test_what_is_idle_is_not_read_again_and_a_reset_is_seen(world: MemoryWorld) -> None:
    """Of LOG-3: an operator's reset of offsets writes to no log; after so many steps it is looked for."""
    with context(world) as jms, following(world) as follow:
        for _ in range(3):
            jms.create_producer().send(Queue("mild"), "x")
        with jms.create_consumer(Queue("mild")) as consumer:
            receive(consumer).acknowledge()
        jms.close()
        assert by_name(follow)["mild", ""].held == 2
        admin = follow._core.admin
        admin.alter_offsets("jbm.queue.mild", "mild", {0: CommittedOffset(0, "")})
        assert by_name(follow)["mild", ""].held == 2, "nothing was read"
        for _ in range(followed_group.LOOKS_APART):
            found = by_name(follow)
        assert found["mild", ""].held == 3


STEPS = st.lists(st.sampled_from(["send", "send", "delay", "acknowledge", "nack", "pass time", "step"]), max_size=30)


@settings(max_examples=25, deadline=None)
@given(STEPS)
def test_after_any_history_it_tells_the_same_as_a_look_from_the_beginning(steps: list[str]) -> None:
    """LOG-3: `Admin.counts` knows nothing of what was looked at before."""
    with MemoryWorld() as world, following(world) as follow, Admin(world.url) as admin:
        with context(world) as jms:
            producer, consumer = jms.create_producer(), jms.create_consumer(ORDERS)
            for at, step in enumerate(steps):
                match step:
                    case "send":
                        producer.send(ORDERS, str(at), unit_of_order=str(at % 3))
                    case "delay":
                        producer.send(ORDERS, str(at), unit_of_order=str(at % 3), delivery_delay_ms=MINUTE_MS)
                    case "acknowledge" | "nack":
                        message = consumer.receive_nowait()
                        if message is not None:
                            message.acknowledge() if step == "acknowledge" else message.nack()
                    case "pass time":
                        world.clock.advance(MINUTE_MS // 2)
                    case "step":
                        follow.step()
        followed, counted = by_name(follow)["orders", ""], admin.counts(ORDERS)
        assert (followed.held, followed.counts.get(HeldKind.ON_HOLD, 0)) == (counted.held, counted.for_operator)
        assert (followed.counts.get(HeldKind.DELAYED, 0), followed.log_records) == (
            counted.delayed,
            sum(each.end - each.settled_to for each in counted.partitions),
        )
        assert (followed.counts.get(HeldKind.DELIVERABLE, 0), followed.oldest_held_at_ms) == (
            counted.ready,
            counted.oldest_at_ms,
        )


def test_what_was_read_of_a_subscription_goes_with_it(world: MemoryWorld) -> None:
    """An exporter that ran for months kept the changelogs of all that there had ever been."""
    with context(world, client_id="c") as jms, following(world) as follow, Admin(world.url) as admin:
        jms.create_durable_consumer(PRICES, "audit").close()
        jms.create_producer().send(PRICES, "1")
        assert ("prices", "c/audit") in by_name(follow)
        (group,) = [each for name, each in follow._groups.items() if "audit" in name]
        journal = weakref.ref(group._journal)
        del group
        admin.unsubscribe("audit", client_id="c")
        assert ("prices", "c/audit") not in by_name(follow)
        gc.collect()
        assert journal() is None


def test_a_step_that_fails_by_a_bug_is_told_and_the_next_one_goes_on(world: MemoryWorld) -> None:
    """The thread ended: a console showed for ever what was held then, and said nothing of it."""
    is_mended = threading.Event()

    def on_step(found: Backlogs) -> None:
        assert is_mended.is_set(), "not mended"

    with context(world) as jms, Following(world.url, None, "", WAIT_S, on_step=on_step) as followed:
        jms.create_producer().send(ORDERS, "first")
        wait_until(lambda: followed.trouble, about="it is told", timeout_s=WAIT_S)
        assert followed.trouble.startswith("a bug: AssertionError('not mended")
        assert (followed.health(None).is_alive, followed.health(None).is_ready) == (True, False)
        is_mended.set()
        followed.look_now()
        found = wait_until(followed.latest, about="a look", timeout_s=WAIT_S)
        assert [each.destination for each in found.backlogs] == ["orders"]
        assert followed.health(None).is_ready


def test_each_query_of_spark_is_told_with_what_it_has_not_read(world: MemoryWorld) -> None:
    """SPARK-18: an archive and a query of a queue, and a query of a topic without subscribers; a load is none."""
    with context(world) as jms:
        producer, began_ms = jms.create_producer(), world.clock.now_ms()
        producer.send(PRICES, "1", unit_of_order="a")
        for _ in range(3):
            producer.send(Queue("mild"), "x")
            world.clock.advance(1_000)
    with closing(AdminCore(world.url, None, "", WAIT_S)) as core, following(world) as follow:
        ids = {name: each.topic_id for name, each in core.admin.describe(["mild", "prices"]).items()}

        def at(name: str, topic: str, positions: Mapping[int, int], *, topic_id: str = "", until_ms: int = 0) -> None:
            now_ms = world.clock.now_ms()
            lease_ms = until_ms or now_ms + MINUTE_MS
            reader = RegisteredReader("spark", name, topic, topic_id or ids[topic], positions, now_ms, lease_ms)
            renew_reader(core.registry.log, reader)

        def found() -> dict[tuple[str, str], tuple[int, int | None]]:
            return {(each.query, each.destination): (each.records, each.oldest_at_ms) for each in follow.step().queries}

        at("invoices/mild", "mild", {0: 2})
        at("archive-0a1b", "mild", {})
        at("made anew/mild", "mild", {0: 3}, topic_id="another")
        at("load-may/mild", "mild", {0: 1})
        at("forgotten/mild", "mild", {0: 1}, until_ms=1)
        at("watch/prices", "prices", {})
        at("nowhere/gone", "gone", {}, topic_id="t")
        assert found() == {
            ("invoices", "mild"): (1, began_ms + 2_000),
            ("archive-0a1b", "mild"): (3, began_ms),
            ("made anew", "mild"): (3, began_ms),
            ("watch", "prices"): (1, began_ms),
        }
        at("invoices/mild", "mild", {0: 3})
        at("archive-0a1b", "mild", {0: 1})
        now = found()
        assert (now["invoices", "mild"], now["archive-0a1b", "mild"]) == ((0, None), (2, began_ms + 1_000))
        with closing(core.kafka.transactional_producer("t", transaction_timeout_ms=MINUTE_MS)) as rolled:
            rolled.initialise(WAIT_S)
            rolled.begin()
            for _ in range(2 * SLICE):
                rolled.produce(Outgoing("mild", 0, None, b"x"))
            rolled.abort(WAIT_S)
        with context(world) as jms:
            jms.create_producer().send(Queue("mild"), "x")
        ages = [found()["invoices", "mild"][1] for _ in range(4)]
        assert ages[0] is None, "what was rolled back has no age"
        assert ages[-1] == world.clock.now_ms(), "each look goes on behind the one before"
        at("strange/theirs", "theirs", {}, topic_id="t")
        world._world.cluster.faults.operations_denied = {"theirs": frozenset({"DESCRIBE"})}
        assert found()["invoices", "mild"] == (2 * SLICE + 2, ages[-1]), "one that is refused hides no queue"
