"""A subscription's selector says which messages are its own: the others hold nothing up, not even their unit."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Topic, errors
from jbm_kafka.admin import Admin
from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.support import NOTHING_S, bodies, eventually, receive, receive_all

Connect = Callable[..., Connection]
EU, US = "region = 'EU'", "region = 'US'"


@pytest.fixture
def admin(warm: ConnectionFactory, bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as made:
        yield made


def publish(session: Session, topic: Topic, *texts: str, unit: str | None = None) -> None:
    """Each with its region: `EU 1`; what has none has no property."""
    producer = session.create_producer(topic)
    for text in texts:
        region = text.partition(" ")[0]
        producer.send(text, properties=None if region == "none" else {"region": region}, unit_of_order=unit)


def nothing_comes(consumer: MessageConsumer) -> bool:
    return consumer.receive(NOTHING_S) is None


def texts_of(consumer: MessageConsumer, count: int) -> list[object]:
    return sorted(bodies(receive_all(consumer, count)), key=str)


def the_one(admin: Admin, topic: Topic) -> SubscriptionCounts:
    [found] = admin.subscriptions(topic)
    return found


def test_a_subscription_has_what_its_selector_chooses_and_another_has_the_rest(session: Session, prices: Topic) -> None:
    """Of SEL-1, TOPIC-1: consumers of a topic too; unknown is not chosen."""
    europe, others = session.create_consumer(prices, EU), session.create_consumer(prices, f"NOT ({EU})")
    everything = session.create_consumer(prices, "  ")
    assert (europe.selector, others.selector, everything.selector) == (EU, f"NOT ({EU})", None)
    publish(session, prices, "EU 1", "US 1", "none 1", "EU 2")
    assert texts_of(europe, 2) == ["EU 1", "EU 2"]
    assert texts_of(others, 1) == ["US 1"]
    assert texts_of(everything, 4) == ["EU 1", "EU 2", "US 1", "none 1"]
    for consumer in (europe, others, everything):
        assert nothing_comes(consumer)


def test_what_is_not_chosen_holds_no_unit_up(session: Session, prices: Topic) -> None:
    """Of UNIT-6 and UNIT-12: it is no message of the subscription; those that are come in order."""
    europe = session.create_consumer(prices, EU)
    publish(session, prices, "US 1", "EU 1", "US 2", "none 1", "EU 2", "US 3", "EU 3", unit="joe")
    assert bodies(receive_all(europe, 3)) == ["EU 1", "EU 2", "EU 3"]
    assert nothing_comes(europe)


def test_what_is_not_chosen_pins_nothing(connect: Connect, session: Session, prices: Topic, admin: Admin) -> None:
    """Of TOPIC-5: the log behind it may be deleted; and an operator sees the selector."""
    mine = connect().create_session()
    with mine.create_shared_durable_consumer(prices, "team", "region IN ('EU')") as team:
        publish(session, prices, *(f"US {number}" for number in range(200)))
        assert nothing_comes(team)
        eventually(lambda: the_one(admin, prices).held_at_most == 0, "what is not chosen is held")
        assert the_one(admin, prices).selector == "region IN ('EU')"
    mine.unsubscribe("team")


def test_a_durable_subscription_keeps_what_its_selector_chooses(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    """Of TOPIC-2: the same selector written otherwise is the same; what was unacknowledged comes again."""
    with connect(client_id=client_id) as connection:
        mine = connection.create_session(AcknowledgeMode.CLIENT)
        first = mine.create_durable_consumer(prices, "audit", EU)
        publish(session, prices, "US 1", "EU 1", unit="joe")
        assert receive(first).body == "EU 1"
    publish(session, prices, "US 2", "EU 2", "none 1", "EU 3", unit="joe")
    with connect(client_id=client_id) as connection, connection.create_session() as mine:
        again = mine.create_durable_consumer(prices, "audit", " (region='EU') ")
        assert bodies(receive_all(again, 3)) == ["EU 1", "EU 2", "EU 3"]
        assert nothing_comes(again)
        again.close()
        mine.unsubscribe("audit")


@pytest.mark.parametrize(("before", "after"), [(EU, US), (None, US), (EU, None)])
def test_another_selector_is_another_durable_subscription(
    connect: Connect, session: Session, prices: Topic, client_id: str, before: str | None, after: str | None
) -> None:
    """TOPIC-2: what the old one held is dropped; while it is in use it is not changed."""
    mine = connect(client_id=client_id).create_session()
    used = mine.create_durable_consumer(prices, "audit", before)
    with pytest.raises(errors.IllegalStateError, match="has a consumer already"):
        mine.create_durable_consumer(prices, "audit", after)
    used.close()
    publish(session, prices, "EU held", "US held")
    consumer = mine.create_durable_consumer(prices, "audit", after)
    publish(session, prices, "EU 1", "US 1")
    expected = ["US 1"] if after else ["EU 1", "US 1"]
    assert texts_of(consumer, len(expected)) == expected
    assert nothing_comes(consumer)
    consumer.close()
    mine.unsubscribe("audit")


@pytest.mark.parametrize("create", ["create_shared_consumer", "create_shared_durable_consumer"])
def test_another_selector_of_a_shared_subscription_in_use_raises(
    connect: Connect, session: Session, prices: Topic, create: str
) -> None:
    """TOPIC-3: who shares it selects alike; when nobody uses it another selector makes another one."""
    mine, theirs = connect().create_session(), connect().create_session()
    first = getattr(mine, create)(prices, "team", EU)
    second = getattr(theirs, create)(prices, "team", "(region) = 'EU'")
    for other in (US, None):
        with pytest.raises(
            errors.IllegalStateError, match=r"in use, and it is one of .* with the selector \"region = "
        ):
            getattr(theirs, create)(prices, "team", other)
    publish(session, prices, "EU 1", "US 1")
    found: list[Message] = []

    def look() -> int:
        found.extend(each for each in (first.receive(NOTHING_S), second.receive(NOTHING_S)) if each is not None)
        return len(found)

    eventually(lambda: look() > 0, "it did not come")
    look()
    assert bodies(found) == ["EU 1"]
    first.close()
    second.close()
    publish(session, prices, "EU late", "US late")
    third = getattr(theirs, create)(prices, "team", US)
    publish(session, prices, "US 2")
    assert texts_of(third, 1) == ["US 2"]
    assert nothing_comes(third)
    third.close()
    if "durable" in create:
        theirs.unsubscribe("team")


def test_a_selector_and_no_local_both_leave_out(connect: Connect, session: Session, prices: Topic) -> None:
    """Of TOPIC-4"""
    mine = connect().create_session()
    picky = mine.create_consumer(prices, EU, no_local=True)
    publish(mine, prices, "EU mine", "US mine")
    publish(session, prices, "EU theirs", "US theirs")
    assert texts_of(picky, 1) == ["EU theirs"]
    assert nothing_comes(picky)


def test_a_wrong_selector_makes_no_subscription(session: Session, prices: Topic, admin: Admin) -> None:
    """Of SEL-1"""
    session.create_consumer(prices).close()
    with pytest.raises(errors.InvalidSelectorError, match="column 9") as refused:
        session.create_shared_durable_consumer(prices, "team", "region == 'EU'")
    assert refused.value.position == 9
    # That of the closed consumer is shown for some moments more.
    eventually(lambda: admin.subscriptions(prices) == [], "no subscription")


def test_a_bare_name_chooses_the_messages_whose_property_of_that_name_is_true(session: Session, prices: Topic) -> None:
    """Of SEL-1."""
    consumer, producer = session.create_consumer(prices, "audit"), session.create_producer(prices)
    for audit in (False, None, True):
        producer.send(str(audit), properties={"audit": audit})
    assert receive(consumer).body == "True"
