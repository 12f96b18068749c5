"""Acknowledgements that were said and not recorded: told with the ids of their messages."""

import queue
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue, errors
from jbm_kafka.browsing.ids_in_log import SPAN, ids_in_log
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.shared.named_messages import with_ids
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing, Unreachable
from tests.jms.conftest import Connect
from tests.jms.support import SOON_S, Aside, eventually, group_worker_behind, receive, send, standing_still
from tests.support.manual_clock import ManualClock

NEVER_MS = 60_000
"""Between checkpoints: what is acknowledged is not recorded while a test runs."""


def take_partitions(consumer: MessageConsumer) -> None:
    """As if they had been another process's for a moment."""
    group_worker = group_worker_behind(consumer)

    def take() -> None:
        for channel in list(group_worker.data.channels.values()):
            group_worker.assignment.reopen(channel)

    group_worker.post(take)


def heard(connection: Connection) -> "queue.SimpleQueue[Exception]":
    told: queue.SimpleQueue[Exception] = queue.SimpleQueue()
    connection.exception_listener = told.put
    return told


def ids(*messages: Message) -> tuple[str | None, ...]:
    return tuple(message.message_id for message in messages)


@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_an_acknowledgement_that_will_never_be_recorded_is_told_with_the_ids(
    connect: Connect, orders: Queue, tmp_path: Path, mode: AcknowledgeMode
) -> None:
    """ACK-9: the ids of what was acknowledged, and of what was taken from the application."""
    connection = connect(checkpoint_interval_ms=NEVER_MS, state_dir=str(tmp_path))
    session = connection.create_session(mode)
    send(session, orders, "a", "b", "c")
    consumer, told = session.create_consumer(orders), heard(connection)
    first, second = receive(consumer), receive(consumer)  # in AUTO the second call acknowledges the first message
    if mode is not AcknowledgeMode.AUTO:
        first.acknowledge()
    take_partitions(consumer)
    found = {type(error): error for error in (told.get(timeout=SOON_S), told.get(timeout=SOON_S))}
    late, taken = found[IllegalStateError], found[JMSError]
    assert isinstance(late, JMSError)
    assert isinstance(taken, JMSError)
    assert (late.message_ids, taken.message_ids) == (ids(first), ids(second))
    assert str(first.message_id) in str(late)
    assert str(second.message_id) in str(taken)


def test_an_acknowledgement_that_comes_too_late_raises_with_the_ids(connect: Connect, orders: Queue) -> None:
    """Of ACK-9: of all that the call would have settled."""
    connection = connect()
    session = connection.create_session(AcknowledgeMode.CLIENT)
    send(session, orders, "a", "b", unit="u")
    consumer, told = session.create_consumer(orders), heard(connection)
    first, second = receive(consumer), receive(consumer)
    take_partitions(consumer)
    told.get(timeout=SOON_S)
    with pytest.raises(errors.IllegalStateError, match=str(first.message_id)) as raised:
        second.acknowledge()
    assert raised.value.message_ids == ids(first, second)


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_an_acknowledgement_that_waited_while_its_partition_moved_spoke_of_a_transaction(
    connect: Connect, orders: Queue, tmp_path: Path, mode: AcknowledgeMode
) -> None:
    """Of ACK-9: with block_on_acknowledge it is told as every other that comes too late."""
    connection = connect(block_on_acknowledge=True, checkpoint_interval_ms=NEVER_MS, state_dir=str(tmp_path))
    session = connection.create_session(mode)
    send(session, orders, "a")
    consumer = session.create_consumer(orders)
    message = receive(consumer)
    with standing_still(consumer):
        acknowledging = Aside(message.acknowledge)
        eventually(lambda: bool(consumer._link.settlement.dispositions), "it was not said")
        group_worker = group_worker_behind(consumer)  # no checkpoint may be made before they are taken
        group_worker._parts = replace(group_worker._parts, note_dirty=lambda *_: None)
        take_partitions(consumer)
    with pytest.raises(errors.IllegalStateError, match="acknowledgement of offset 0 refused") as raised:
        acknowledging.result()
    assert raised.value.message_ids == ids(message)


def test_a_late_failure_is_told_without_ids_where_the_log_cannot_be_read() -> None:
    """Of ACK-9: and says so; the places are there in any case."""

    def fail(topic: str, partition: int, offsets: Collection[int]) -> Mapping[int, str]:
        raise JMSError("Kafka does not answer")

    error = JMSError("refused", topic="orders", partition=1, offsets=(3, 4))
    told = with_ids(error, fail)
    assert str(told) == "refused; their ids could not be read"
    assert isinstance(told, JMSError)
    assert (told.offsets, told.message_ids) == ((3, 4), ())
    other = RuntimeError("of something else")
    assert with_ids(other, fail) is other


def test_ids_are_found_however_far_apart_the_messages_are() -> None:
    """Of ACK-9: in portions, for what lies between them is read too."""
    kafka = MemoryKafka(MemoryCluster(ManualClock()))
    kafka.admin().create_topic("orders", partitions=1, config={})
    sender = kafka.sender()
    for number in range(2 * SPAN + 3):
        sender.send(Outgoing("orders", 0, None, b"", [("JMSMessageID", f"ID:{number}".encode())]), None)
    assert sender.flush(10)
    wanted = [2 * SPAN + 2, 0, SPAN, SPAN + 1]
    found = ids_in_log(kafka, "orders", 0, wanted, timeout_s=10)
    assert found == {offset: f"ID:{offset}" for offset in wanted}
    sender.close(1)


def test_who_closes_does_not_wait_for_a_log_that_cannot_be_read() -> None:
    """Of ACK-9, CONN-3: else it is asked again and again for half a minute, for a broker that is just back is slow."""
    kafka = MemoryKafka(MemoryCluster(ManualClock(), waits=False))
    kafka.admin().create_topic("orders", partitions=1, config={})
    with pytest.raises(Unreachable):
        ids_in_log(kafka, "orders", 0, [7], timeout_s=3_600, is_closing=lambda: True)
