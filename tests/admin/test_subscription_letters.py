"""Dead letters of a topic's subscription are sent again to that one and to no other: on Kafka and in memory."""

from __future__ import annotations

from functools import partial

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.jms.session import Session
from tests.jms.support import bodies, eventually, receive

RULES = {"#": AddressSettings(partitions=2, max_delivery_attempts=1)}


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    return ConnectionFactory(url, namespace=kafka_name, client_id="billing", address_settings=RULES)


@pytest.fixture
def prices(admin: Admin, kafka_name: str) -> Topic:
    admin.create_topic(kafka_name, partitions=2)
    return Topic(kafka_name)


def give_up_in(session: Session, topic: Topic, name: str, selector: str | None = None) -> None:
    """The subscriptions `name` and `other` get a message, and `name` gives it up."""
    session.create_durable_consumer(topic, "other").close()
    with session.create_durable_consumer(topic, name, selector) as consumer:
        session.create_producer(topic).send("bad", unit_of_order="joe", properties={"region": "EU"})
        receive(consumer).nack()
        assert consumer.receive(timeout=0.3) is None


def letters_of(admin: Admin, topic: Topic) -> list[str | None]:
    return [letter.origin.subscription for letter, _ in admin.dead_letters(origin=topic)]


def held(admin: Admin, topic: Topic, name: str) -> list[object]:
    return bodies(admin.browse(topic, subscription=name, client_id="billing", include="all"))


def test_a_letter_comes_to_the_subscription_that_gave_it_up_and_to_no_other(
    admin: Admin, factory: ConnectionFactory, prices: Topic
) -> None:
    """REDELIVER-9. Of TOPIC-1: also when it dies again, and while the subscriptions have receivers or none."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        give_up_in(session, prices, "audit")
        eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "its letter is there")
        assert admin.retry_dead_letters(origin=f"topic:{prices.name}", dry_run=True).letters
        assert admin.retry_dead_letters(origin=f"topic:{prices.name}").sent == 1
        assert (held(admin, prices, "audit"), held(admin, prices, "other")) == (["bad"], ["bad"])
        with session.create_durable_consumer(prices, "audit") as audit:
            message = receive(audit)
            assert (message.body, message.unit_of_order, message.delivery_count) == ("bad", "joe", 1)
            assert message.properties == {"region": "EU"}
            message.nack()
            eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "it has died again")
            with session.create_durable_consumer(prices, "other") as other:
                receive(other).acknowledge()
                assert admin.retry_dead_letters(origin=prices).sent == 1
                receive(audit).acknowledge()
                assert other.receive(timeout=0.5) is None
            assert audit.receive(timeout=0.3) is None
    for name in ("audit", "other"):
        eventually(partial(_is_settled, admin, prices, name), f"{name} has settled all of the log")
    assert letters_of(admin, prices) == []


def test_a_letter_of_a_durable_subscription_went_to_a_shared_one_of_the_same_name_too(
    admin: Admin, factory: ConnectionFactory, prices: Topic
) -> None:
    """REDELIVER-9: and it was refused where the other one's selector does not choose it."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        with (
            session.create_durable_consumer(prices, "audit") as durable,
            session.create_shared_consumer(prices, "audit", "region = 'US'") as shared,
        ):
            session.create_producer(prices).send("EU", properties={"region": "EU"})
            receive(durable).nack()
            eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "the durable one's letter is there")
            assert admin.retry_dead_letters(origin=prices).kept == []
            receive(durable).acknowledge()
            session.create_producer(prices).send("US", properties={"region": "US"})
            receive(shared).nack()
            receive(durable).acknowledge()
            eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "the shared one's letter is there")
            assert admin.retry_dead_letters(origin=prices).sent == 1
            receive(shared).nack()
            assert durable.receive(timeout=0.5) is None
            eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "it has died again")
        (kept,) = admin.retry_dead_letters(origin=prices).kept  # the shared one has ended with its consumer
        assert "which is not there any more" in kept.why


def test_a_letter_whose_subscription_is_gone_or_another_one_stays_and_says_so(
    admin: Admin, factory: ConnectionFactory, prices: Topic
) -> None:
    """Of REDELIVER-9."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        give_up_in(session, prices, "audit", "region = 'EU'")
        eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "its letter is there")
        session.create_durable_consumer(prices, "audit", "region = 'US'").close()
        (kept,) = admin.retry_dead_letters(origin=prices).kept
        assert "which is another one now, of topic:" in kept.why
        assert "and does not choose it" in kept.why
        session.unsubscribe("audit")
        (kept,) = admin.retry_dead_letters(origin=prices).kept
        assert "'billing/audit', which is not there any more: make it again" in kept.why
        session.create_durable_consumer(prices, "audit", "region = 'EU'").close()
        assert admin.retry_dead_letters(origin=prices).sent == 1
        with session.create_durable_consumer(prices, "audit", "region = 'EU'") as audit:
            receive(audit).acknowledge()
    assert held(admin, prices, "other") == ["bad"]


def test_what_was_sent_again_and_is_moved_on_is_a_message_like_others(
    admin: Admin, factory: ConnectionFactory, prices: Topic, kafka_name: str
) -> None:
    """Of MSG-1: whom it was for is not passed on."""
    admin.create_queue(f"{kafka_name}.parked", partitions=1)
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        give_up_in(session, prices, "audit")
        eventually(lambda: letters_of(admin, prices) == ["billing/audit"], "its letter is there")
        assert admin.retry_dead_letters(origin=prices).sent == 1
        with session.create_durable_consumer(prices, "audit") as audit:
            message = receive(audit)
            assert message.kafka is not None
            assert ("JBMSubscription", b"jbm.durable.billing.audit") in message.kafka.headers
            session.create_producer(prices).send(message)
            message.acknowledge()
            receive(audit).acknowledge()
    assert held(admin, prices, "other") == ["bad", "bad"]
    parked = f"{kafka_name}.parked"
    admin.move(prices, parked, subscription="other", client_id="billing", everything=True)
    for message in admin.browse(parked, include="all"):
        assert message.kafka is not None
        assert "JBMSubscription" not in dict(message.kafka.headers)


def _is_settled(admin: Admin, topic: Topic, name: str) -> bool:
    """But for the marks of transactions."""
    return next(each.held_at_most for each in admin.subscriptions(topic) if each.name == name) <= 2
