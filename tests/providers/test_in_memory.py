"""What stands behind `memory://NAME`; that the API keeps its promises there, tests/jms shows."""

from __future__ import annotations

import subprocess
import sys

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.core.jms_errors import InvalidSettingError, JMSSecurityError
from jbm_kafka.providers import in_memory
from tests.jms.support import bodies, receive, send

ORDERS = Queue("orders")
SOON_S = 10.0


def held(factory: ConnectionFactory, queue: Queue = ORDERS) -> list[object]:
    """What the queue holds."""
    with factory.create_connection() as connection:
        return bodies(connection.create_session().create_browser(queue, include="all"))


def test_a_world_is_there_from_its_first_connection_until_its_last_is_closed(kafka_name: str) -> None:
    factory = ConnectionFactory(f"memory://{kafka_name}")
    assert kafka_name not in in_memory.worlds()
    with factory.create_connection() as connection:
        send(connection.create_session(), ORDERS, "a")
        assert held(ConnectionFactory(f"memory://{kafka_name}")) == ["a"]
        assert kafka_name in in_memory.worlds()
    assert kafka_name not in in_memory.worlds()
    with factory.create_connection() as connection:
        assert connection.create_session().create_consumer(ORDERS).receive_nowait() is None


def test_another_name_is_another_world(kafka_name: str) -> None:
    one, other = (ConnectionFactory(f"memory://{kafka_name}.{number}") for number in (1, 2))
    with one.create_connection() as connection, other.create_connection() as elsewhere:
        send(connection.create_session(), ORDERS, "a")
        assert elsewhere.create_session().create_consumer(ORDERS).receive_nowait() is None
        assert held(one) == ["a"]


def test_two_state_folders_are_two_members_of_the_group(kafka_name: str) -> None:
    """As two processes would, they share the partitions; neither writes to its folder."""
    settings = {"#": AddressSettings(partitions=2)}
    one, other = (
        ConnectionFactory(f"memory://{kafka_name}", state_dir=folder, address_settings=settings)
        for folder in ("nowhere/one", "nowhere/other")
    )
    with one.create_connection() as connection, other.create_connection() as elsewhere:
        producer = connection.create_session().create_producer(ORDERS)
        for number in range(20):
            producer.send(str(number), unit_of_order=f"unit {number}")
        consumers = [
            each.create_session(AcknowledgeMode.AUTO).create_consumer(ORDERS, prefetch=1)
            for each in (connection, elsewhere)
        ]
        received: list[set[object]] = [set(), set()]
        while len(received[0] | received[1]) < 20:
            for consumer, mine in zip(consumers, received, strict=True):
                if (message := consumer.receive_nowait()) is not None:
                    mine.add(message.body)
        assert all(received), "both got some"


def test_a_message_in_the_hand_of_a_closed_connection_comes_again(kafka_name: str) -> None:
    factory = ConnectionFactory(f"memory://{kafka_name}")
    with factory.create_connection() as staying:
        with factory.create_connection() as leaving:
            session = leaving.create_session(AcknowledgeMode.CLIENT)
            send(session, ORDERS, "a")
            receive(session.create_consumer(ORDERS))
        again = receive(staying.create_session().create_consumer(ORDERS))
        assert (again.body, again.redelivered, again.delivery_count) == ("a", True, 2)


def test_settings_of_a_kafka_client_are_refused_by_name_without_their_values() -> None:
    with pytest.raises(InvalidSettingError, match=r"'sasl.password'.*memory://w has none: leave it out") as told:
        ConnectionFactory("memory://w", kafka={"sasl.password": "hidden"})
    assert "hidden" not in str(told.value)


@pytest.mark.parametrize("url", ["memory://", "memory:///x", "memory://a b", "memory://-a"])
def test_a_world_needs_a_name(url: str) -> None:
    with pytest.raises(InvalidSettingError, match="write memory://NAME"):
        ConnectionFactory(url)


def test_there_are_no_users() -> None:
    with pytest.raises(JMSSecurityError, match=r"memory:// has no users of its own; leave them out"):
        ConnectionFactory("memory://w").create_connection("me", "secret")


PROGRAM = """
import sys
from jbm_kafka import ConnectionFactory, Queue

with ConnectionFactory("memory://w").create_context() as jms:
    jms.create_producer().send(Queue("orders"), "a")
    print(jms.create_consumer(Queue("orders")).receive(5).body)
print([name for name in ("confluent_kafka", "rocksdict") if name in sys.modules])
"""


def test_no_client_of_kafka_and_no_database_is_loaded() -> None:
    """They take longer to load than a test takes."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[:2] == ["a", "[]"]
