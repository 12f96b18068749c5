"""Senders, producers, sessions and asyncio over a store: what applications see, on `memory://` and where nobody is."""

import asyncio
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, cast

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, DeliveryMode, Queue, Topic, aio
from jbm_kafka.admin import Admin
from jbm_kafka.devbroker.asking_again import wait_until
from jbm_kafka.errors import (
    IllegalStateError,
    InvalidDestinationError,
    InvalidSettingError,
    ResourceAllocationError,
    TransactionRolledBackError,
)
from jbm_kafka.jms.connection import provider_of
from jbm_kafka.jms.xa import XAConnectionFactory
from jbm_kafka.store_and_forward.storing_provider import StoringProvider
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nobody answers, and nobody else begins to listen."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


def storing(url: str, folder: Path, **settings: Any) -> ConnectionFactory:
    """A factory whose sends are stored; in tests the disk need not be waited for."""
    return ConnectionFactory(url, store_and_forward=folder, **{"store_fsync": False, **settings})


def received(world: MemoryWorld, count: int, queue: Queue = ORDERS) -> list[Any]:
    """So many messages."""
    with world.factory().create_context() as jms:
        consumer = jms.create_consumer(queue)
        found = [consumer.receive(timeout=20) for _ in range(count)]
        assert None not in found
        assert consumer.receive_nowait() is None
        return found


@pytest.mark.parametrize("fsync", [False, True])
def test_from_the_first_start_on_sends_succeed_while_nobody_answers(nobody: str, tmp_path: Path, fsync: bool) -> None:
    """SAF-1: of each kind; and what waits is counted, and told."""
    with storing(nobody, tmp_path, store_fsync=fsync).create_connection() as connection:
        session = connection.create_session()
        producer = session.create_producer(ORDERS)
        confirmed: list[object] = []
        producer.send("1", unit_of_order="a")
        producer.send("2", delivery_mode=DeliveryMode.NON_PERSISTENT)
        producer.send("3", delivery_mode=DeliveryMode.PERSISTENT_GROUPACK)
        producer.send("4", on_completion=lambda message, error: confirmed.append(error))
        with connection.create_sender() as sender:
            sender.send(Topic("prices"), {"a": 1})
        transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
        with transacted.transaction():
            transacted.create_producer(ORDERS).send("5")
            transacted.create_producer(Topic("prices")).send("6")
        statistics = connection.statistics()
        assert (statistics.store_waiting, statistics.store_set_aside) == (6, 0)
        assert statistics.store_bytes > 300
        assert statistics.store_full_ratio == statistics.store_bytes / (1 << 30)
        assert statistics.of("orders").sent == 5
        connection._core.flush(10)
        assert confirmed == [None]
        health = connection.health(0.1)
        assert (health.is_alive, health.is_ready) == (True, True)


def test_a_loop_sends_while_nobody_answers(nobody: str, tmp_path: Path) -> None:
    """SAF-1"""

    async def send() -> int:
        factory = aio.ConnectionFactory(nobody, store_and_forward=tmp_path)
        async with await factory.create_connection() as connection:
            session = await connection.create_session()
            producer = await session.create_producer(ORDERS)
            for number in range(20):
                await producer.send(str(number))
            return int((await connection.statistics()).store_waiting)

    assert asyncio.run(send()) == 20


