"""Messages of one subscription are moved, removed, expired and given up; the topic's other subscriptions keep theirs.
On Kafka and in memory, while somebody receives and while nobody does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypedDict

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin, ChosenMessage
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, InvalidSettingError, OrderError
from jbm_kafka.jms.consumer import MessageConsumer
from tests.jms.support import bodies, eventually, receive

RULES = {"#": AddressSettings(partitions=2)}


class Whose(TypedDict):
    """Which subscription is meant."""

    subscription: str
    client_id: str


AUDIT = Whose(subscription="audit", client_id="billing")

Held = Callable[[str], list[object]]
Send = Callable[..., None]


@pytest.fixture
def factory(url: str, kafka_name: str, admin: Admin) -> ConnectionFactory:
    return ConnectionFactory(url, namespace=kafka_name, client_id="billing", address_settings=RULES)


@pytest.fixture
def prices(factory: ConnectionFactory, admin: Admin, kafka_name: str) -> Topic:
    """With the subscriptions `audit` and `other`, from which nobody receives now."""
    admin.create_topic(kafka_name, partitions=2)
    topic = Topic(kafka_name)
    with factory.create_connection() as connection:
        session = connection.create_session()
        for name in ("audit", "other"):
            session.create_durable_consumer(topic, name).close()
    return topic


@pytest.fixture
def parked(admin: Admin, kafka_name: str) -> Queue:
    queue = Queue(f"{kafka_name}.parked")
    admin.create_queue(queue.name, partitions=2)
    return queue


@pytest.fixture
def held(admin: Admin, prices: Topic) -> Held:
    def look(name: str) -> list[object]:
        return sorted(bodies(admin.browse(prices, subscription=name, client_id="billing", include="all")), key=str)

    return look


@pytest.fixture
def send(url: str, prices: Topic, kafka_name: str) -> Send:
    """(body, unit) each, in one transaction, by somebody who has no client id."""

    def send(*rows: tuple[str, str | None]) -> None:
        with ConnectionFactory(url, namespace=kafka_name).create_connection() as connection:
            session = connection.create_session(AcknowledgeMode.TRANSACTED)
            producer = session.create_producer(prices)
            for body, unit in rows:
                producer.send(body, unit_of_order=unit, properties={"body": body})
            session.commit()

    return send


def units(*messages: ChosenMessage) -> list[str | None]:
    return [message.unit for message in messages]


def drained(consumer: MessageConsumer, count: int) -> list[object]:
    found = []
    for _ in range(count):
        message = receive(consumer)
        found.append(message.body)
        message.acknowledge()
    assert consumer.receive(timeout=0.3) is None
    return found


def test_a_subscription_made_before_its_program_misses_nothing(
    factory: ConnectionFactory, admin: Admin, kafka_name: str
) -> None:
    """Of TOPIC-2 and LOG-3: the consumer of that name goes on with it; another one of the name is refused."""
    topic, name = Topic(kafka_name), "later"
    with pytest.raises(InvalidDestinationError):
        admin.create_subscription(topic, name, client_id="billing")
    admin.create_topic(topic, partitions=2)
    regions = [
        partial(admin.create_subscription, topic, name, client_id="billing", selector=each) for each in ("a=1", None)
    ]
    assert [regions[0](), regions[0]()] == [True, False]
    with pytest.raises(IllegalStateError, match=f"one of {topic} with the selector"):
        regions[1]()
    with pytest.raises(IllegalStateError, match="exists and is unshared, this one would be shared"):
        admin.create_subscription(topic, name, client_id="billing", shared=True)
    with pytest.raises(InvalidSettingError, match="a subscription of none is shared"):
        admin.create_subscription(topic, name)
    with factory.create_context() as jms:
        for number in (1, 2):
            jms.create_producer().send(topic, str(number), properties={"a": number})
    with factory.create_context() as jms:
        consumer = jms.create_durable_consumer(topic, name, "a = 1")
        assert receive(consumer).body == "1"
        consumer.close()
        jms.unsubscribe(name)
    assert regions[1](), "it begins anew, after what the ended one of this name had"
    with factory.create_context() as jms:
        jms.create_producer().send(topic, "3")
        assert receive(jms.create_durable_consumer(topic, name)).body == "3"


def test_what_is_removed_of_a_subscription_is_there_for_the_other_one(
    admin: Admin, factory: ConnectionFactory, send: Send, prices: Topic, held: Held
) -> None:
    """Of TOPIC-1: while nobody receives."""
    send(("a", "joe"), ("b", "joe"), ("c", None))
    dry = admin.remove(prices, **AUDIT, unit="joe", dry_run=True)
    assert units(*dry.messages) == ["joe"] * 2
    report = admin.remove(prices, **AUDIT, unit="joe")
    assert (report.messages, report.in_hand, report.kept, report.gone, report.queue) == (
        dry.messages, [], [], [], prices,
    )  # fmt: skip
    assert (held("audit"), held("other")) == (["c"], ["a", "b", "c"])
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        with session.create_durable_consumer(prices, "audit") as consumer:
            assert drained(consumer, 1) == ["c"]
        with session.create_durable_consumer(prices, "other") as consumer:
            assert sorted(map(str, drained(consumer, 3))) == ["a", "b", "c"]


def test_a_whole_unit_of_a_subscription_is_moved_in_its_order_while_somebody_receives(
    admin: Admin, factory: ConnectionFactory, send: Send, prices: Topic, parked: Queue, held: Held
) -> None:
    """Of UNIT-14, UNIT-12: what a worker has in hand stays, and what is behind it in its unit."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        with session.create_durable_consumer(prices, "audit") as consumer:
            send(("mine", "ann"), ("behind", "ann"))
            assert receive(consumer).body == "mine"
            send(*[(f"joe{number}", "joe") for number in range(5)])
            for destination in (prices, parked):
                admin.pause(destination, wait_s=0)
            with pytest.raises(OrderError, match="unit 'joe': only some"):
                admin.move(prices, parked, **AUDIT, unit="joe", count=2)
            report = admin.move(prices, parked, **AUDIT, everything=True)
            assert (units(*report.messages), report.warnings) == (["joe"] * 5, [])
            assert (units(*report.in_hand), [kept.message.unit for kept in report.kept]) == (["ann"], ["ann"])
            session.acknowledge()
    for destination in (prices, parked):
        admin.resume(destination)
    joes = [f"joe{number}" for number in range(5)]
    assert held("other") == ["behind", *joes, "mine"]
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        with session.create_consumer(parked) as consumer:
            assert drained(consumer, 5) == joes
        with session.create_durable_consumer(prices, "audit") as consumer:
            assert drained(consumer, 1) == ["behind"]


