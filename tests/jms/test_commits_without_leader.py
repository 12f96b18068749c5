"""A commit that sends to a partition without a leader: rolled back, whole, and told as what it is (decision 53)."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, MessageConsumer, Queue, errors
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from jbm_kafka.providers.in_memory import use_world
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import SOON_S, left, receive, send
from tests.support.second_broker import FIRST, SECOND, SecondBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

ORDERS, PARCELS = Queue("orders"), Queue("parcels")
PARTITIONS = 2
STUCK, SOUND = (next(u for u in "abcdefgh" if partition_for(u.encode(), PARTITIONS) == each) for each in (0, 1))
"""Units of either partition of the parcels."""
SESSION_TIMEOUT_MS = 6_000


class Cluster(Protocol):
    """Partition 0 of the parcels loses its leader, and gets it back."""

    bootstrap: str

    def make_parcels(self) -> None: ...
    def lose(self) -> None: ...
    def bring_back(self) -> None: ...


class InMemory:
    """One world."""

    def __init__(self, world: MemoryWorld) -> None:
        self.bootstrap = world.url
        self._used = use_world(world.url.removeprefix("memory://"))

    def make_parcels(self) -> None:
        assert self._used.cluster.create_topic(PARCELS.name, PARTITIONS, {})

    def lose(self) -> None:
        self._used.cluster.faults.leaderless = frozenset({(PARCELS.name, 0)})

    def bring_back(self) -> None:
        self._used.cluster.faults.leaderless = frozenset()

    def let_go(self) -> None:
        self._used.let_go()


class OfTwoBrokers:
    """The second one has the partition, and nothing else."""

    def __init__(self, first: LocalBroker, folder: Path) -> None:
        self.bootstrap = first.bootstrap
        self._second = SecondBroker(first, folder)

    def make_parcels(self) -> None:
        self._second.start()
        self._second.create_topic(PARCELS.name, [SECOND, FIRST])

    def lose(self) -> None:
        self._second.stop()
        self._second.wait_leader(PARCELS.name, 0, is_there=False)

    def bring_back(self) -> None:
        self._second.start()
        self._second.wait_leader(PARCELS.name, 0, is_there=True)

    def end(self) -> None:
        if self._second.is_running:
            self._second.stop()


@pytest.fixture(params=["kafka", "memory"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    if request.param == "memory":
        with MemoryWorld() as world:
            in_memory = InMemory(world)
            yield in_memory
            in_memory.let_go()
    else:
        broker: Callable[[], LocalBroker] = request.getfixturevalue("dedicated_broker")
        two = OfTwoBrokers(broker(), tmp_path / "second")
        yield two
        two.end()


@pytest.fixture
def connection(cluster: Cluster) -> Iterator[Connection]:
    """What is ours was made while there was one broker."""
    factory = ConnectionFactory(cluster.bootstrap, session_timeout_ms=SESSION_TIMEOUT_MS)
    with factory.create_connection() as connection:
        with connection.create_session() as session:
            send(session, ORDERS, "1")
            with connection.create_session(AcknowledgeMode.TRANSACTED) as transacted:
                receive(transacted.create_consumer(ORDERS))
                transacted.rollback()
        cluster.make_parcels()
        yield connection


def pack(session: Session, orders: MessageConsumer, *units: str) -> int:
    """Commit a parcel for the next order in each of the units; how often the order had come."""
    order = receive(orders)
    for unit in units:
        send(session, PARCELS, f"of {order.body!s}", unit=unit)
    session.commit()
    return order.delivery_count


def comes_to_hold(connection: Connection, queue: Queue, *bodies: str) -> None:
    """Kafka marks what is committed after the commit: a broker that went before has the mark when it is back."""
    wait_until(
        lambda: sorted(map(str, left(connection, queue))) == [*bodies],
        about=lambda: f"{queue} holds {bodies}, and not {left(connection, queue)}",
        timeout_s=SOON_S,
    )


def test_a_commit_to_a_unit_whose_partition_has_no_leader_is_an_order_error(
    cluster: Cluster, connection: Connection
) -> None:
    """UNIT-11: rolled back whole, it names unit, partition and remedy; other commits go on; done again, it is done."""
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    orders = session.create_consumer(ORDERS)
    send(session, PARCELS, "before", unit=STUCK)
    session.commit()
    cluster.lose()
    with pytest.raises(errors.OrderError) as refused:
        pack(session, orders, SOUND, STUCK)
    assert isinstance(refused.value, errors.TransactionRolledBackError)
    assert (refused.value.destination, refused.value.partition, refused.value.unit) == (PARCELS.name, 0, STUCK)
    text = str(refused.value)
    assert "partition 0 has no leader" in text
    assert f"unit '{STUCK}' is in it and goes nowhere else; bring a broker back" in text
    with connection.create_session(AcknowledgeMode.TRANSACTED) as other:
        send(other, PARCELS, "another's", unit=SOUND)
        other.commit()
    cluster.bring_back()
    comes_to_hold(connection, ORDERS, "1")
    comes_to_hold(connection, PARCELS, "another's", "before")
    attempt = pack(session, orders, SOUND, STUCK)
    assert attempt == 3  # one rolled back by itself before, and a refused commit counts
    comes_to_hold(connection, ORDERS)
    comes_to_hold(connection, PARCELS, "another's", "before", "of 1", "of 1")


@pytest.mark.parametrize("cluster", ["memory"], indirect=True)
def test_a_commit_to_no_unit_there_is_rolled_back_and_says_why(cluster: Cluster, connection: Connection) -> None:
    """Nothing is out of order, so it is not an order error."""
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    orders = session.create_consumer(ORDERS)
    cluster.lose()

    def commit_one() -> None:
        receive(orders)
        session.create_producer(PARCELS).send("1", duplicate_id=STUCK)  # goes where a unit of that name would
        session.commit()

    with pytest.raises(errors.TransactionRolledBackError, match="partition 0 has no leader") as refused:
        commit_one()
    assert not isinstance(refused.value, errors.OrderError)
    assert receive(orders).body == "1"
