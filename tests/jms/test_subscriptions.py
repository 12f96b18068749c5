"""Topics: who subscribed gets a copy of his own, from when he subscribed until he ends it."""

from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, Queue, Topic, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS, NOTHING_S, bodies, receive, receive_all

Connect = Callable[..., Connection]


def publish(session: Session, topic: Topic, *texts: str, unit: str | None = None) -> None:
    producer = session.create_producer(topic)
    for text in texts:
        producer.send(text, unit_of_order=unit)


def nothing_comes(consumer: MessageConsumer) -> bool:
    return consumer.receive(NOTHING_S) is None


def in_order(consumer: MessageConsumer, count: int) -> list[object]:
    return sorted(bodies(receive_all(consumer, count)))  # type: ignore[type-var]


def test_each_subscription_gets_its_own_copy_from_when_it_was_made(session: Session, prices: Topic) -> None:
    """TOPIC-1, STATE-8, LOG-1: what was sent before is nobody's, what is sent after is everybody's."""
    publish(session, prices, "before")
    first = session.create_consumer(prices)
    publish(session, prices, "between")
    second = session.create_consumer(prices)
    publish(session, prices, "after")
    assert in_order(first, 2) == ["after", "between"]
    assert in_order(second, 1) == ["after"]
    assert nothing_comes(first)
    assert nothing_comes(second)


def test_a_consumer_of_a_topic_that_was_closed_gets_nothing_of_the_time_between(
    session: Session, prices: Topic
) -> None:
    """Of TOPIC-1: not durable."""
    with session.create_consumer(prices) as consumer:
        publish(session, prices, "one")
        assert receive(consumer).body == "one"
    publish(session, prices, "missed")
    with session.create_consumer(prices) as consumer:
        publish(session, prices, "two")
        assert in_order(consumer, 1) == ["two"]
        assert nothing_comes(consumer)


