"""What sessions say of their messages, told by what comes again: real ones over a stepped sidecar, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import SendTimeoutError, TransactionRolledBackError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.session import Session
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.unit_of_work import UnitOfWork
from tests.sidecar.stepped import QUEUE, SteppedSidecar
from tests.simulation.provider import SimulatedConnection, SimulatedProvider
from tests.support.manual_clock import ManualClock

OUT = Queue("out")


class RefusingProvider(SimulatedProvider):
    """Takes no transaction while `is_refusing`, as when the connection's earlier sends are not confirmed."""

    is_refusing = False

    def submit(self, work: UnitOfWork) -> None:
        if self.is_refusing:
            raise SendTimeoutError(f"{work.about}: earlier sends are not confirmed after 60 s")
        super().submit(work)


class SteppedConnection(SimulatedConnection):
    """Started; while it waits for something, its process makes steps."""

    def __init__(self, process: SteppedSidecar, heard: Callable[[Exception], None]) -> None:
        self.process = process
        self.refusing = RefusingProvider(process, records_attempts=False)
        super().__init__("c", self.refusing, prefetch=10, blocks=False, heard=heard)

    def wait_for(self, completion: Completion, timeout_s: float, *, about: str) -> None:
        self.process.run(lambda: completion.is_done)
        completion.wait(0.0, about=about)

    def consumer(self, session: Session, queue: Queue = QUEUE) -> MessageConsumer:
        """One that is connected; it does not wait for its partitions."""
        self.is_started = False
        made = session.create_consumer(queue)
        self.is_started = True
        made._inbox.connect()
        return made

    def receive(self, session: Session, consumer: MessageConsumer) -> Message:
        """The next message, which must come."""
        session._strategy.before_receive()
        taken: list[Delivery] = []

        def has_come() -> bool:
            delivery = consumer._inbox.poll_for_listener()
            if delivery is not None:
                taken.append(delivery)
            return delivery is not None

        self.process.run(has_come)
        return consumer._inbox.present(taken[0])


def _heard(error: Exception) -> None:
    raise error


@pytest.fixture
def connection() -> Iterator[SteppedConnection]:
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False))
    yield SteppedConnection(process, _heard)
    process.crash()


@pytest.mark.parametrize("by", ["Kafka", "the provider"])
def test_a_refused_commit_counts_an_attempt(connection: SteppedConnection, by: str) -> None:
    """Of REDELIVER-1: as a rollback does. Else what can never be committed would come again for ever."""
    process = connection.process
    session = Session(connection, AcknowledgeMode.TRANSACTED)
    consumer = connection.consumer(session)
    process.send("a")
    assert connection.receive(session, consumer).delivery_count == 1
    session.create_producer(OUT).send("refused")

    def refuse(record: Outgoing) -> str | None:
        return "Invalid record" if record.topic == OUT.name else None

    process.cluster.faults.refuse = refuse if by == "Kafka" else None
    connection.refusing.is_refusing = by == "the provider"
    with pytest.raises(TransactionRolledBackError, match="rolled back"):
        session.commit()
    again = connection.receive(session, consumer)
    assert (again.body, again.delivery_count, again.redelivered) == (b"a", 2, True)


def test_a_commit_that_lost_a_partition_counts_an_attempt_of_what_is_left() -> None:
    """Of REDELIVER-1: it was rolled back, whichever of its messages it was for."""
    process = SteppedSidecar("one", MemoryCluster(ManualClock(), waits=False), partitions=2)
    told: list[Exception] = []
    connection = SteppedConnection(process, told.append)
    session = Session(connection, AcknowledgeMode.TRANSACTED)
    consumer = connection.consumer(session)
    process.send("kept", partition=0)
    process.send("lost", partition=1)
    received = {connection.receive(session, consumer).body for _ in range(2)}
    assert received == {b"kept", b"lost"}
    process.group_worker.assignment.drop(process.group_worker.data.channels[1])
    with pytest.raises(TransactionRolledBackError, match="partition 1 of orders with offset 0 moved"):
        session.commit()
    again = connection.receive(session, consumer)
    assert (again.body, again.delivery_count, again.redelivered) == (b"kept", 2, True)
    assert ["taken from this session" in str(error) for error in told] == [True]
    process.crash()


@pytest.mark.parametrize("other", [QUEUE, Queue("other")], ids=["same queue", "other queue"])
def test_closing_a_consumer_settles_nothing_of_another_in_auto(connection: SteppedConnection, other: Queue) -> None:
    """Of ACK-1: the application still has the other one's message, and may yet fail with it."""
    session = Session(connection, AcknowledgeMode.AUTO)
    consumer, closed = connection.consumer(session), connection.consumer(session, other)
    connection.process.send("a")
    assert connection.receive(session, consumer).body == b"a"
    closed.close()
    connection.process.run_for(1_000)
    session._strategy.abandon()
    again = connection.receive(session, consumer)
    assert (again.body, again.delivery_count) == (b"a", 2)