def test_what_a_subscription_gives_up_or_lets_expire_says_whose_it_was(
    admin: Admin, factory: ConnectionFactory, send: Send, prices: Topic, held: Held
) -> None:
    """Of REDELIVER-4, SEND-5."""
    send(("bad", "joe"), ("old", "ann"), ("good", "joe"))
    letters = admin.dead_letter_queue()
    report = admin.send_to_dead_letter(prices, **AUDIT, selector="body = 'bad'")
    assert (units(*report.messages), report.address) == (["joe"], letters.name)
    expired = letters.name.replace("DLQ", "ExpiryQueue")
    assert admin.expire(prices, **AUDIT, selector="body = 'old'").address == expired
    told = [
        (message.body, letter.origin.destination, letter.reason, message.properties["_JBM_ORIG_SUBSCRIPTION"])
        for queue in (letters, expired)
        for letter, message in admin.dead_letters(queue, origin=prices)
    ]
    assert told == [
        ("bad", str(prices), "operator", "billing/audit"),
        ("old", str(prices), "expired", "billing/audit"),
    ]
    assert (held("audit"), held("other")) == (["good"], ["bad", "good", "old"])


def test_what_a_subscription_does_not_have_is_no_message_of_it_when_its_owner_reads_ahead(
    admin: Admin, factory: ConnectionFactory, send: Send, prices: Topic
) -> None:
    """Of TOPIC-1: whoever is its owner for a moment reads up to what is named; its selector counts there as well."""
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        session.create_durable_consumer(prices, "few", "body LIKE 'yes%'").close()
        send(*[(f"{'no' if number % 2 else 'yes'} {number}", None) for number in range(12_000)])
    report = admin.remove(prices, subscription="few", client_id="billing", everything=True)
    assert (len(report.messages), report.in_hand, report.kept, report.gone) == (6_000, [], [], [])
    # But for the marks of a transaction in each partition.
    eventually(lambda: held_at_most(admin, prices, "few") <= 2, "all that the subscription had is settled")


def held_at_most(admin: Admin, topic: Topic, name: str) -> int:
    return next(each.held_at_most for each in admin.subscriptions(topic) if each.name == name)


def test_who_names_no_subscription_or_one_that_is_not_there_is_told_in_one_line(
    admin: Admin, factory: ConnectionFactory, send: Send, prices: Topic, parked: Queue, held: Held
) -> None:
    send(("a", None))
    calls = [
        partial(admin.move, prices.name, parked),
        partial(admin.remove, prices.name),
        partial(admin.expire, prices.name),
        partial(admin.send_to_dead_letter, prices.name),
    ]
    for call in calls:
        with pytest.raises(InvalidDestinationError, match="name one of its subscriptions with subscription="):
            call(everything=True)
    for call in calls:
        with pytest.raises(InvalidDestinationError, match=r"there is no subscription 'none' .*'billing/audit'"):
            call(everything=True, subscription="none", client_id="billing")
    with pytest.raises(InvalidDestinationError, match="is a topic"):
        admin.move(prices, prices.name, **AUDIT, everything=True)
    assert held("audit") == ["a"]


def test_a_subscription_that_is_its_own_dead_letter_address_gives_nothing_up(
    admin: Admin, factory: ConnectionFactory, send: Send, prices: Topic, held: Held
) -> None:
    """Of REDELIVER-3."""
    send(("a", None))
    report = admin.send_to_dead_letter(prices, **AUDIT, everything=True, dead_letter_address=str(prices))
    assert "is itself where its messages would go" in report.kept[0].why
    eventually(lambda: held("audit") == ["a"], "it is where it was")