def test_what_was_stored_arrives_as_if_it_had_been_sent_at_once(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-2: by id, time, unit, priority and properties, at the same partition."""
    with world.factory().create_context() as plain, storing(world.url, tmp_path).create_context() as stored:
        sent = []
        for jms in (plain, stored):
            producer = jms.create_producer()
            for number in range(10):
                sent.append(
                    producer.send(
                        ORDERS, str(number), unit_of_order=f"u{number}", priority=7, properties={"n": number}, type="t"
                    )
                )
                producer.send(Queue("others"), str(number), duplicate_id=f"d{number}")
        sent_at_ms = world.clock.now_ms()
        world.wait_idle()
    world.clock.advance(5_000)
    found = {message.message_id: message for message in received(world, 20)}
    assert set(found) == {message.message_id for message in sent}
    assert {(m.unit_of_order, m.priority, m.type, m.timestamp) for m in found.values()} == {
        (f"u{number}", 7, "t", sent_at_ms) for number in range(10)
    }
    for one, other in zip(sent[:10], sent[10:], strict=True):
        assert found[one.message_id].kafka.partition == found[other.message_id].kafka.partition
    assert len(received(world, 10, Queue("others"))) == 10, "its duplicate ids count"


def test_messages_of_a_session_without_units_keep_their_order(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-2, ORDER-1"""
    with storing(world.url, tmp_path).create_context() as jms:
        producer = jms.create_producer()
        for number in range(50):
            producer.send(ORDERS, str(number))
    found = received(world, 50)
    assert [message.body for message in found] == [str(number) for number in range(50)]


def test_delays_and_expiry_count_from_the_sending(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-2"""
    with Admin(world.url) as admin, storing(world.url, tmp_path).create_connection() as connection:
        admin.create_queue(ORDERS)
        admin.pause(ORDERS, "sending")
        producer = connection.create_session().create_producer()
        producer.send("late", destination=ORDERS, delivery_delay_ms=60_000)
        producer.send("short", destination=ORDERS, time_to_live_ms=1_000)
        sent = producer.send("long", destination=ORDERS, time_to_live_ms=100_000)
        producer.send("at once", destination=Queue("others"))
        assert [message.body for message in received(world, 1, Queue("others"))] == ["at once"]
        assert connection.statistics().store_waiting == 3, "SAF-6: it holds nothing but its own"
        admin.resume(ORDERS, "sending")
        world.clock.advance(50_000)
        assert wait_until(lambda: not connection.statistics().store_waiting, timeout_s=20)
    assert [(message.body, message.timestamp) for message in received(world, 1)] == [("long", sent.timestamp)]
    world.clock.advance(10_001)
    assert [message.body for message in received(world, 1)] == ["late"]


def test_a_transaction_is_stored_whole_or_not_at_all(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-7"""
    with storing(world.url, tmp_path).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        producer = session.create_producer()
        producer.send("dropped", destination=ORDERS)
        session.rollback()
        producer.send("1", destination=ORDERS)
        producer.send("2", destination=Queue("others"))
        session.commit()
        session.commit()
    assert [message.body for message in received(world, 1)] == ["1"]
    assert [message.body for message in received(world, 1, Queue("others"))] == ["2"]


def test_a_commit_that_also_received_is_refused_and_one_that_only_received_is_kafkas(
    world: MemoryWorld, tmp_path: Path
) -> None:
    """SAF-7"""
    world.send(ORDERS, "come")
    with storing(world.url, tmp_path).create_connection() as connection:
        connection.start()
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        consumer = session.create_consumer(ORDERS)
        assert consumer.receive(timeout=20) is not None
        session.create_producer(Queue("others")).send("gone")
        with pytest.raises(TransactionRolledBackError, match="it has received messages too, which Kafka must know"):
            session.commit()
        assert consumer.receive(timeout=20) is not None
        session.commit()
        assert connection.statistics().store_waiting == 0
    assert received(world, 0) == []


def test_a_branch_of_a_distributed_transaction_is_refused(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-7"""
    factory = XAConnectionFactory(world.url, store_and_forward=tmp_path)
    with factory.create_xa_connection() as connection:
        session = connection.create_xa_session()
        with pytest.raises(IllegalStateError, match="Kafka must know a branch: use a factory without"):
            session.tpc_begin(session.xid(1, "a", "b"))


def test_requests_get_their_replies(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-2: the request is stored; the reply goes to a temporary queue, and so to Kafka at once."""
    with (
        storing(world.url, tmp_path).create_connection() as asking,
        storing(world.url, tmp_path).create_connection() as answering,
    ):
        asking.start()
        answering.start()
        consumer = answering.create_session().create_consumer(ORDERS)
        replies = answering.create_sender()

        def answer(message: Any) -> None:
            replies.send(message.reply_to, message.body + "!", correlation_id=message.message_id)

        consumer.set_listener(answer)
        assert asking.create_session().request(ORDERS, "well", timeout=20).body == "well!"


def test_what_waits_is_forwarded_by_the_next_that_uses_the_folder(
    world: MemoryWorld, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SAF-2"""
    stuck = world._world.cluster.faults
    stuck.leaderless = frozenset(("orders", partition) for partition in range(16))
    with storing(world.url, tmp_path).create_sender() as sender:
        sender.send(ORDERS, "1")
    assert "1 entries wait in the store, and are forwarded by its next user" in caplog.text
    stuck.leaderless = frozenset()
    with storing(world.url, tmp_path).create_connection():
        pass
    assert [message.body for message in received(world, 1)] == ["1"]


def test_a_folder_is_shared_by_connections_of_the_same_settings(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-1"""
    one = storing(world.url, tmp_path).create_sender()
    two = pickle.loads(pickle.dumps(storing(world.url, tmp_path))).create_sender()
    with pytest.raises(InvalidSettingError, match="is open in this process with other settings"):
        storing(world.url, tmp_path, store_fsync=True).create_sender()
    one.send(ORDERS, "1")
    one.close()
    two.send(ORDERS, "2")
    two.close()
    assert {message.body for message in received(world, 2)} == {"1", "2"}


@pytest.mark.parametrize("other", [{"sasl.password": "mine"}, None])
def test_nobody_shares_a_store_that_is_forwarded_by_others_settings(
    nobody: str, tmp_path: Path, other: dict[str, str] | None
) -> None:
    """SAF-1: what it sent was forwarded with the first one's credentials, and its own settings were left in silence."""
    theirs = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "joe",
        "sasl.password": "theirs",
    }
    changed = {"record_timeout_ms": 30_000} if other is None else {"kafka": {**theirs, **other}}
    with storing(nobody, tmp_path, kafka=theirs).create_sender():
        with pytest.raises(InvalidSettingError, match="is open in this process with other settings"):
            storing(nobody, tmp_path, **{"kafka": theirs, **changed}).create_sender()
        storing(nobody, tmp_path, kafka=theirs).create_sender().close()


def test_a_folder_is_the_same_however_it_is_written_and_from_wherever(
    nobody: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SAF-1: the second was told that another process has it; and closed elsewhere, as a daemon is, it was kept."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "store")
    for folder in ("link", "./store", str(tmp_path / "store")):
        with storing(nobody, Path("store")).create_sender(), storing(nobody, Path(folder)).create_sender() as sender:
            sender.send(ORDERS, "1")
            monkeypatch.chdir("/")
        monkeypatch.chdir(tmp_path)


def test_ctrl_c_while_closing_waits_ends_forwarding_and_lets_the_folder_go(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-1: its thread went on for ever, with a store that was closed."""
    is_held, is_waiting = threading.Event(), threading.Event()

    def hold(transactional_id: str, step: str) -> None:
        if step == "produce":
            is_held.set()
            assert is_waiting.wait(20)

    def interrupt() -> None:
        assert is_held.wait(20)
        main = threading.main_thread().ident
        assert main is not None
        assert wait_until(lambda: "wait_forwarded" in calls(sys._current_frames()[main]), timeout_s=20)
        signal.pthread_kill(main, signal.SIGINT)

    world._world.cluster.faults.step = hold
    sender = storing(world.url, tmp_path).create_sender()
    sender.send(ORDERS, "1")
    beside = threading.Thread(target=interrupt)
    beside.start()
    with pytest.raises(KeyboardInterrupt):
        sender.close()
    beside.join()
    is_waiting.set()
    assert wait_until(
        lambda: "jbm-store-and-forward" not in {each.name for each in threading.enumerate()}, timeout_s=20
    )
    world._world.cluster.faults.step = None
    with storing(world.url, tmp_path).create_sender():
        pass
    assert [message.body for message in received(world, 1)] == ["1"]


def test_forwarding_ends_when_its_time_is_up(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-2: after the time that `store forward` was given, closing forwarded for a minute more."""
    connection = storing(world.url, tmp_path).create_connection()
    sender, provider = connection.create_sender(), cast(StoringProvider, provider_of(connection))

    def send_more(transactional_id: str, step: str) -> None:
        if step == "commit":
            sender.send(ORDERS, "2")

    sender.send(ORDERS, "1")
    world._world.cluster.faults.step = send_more
    provider.forward(0.0)
    world._world.cluster.faults.step = None
    forwarded, waiting = provider.forwarded, provider.stored().waiting
    assert waiting
    connection.close()
    assert (provider.forwarded, provider.stored().waiting) == (forwarded, waiting)


def calls(frame: FrameType | None) -> Iterator[str]:
    """The functions of a thread, the innermost first."""
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def test_a_limit_is_one_line_for_the_sender(nobody: str, tmp_path: Path) -> None:
    """SAF-4"""
    with storing(nobody, tmp_path, store_bytes_max=1 << 20).create_sender() as sender:
        sender.send(ORDERS, b"x" * 900_000)
        with pytest.raises(ResourceAllocationError, match=r"store_bytes_max=1048576: nothing was stored"):
            sender.send(ORDERS, b"x" * 900_000)
        sender.send(ORDERS, b"x" * 10_000)


def test_dead_letters_of_the_store_are_told(world: MemoryWorld, tmp_path: Path) -> None:
    """SAF-6"""
    with storing(world.url, tmp_path, auto_create=False).create_connection() as connection:
        connection.create_sender().send(Queue("missing"), "1")
        assert wait_until(lambda: not connection.statistics().store_waiting, timeout_s=20)
        assert connection.statistics().store_set_aside == 1
        assert f"has 1 dead letters: jbm-kafka store show {tmp_path}" in " ".join(connection.health(0.1).reasons)


def test_settings_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for said, settings in (
        ("there is no store: give store_and_forward=FOLDER too", {"store_fsync": True}),
        ("store_and_forward is .*: it is a file", {"store_and_forward": tmp_path / "file"}),
        ("store_bytes_max is 1", {"store_and_forward": tmp_path, "store_bytes_max": 1}),
        ("store_age_max_ms is -1", {"store_and_forward": tmp_path, "store_age_max_ms": -1}),
    ):
        with pytest.raises(InvalidSettingError, match=said):
            ConnectionFactory("a:1", **settings)
    with pytest.raises(InvalidSettingError, match="a sidecar has the store: give store_and_forward in its file"):
        ConnectionFactory("amqp://a:1", store_and_forward=tmp_path)


def test_a_name_is_a_queue_or_a_topic(nobody: str, tmp_path: Path) -> None:
    with storing(nobody, tmp_path).create_sender() as sender:
        sender.send(ORDERS, "1")
        with pytest.raises(InvalidDestinationError, match="topic:orders: this connection sends to it as queue:orders"):
            sender.send(Topic("orders"), "1")
