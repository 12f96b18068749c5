"""Operators see subscriptions, what they pin, and may set them back; on Kafka and in memory."""

from __future__ import annotations

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.ports import CommittedOffset
from tests.jms.support import bodies, eventually, receive_all


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    return ConnectionFactory(
        url, namespace=kafka_name, client_id=kafka_name, address_settings={"#": AddressSettings(partitions=1)}
    )


def members(admin: Admin, topic: Topic | str) -> dict[str, int]:
    return {each.name: each.members for each in admin.subscriptions(topic)}


def test_subscriptions_are_listed_with_what_they_have_not_received(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of TOPIC-5: also one that never came back; and a topic is no queue."""
    prices = Topic(kafka_name)
    assert admin.create_topic(kafka_name, partitions=1)
    assert not admin.create_topic(kafka_name)
    with factory.create_context() as jms:
        producer = jms.create_producer()
        producer.send(prices, "before")
        jms.create_durable_consumer(prices, "late").close()
        with jms.create_shared_durable_consumer(prices, "team") as team:
            for number in range(3):
                producer.send(prices, str(number))
            receive_all(team, 3)
            eventually(lambda: members(admin, prices) == {"late": 0, "team": 1}, "who has closed is a member still")
        eventually(lambda: members(admin, kafka_name) == {"late": 0, "team": 0}, "who has closed is a member still")
    late, team_counts = admin.subscriptions()
    assert (late.topic, late.client_id, late.kind, late.pins, late.held_at_most) == (
        prices, kafka_name, "durable", {0: 1}, 3,
    )  # fmt: skip
    assert late.group == f"{kafka_name}.jbm.durable.{kafka_name.replace('-', '%2D')}.late"
    assert (team_counts.kind, team_counts.held_at_most) == ("shared-durable", 0)
    assert Queue(kafka_name) not in admin.destinations()
    with pytest.raises(InvalidDestinationError, match="is a topic: name one of its subscriptions with"):
        admin.counts(Queue(kafka_name))
    with pytest.raises(IllegalStateError, match="it is a JMS topic with subscriptions"):
        admin.delete_destination(Topic(kafka_name))


def test_an_operator_may_set_a_subscription_back_also_to_before_its_beginning(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Of LOG-2: where it began is for where nothing else is said."""
    prices = Topic(kafka_name)
    with factory.create_context() as jms:
        jms.create_producer().send(prices, "before")
        with jms.create_durable_consumer(prices, "audit") as audit:
            jms.create_producer().send(prices, "after")
            assert bodies(receive_all(audit, 1)) == ["after"]
    [found] = admin.subscriptions()
    assert found.pins == {0: 2}, "what was received is settled"
    admin._core.admin.alter_offsets(found.group, kafka_name, {0: CommittedOffset(0, "")})
    for expected in ("before", "after"):  # the second owner begins where the first was
        with factory.create_context() as jms, jms.create_durable_consumer(prices, "audit", prefetch=1) as audit:
            assert bodies(receive_all(audit, 1)) == [expected]


def test_a_durable_subscription_is_ended_from_outside(
    admin: Admin, factory: ConnectionFactory, kafka_name: str
) -> None:
    """Also that of a client id whose program is gone; not one that somebody receives from."""
    prices = Topic(kafka_name)
    with factory.create_context() as jms:
        jms.create_durable_consumer(prices, "late")
        eventually(lambda: members(admin, prices) == {"late": 1}, "it is no member")
        with pytest.raises(IllegalStateError, match=r"'late' of topic:.* is in use: 1 processes receive from it"):
            admin.unsubscribe("late", client_id=kafka_name)
    eventually(lambda: members(admin, prices) == {"late": 0}, "who has closed is a member still")
    with pytest.raises(
        InvalidDestinationError, match="'late': give the client id that it belongs to: one of this name has client id '"
    ):
        admin.unsubscribe("late")
    with pytest.raises(InvalidDestinationError, match="jbm-kafka subscriptions list shows them"):
        admin.unsubscribe("lat", client_id=kafka_name)
    ended = admin.unsubscribe("late", client_id=kafka_name)
    assert (ended.name, ended.topic) == ("late", prices)
    assert admin.subscriptions(prices) == []
    with pytest.raises(InvalidDestinationError, match=f"there is no Kafka topic '{kafka_name}x'"):
        admin.subscriptions(f"{kafka_name}x")
