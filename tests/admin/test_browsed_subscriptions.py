"""What one subscription of a topic holds is browsed and counted; topics are listed. On Kafka and in memory."""

from __future__ import annotations

from functools import partial

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, TextMessage, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.jms_errors import InvalidDestinationError
from tests.jms.support import bodies, receive


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    return ConnectionFactory(
        url, namespace=kafka_name, client_id=kafka_name, address_settings={"#": AddressSettings(partitions=2)}
    )


def test_a_subscription_is_browsed_as_it_would_receive(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of UNIT-12, UNIT-13: from where it began, what its selector chooses, without what it has settled."""
    prices = Topic(kafka_name)
    browse_cheap = partial(admin.browse, prices, subscription="cheap", client_id=kafka_name)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        producer = session.create_producer(prices)
        producer.send("before", unit_of_order="a")
        session.create_durable_consumer(prices, "all").close()
        with session.create_shared_durable_consumer(prices, "cheap", selector="price < 10") as cheap:
            for body, price in (("a1", 5), ("a2", 50), ("a3", 7), ("a4", 8)):
                message = TextMessage(body)
                message.properties["price"] = price
                producer.send(message, unit_of_order="a")
            receive(cheap).acknowledge()
            assert receive(cheap).body == "a3"
            held = {
                message.body: message.state
                for message in admin.browse(
                    prices, subscription="cheap", client_id=kafka_name, include="all", selector="price < 8"
                )
            }
            assert held == {"a3": MessageState.DELIVERED}
            assert bodies(browse_cheap()) == [], "its unit is in a hand"
        dear = TextMessage("a5")  # which nobody who knows the selector has read
        dear.properties["price"] = 99
        producer.send(dear, unit_of_order="a")
    look = admin.browse(kafka_name, subscription="all", client_id=kafka_name)
    assert [(message.body, message.destination) for message in look] == [("a1", prices)]
    assert sum(look.not_shown.values()) == 4
    everything = admin.browse(prices, subscription="all", client_id=kafka_name, include="all")
    assert bodies(everything) == ["a1", "a2", "a3", "a4", "a5"]
    assert bodies(admin.browse(prices, subscription="cheap", client_id=kafka_name, include="all")) == ["a3", "a4"]
    every, cheap_counts = (
        admin.counts(prices, subscription="all", client_id=kafka_name),
        admin.counts(kafka_name, subscription="cheap", client_id=kafka_name),
    )
    assert (every.held, every.retried, every.members, every.name) == (5, 0, 0, kafka_name)
    assert (cheap_counts.held, cheap_counts.retried) == (2, 1)
    assert cheap_counts.group.endswith(".cheap")


def test_a_wrong_subscription_is_told_with_those_there_are(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    with factory.create_context() as jms:
        jms.create_durable_consumer(Topic(kafka_name), "audit").close()
    for look in (
        lambda: admin.counts(kafka_name, subscription="audit"),
        lambda: list(admin.browse(kafka_name, subscription="audit")),
    ):
        with pytest.raises(InvalidDestinationError, match=rf"no subscription 'audit': it has '{kafka_name}/audit'"):
            look()
    with pytest.raises(InvalidDestinationError, match="there is no Kafka topic"):
        admin.counts("nosuch", subscription="audit")


def test_topics_are_among_the_destinations(admin: Admin, kafka_name: str) -> None:
    admin.create_topic(f"{kafka_name}-b", partitions=1)
    admin.create_queue(f"{kafka_name}-a", partitions=1)
    admin.create_queue(f"{kafka_name}-c", partitions=1)
    assert admin.destinations() == [Queue(f"{kafka_name}-a"), Topic(f"{kafka_name}-b"), Queue(f"{kafka_name}-c")]