def test_a_durable_subscription_keeps_what_comes_while_it_is_closed(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    """SEND-2, and of TOPIC-2: also what is not persistent, and it comes back to whoever has the client id."""
    publish(session, prices, "before")
    with connect(client_id=client_id) as connection, connection.create_session() as mine:
        mine.create_durable_consumer(prices, "audit").close()
    publish(session, prices, "kept")
    producer = session.create_producer(prices)
    producer.delivery_mode = producer.delivery_mode.NON_PERSISTENT
    producer.send("light")
    producer.flush()
    with connect(client_id=client_id) as connection, connection.create_session() as mine:
        consumer = mine.create_durable_consumer(prices, "audit")
        assert in_order(consumer, 2) == ["kept", "light"]
        message = consumer.receive(NOTHING_S)
        assert message is None
        publish(session, prices, "now")
        assert in_order(consumer, 1) == ["now"]


def test_a_durable_subscription_begins_before_its_connection_is_started(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    """Of TOPIC-2: made on a stopped connection it keeps what comes from then on."""
    connection = connect(client_id=client_id)
    connection.stop()
    consumer = connection.create_session().create_durable_consumer(prices, "audit")
    publish(session, prices, "one")
    connection.start()
    assert in_order(consumer, 1) == ["one"]


def test_two_durable_subscriptions_of_one_name_are_two_by_their_client_ids(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    ones = [connect(client_id=client_id + each).create_session() for each in "ab"]
    consumers = [one.create_durable_consumer(prices, "audit") for one in ones]
    publish(session, prices, "for both")
    for consumer in consumers:
        assert in_order(consumer, 1) == ["for both"]


def test_unsubscribe_ends_it_and_one_made_anew_begins_anew(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    """Of TOPIC-2: nothing of the old one comes to the new one, though Kafka knows both by one name."""
    mine = connect(client_id=client_id).create_session()
    consumer = mine.create_durable_consumer(prices, "audit")
    publish(session, prices, "one", "two", "three")
    assert receive(consumer)
    consumer.close()
    mine.unsubscribe("audit")
    with pytest.raises(errors.InvalidDestinationError, match=r"no durable subscription 'audit' of client id 'client-"):
        mine.unsubscribe("audit")
    publish(session, prices, "missed")
    consumer = mine.create_durable_consumer(prices, "audit")
    publish(session, prices, "four")
    message = receive(consumer)
    assert (message.body, message.redelivered) == ("four", False)
    assert nothing_comes(consumer)


def test_a_subscription_in_use_is_neither_ended_nor_changed_nor_used_by_a_second(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    """Of TOPIC-2: nor while anything that a closed consumer received is unacknowledged."""
    mine = connect(client_id=client_id).create_session(AcknowledgeMode.CLIENT)
    consumer = mine.create_durable_consumer(prices, "audit")
    other = Topic(f"{prices.name}.one")
    for topic in (prices, other):  # it named the topic that was asked for
        with pytest.raises(errors.IllegalStateError, match=rf"{prices} subscription '[^']+' has a consumer already"):
            mine.create_durable_consumer(topic, "audit")
    publish(session, prices, "one")
    received = receive(consumer)
    consumer.close()
    for _ in range(2):
        with pytest.raises(errors.IllegalStateError, match="unacknowledged"):
            mine.unsubscribe("audit")
        with pytest.raises(errors.IllegalStateError, match="unacknowledged"):
            mine.create_durable_consumer(other, "audit")
    received.acknowledge()
    consumer = mine.create_durable_consumer(other, "audit")
    publish(session, prices, "old topic")
    publish(session, other, "new topic")
    assert in_order(consumer, 1) == ["new topic"]
    assert nothing_comes(consumer)
    mine.acknowledge()
    consumer.close()
    mine.unsubscribe("audit")


def test_changing_no_local_drops_what_the_subscription_held(
    connect: Connect, session: Session, prices: Topic, client_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of TOPIC-2, TOPIC-4: what the same client id sent is left out, over connections; what others sent is not."""
    with connect(client_id=client_id) as connection, connection.create_session() as mine:
        mine.create_durable_consumer(prices, "audit").close()
        mine.create_durable_consumer(prices, "audit").close()
        publish(session, prices, "held")
        assert not [line for line in caplog.messages if "is dropped" in line]
        mine.create_durable_consumer(prices, "audit", no_local=True).close()
        [line] = [line for line in caplog.messages if "is dropped" in line]
        assert f"it was one of {prices} and is made anew as one of {prices} with no_local" in line
        publish(mine, prices, "my own")
    publish(session, prices, "of others")
    with connect(client_id=client_id) as connection, connection.create_session() as mine:
        consumer = mine.create_durable_consumer(prices, "audit", no_local=True)
        assert in_order(consumer, 1) == ["of others"]
        assert nothing_comes(consumer)
        publish(mine, prices, "my own again")
        assert nothing_comes(consumer)


def test_no_local_leaves_out_what_its_own_connection_sent(connect: Connect, session: Session, prices: Topic) -> None:
    """TOPIC-4"""
    mine = connect().create_session()
    picky, plain = mine.create_consumer(prices, no_local=True), mine.create_consumer(prices)
    publish(mine, prices, "mine")
    publish(session, prices, "theirs")
    assert in_order(picky, 1) == ["theirs"]
    assert nothing_comes(picky)
    assert in_order(plain, 2) == ["mine", "theirs"]


def test_a_durable_subscription_needs_a_client_id(session: Session, prices: Topic) -> None:
    with pytest.raises(errors.IllegalStateError, match=r"no client_id.*create_shared_durable_consumer"):
        session.create_durable_consumer(prices, "audit")


def test_consumers_of_a_shared_subscription_share_one_copy(connect: Connect, session: Session, prices: Topic) -> None:
    """Of TOPIC-3: durable or not, without a client id; another one of the topic gets everything."""
    for create in ("create_shared_consumer", "create_shared_durable_consumer"):
        sessions = [connect().create_session() for _ in range(2)]
        workers = [getattr(each, create)(prices, "workers") for each in sessions]
        watcher = session.create_consumer(prices)
        texts = [f"{number:02}" for number in range(20)]
        for text in texts:
            publish(session, prices, text, unit=text)
        assert in_order(watcher, 20) == texts
        found: list[object] = []
        while len(found) < 20:
            for worker in workers:
                message = worker.receive(0.1)
                if message is not None:
                    found.append(message.body)
        assert sorted(map(str, found)) == texts
        for worker in workers:
            assert nothing_comes(worker)
        watcher.close()
        for each in sessions:
            each.close()
    session.unsubscribe("workers")


def test_a_shared_subscription_ends_with_its_last_consumer_and_a_durable_one_does_not(
    connect: Connect, session: Session, prices: Topic
) -> None:
    """Of TOPIC-3"""
    mine = connect().create_session()
    for create, expected in (("create_shared_consumer", []), ("create_shared_durable_consumer", ["late", "later"])):
        first, second = (getattr(mine, create)(prices, "team") for _ in range(2))
        first.close()
        publish(session, prices, "shared")
        assert in_order(second, 1) == ["shared"]
        second.close()
        publish(session, prices, "late", "later")
        third = getattr(mine, create)(prices, "team")
        assert in_order(third, len(expected)) == expected
        assert nothing_comes(third)
        third.close()
    mine.unsubscribe("team")


def test_a_name_is_of_one_kind_and_one_topic(connect: Connect, session: Session, prices: Topic, client_id: str) -> None:
    """Of TOPIC-3: and a shared subscription in use for one topic is not given another."""
    mine = connect(client_id=client_id).create_session()
    mine.create_durable_consumer(prices, "audit").close()
    with pytest.raises(errors.IllegalStateError, match="exists and is unshared, this one would be shared"):
        mine.create_shared_durable_consumer(prices, "audit")
    shared = mine.create_shared_durable_consumer(prices, "team")
    with pytest.raises(errors.IllegalStateError, match="exists and is shared, this one would be unshared"):
        mine.create_durable_consumer(prices, "team")
    with pytest.raises(errors.IllegalStateError, match=f"in use, and it is one of topic:{prices.name}"):
        mine.create_shared_durable_consumer(Topic(f"{prices.name}.one"), "team")
    shared.close()
    mine.unsubscribe("audit")
    mine.unsubscribe("team")


def test_a_client_id_has_one_connection(connect: Connect, client_id: str) -> None:
    """CONN-2: the second is refused, until the first is closed."""
    first = connect(client_id=client_id)
    with pytest.raises(errors.InvalidClientIDError, match=rf"client id '{client_id}' is in use"):
        connect(client_id=client_id)
    other = connect()
    with pytest.raises(errors.InvalidClientIDError, match="another connection of this process"):
        other.client_id = client_id
    first.close()
    other.client_id = client_id
    assert other.client_id == client_id
    with pytest.raises(errors.IllegalStateError, match="already"):
        other.client_id = "another"


def test_a_name_is_a_queue_or_a_topic(session: Session, prices: Topic, orders: Queue) -> None:
    """Of LOG-1: who uses it first decides."""
    publish(session, prices, "one")
    session.create_producer(orders).send("one")
    with pytest.raises(errors.InvalidDestinationError, match=rf"'{prices.name}' is a topic.*create_topic"):
        session.create_producer(Queue(prices.name)).send("two")
    with pytest.raises(errors.InvalidDestinationError, match=rf"'{orders.name}' is a queue.*create_queue"):
        session.create_consumer(Topic(orders.name))


def test_a_browser_of_a_name_that_is_a_topic_is_refused(session: Session, prices: Topic) -> None:
    """Of LOG-1: it showed the topic's log as if it were a queue's."""
    publish(session, prices, "one")
    with pytest.raises(errors.InvalidDestinationError, match=rf"'{prices.name}' is a topic.*create_topic"):
        list(session.create_browser(Queue(prices.name)))


def test_each_subscription_has_its_own_units_attempts_and_dead_letters(
    connect: Connect, session: Session, prices: Topic, client_id: str
) -> None:
    """UNIT-12, and of REDELIVER-4: one works on what another holds, and a letter says whose it was."""
    topic = Topic(f"{prices.name}.twice")
    mine = connect(client_id=client_id).create_session(AcknowledgeMode.CLIENT)
    slow, fast = mine.create_durable_consumer(topic, "slow"), session.create_consumer(topic)
    publish(session, topic, "one", "two", unit="joe")
    assert receive(slow).body == "one"
    assert bodies(receive_all(fast, 2)) == ["one", "two"], "the unit is held in the other subscription only"
    letters = session.create_consumer(DEAD_LETTERS)
    mine.recover()
    again = receive(slow)
    assert (again.body, again.delivery_count, again.unit_of_order) == ("one", 2, "joe")
    mine.recover()
    letter = receive(letters)
    while letter.properties.get("_JBM_ORIG_DESTINATION") != str(topic):
        letter = receive(letters)
    assert letter.body == "one"
    assert letter.properties["_JBM_ORIG_SUBSCRIPTION"] == f"{client_id}/slow"
    last = receive(slow)
    assert (last.body, last.delivery_count, last.destination) == ("two", 1, topic)
    last.acknowledge()
    assert nothing_comes(fast)


def test_a_transaction_receives_from_a_subscription_and_sends_to_a_topic(
    connect: Connect, session: Session, prices: Topic
) -> None:
    """Of ACK-7: both or neither."""
    totals = Topic(f"{prices.name}.one")
    worker = connect().create_session(AcknowledgeMode.TRANSACTED)
    source = worker.create_shared_durable_consumer(prices, "adders")
    sink = session.create_consumer(totals)
    publish(session, prices, "1")
    for end in (worker.rollback, worker.commit):
        message = receive(source)
        worker.create_producer(totals).send(f"total {message.body!s}")
        assert nothing_comes(sink)
        end()
    assert in_order(sink, 1) == ["total 1"]
    assert nothing_comes(source)
    source.close()
    worker.commit()
    worker.unsubscribe("adders")
