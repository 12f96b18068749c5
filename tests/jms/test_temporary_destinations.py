"""Temporary queues and topics: any connection sends there, and only the one that made them receives (TEMP-1)."""

import threading
from collections.abc import Callable

import pytest

from jbm_kafka import AcknowledgeMode, Message, Queue, TemporaryQueue, TemporaryTopic, errors
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from tests.jms.support import DEAD_LETTERS, NOTHING_S, bodies, copies, eventually, left, receive, receive_all, send
from tests.sidecar.parts import group_worker_behind

Connect = Callable[..., Connection]


@pytest.fixture
def stranger(connect: Connect) -> Session:
    """A session of another connection."""
    return connect().create_session()


def test_any_connection_sends_and_only_the_one_that_made_it_receives(session: Session, stranger: Session) -> None:
    """Of TEMP-1: what is there before a consumer is waits; units, properties and order are as in any queue."""
    mine = session.create_temporary_queue()
    send(stranger, mine, "early", unit="joe")
    consumer = session.create_consumer(mine)
    send(stranger, mine, "late", "last", unit="joe")
    found = receive_all(consumer, 3)
    assert bodies(found) == ["early", "late", "last"]
    assert {(message.destination, message.unit_of_order) for message in found} == {(mine, "joe")}
    with pytest.raises(errors.InvalidDestinationError, match="another connection made it, and only that one may rec"):
        stranger.create_consumer(mine)
    assert consumer.receive(NOTHING_S) is None


def test_two_of_one_connection_do_not_meet(session: Session, stranger: Session) -> None:
    """Of TEMP-1."""
    one, two = session.create_temporary_queue(), session.create_temporary_queue()
    assert one != two
    send(stranger, two, "for two")
    send(stranger, one, "for one")
    assert receive(session.create_consumer(one)).body == "for one"
    assert receive(session.create_consumer(two)).body == "for two"


def test_a_session_of_the_same_connection_receives_too(connect: Connect, stranger: Session) -> None:
    """Of TEMP-1: it lives with its connection, not with its session."""
    connection = connect()
    with connection.create_session() as first:
        mine = first.create_temporary_queue()
        send(stranger, mine, "kept")
    assert receive(connection.create_session().create_consumer(mine)).body == "kept"


def test_an_address_for_replies_goes_through_a_queue_and_can_be_sent_to(
    session: Session, stranger: Session, orders: Queue
) -> None:
    """Of TEMP-1: a received reply_to equals the one that was sent, and is no other's to delete."""
    mine = session.create_temporary_queue()
    session.create_producer(orders).send("how many?", reply_to=mine)
    asked = receive(stranger.create_consumer(orders))
    assert asked.reply_to == mine
    assert isinstance(asked.reply_to, TemporaryQueue)
    stranger.create_producer(asked.reply_to).send("17", correlation_id=asked.message_id)
    assert receive(session.create_consumer(mine)).correlation_id == asked.message_id
    with pytest.raises(errors.IllegalStateError, match="only the connection that made it deletes it"):
        asked.reply_to.delete()


def test_a_topic_gives_each_subscriber_of_its_connection_a_copy(session: Session, stranger: Session) -> None:
    """Of TEMP-1, TOPIC-1: what was sent before somebody subscribed is not his."""
    news = session.create_temporary_topic()
    assert isinstance(news, TemporaryTopic)
    send(stranger, news, "nobody heard")
    one = session.create_consumer(news)
    send(stranger, news, "first")
    two = session.create_consumer(news)
    send(stranger, news, "second")
    assert bodies(receive_all(one, 2)) == ["first", "second"]
    assert bodies(receive_all(two, 1)) == ["second"]
    assert one.receive(NOTHING_S) is two.receive(NOTHING_S) is None
    with pytest.raises(errors.InvalidDestinationError, match="another connection made it"):
        stranger.create_consumer(news)


def test_subscribers_of_a_topic_may_share_and_leave_out_their_own(session: Session, stranger: Session) -> None:
    """Of TEMP-1: shared subscriptions and no_local are as for topics that stay; durable ones cannot be."""
    news = session.create_temporary_topic()
    shared = [session.create_shared_consumer(news, "team") for _ in range(2)]
    others = session.create_consumer(news, no_local=True)
    send(session, news, "mine")
    send(stranger, news, "theirs")
    found = [shared[0].receive(NOTHING_S) or receive(shared[1]) for _ in range(2)]
    assert sorted(str(message.body) for message in found) == ["mine", "theirs"]
    assert shared[0].receive(NOTHING_S) is shared[1].receive(NOTHING_S) is None
    assert receive(others).body == "theirs"
    with pytest.raises(errors.InvalidDestinationError, match="has no durable subscriptions"):
        session.create_shared_durable_consumer(news, "team")


def test_a_shared_subscription_of_a_topic_ends_with_its_last_consumer(session: Session, stranger: Session) -> None:
    """Of TEMP-1, TOPIC-1, TOPIC-3: one of the same name begins when it is made, and not where that one began."""
    news = session.create_temporary_topic()
    session.create_shared_consumer(news, "team").close()
    send(stranger, news, "missed")
    consumer = session.create_shared_consumer(news, "team")
    send(stranger, news, "heard")
    assert receive(consumer).body == "heard"
    assert consumer.receive(NOTHING_S) is None


def test_a_shared_subscription_in_use_is_of_one_temporary_topic_and_selector(
    session: Session, stranger: Session
) -> None:
    """Of TOPIC-3: the second one got nothing, and nobody was told; of a topic that stays it is another one."""
    one, two = session.create_temporary_topic(), session.create_temporary_topic()
    first = session.create_shared_consumer(one, "team")
    with pytest.raises(errors.IllegalStateError, match=f"of this name is in use, and it is one of {one}"):
        session.create_shared_consumer(two, "team")
    with pytest.raises(errors.IllegalStateError, match="of this name is in use"):
        session.create_shared_consumer(one, "team", selector="n = 1")
    first.close()
    second = session.create_shared_consumer(two, "team", selector="n = 1")
    stranger.create_producer(two).send("chosen", properties={"n": 1})
    assert receive(second).body == "chosen"


def test_a_subscription_begins_before_its_connection_is_started(connect: Connect, stranger: Session) -> None:
    """Of TEMP-1, TOPIC-1."""
    connection = connect()
    connection.stop()
    mine = connection.create_session()
    news = mine.create_temporary_topic()
    consumer = mine.create_consumer(news)
    send(stranger, news, "meanwhile")
    connection.start()
    assert receive(consumer).body == "meanwhile"


@pytest.mark.parametrize("mode", [mode for mode in AcknowledgeMode if mode.name in ("CLIENT", "INDIVIDUAL")])
def test_what_is_given_back_comes_again_and_becomes_a_dead_letter(
    connection: Connection, stranger: Session, mode: AcknowledgeMode
) -> None:
    """REDELIVER-1 to 4 hold for temporary queues: attempts count, and a letter tells where it was."""
    mine = connection.create_session(mode)
    queue = mine.create_temporary_queue()
    consumer = mine.create_consumer(queue)
    sent = stranger.create_producer(queue).send("poison", unit_of_order="joe")
    for attempt in range(1, 11):
        message = receive(consumer)
        assert (message.delivery_count, message.redelivered) == (attempt, attempt > 1)
        message.nack()

    def letters() -> list[Message]:
        return [each for each in copies(connection, DEAD_LETTERS, queue) if each.message_id == sent.message_id]

    eventually(lambda: bool(letters()), "a dead letter")
    [letter] = letters()
    assert letter.properties["_JBM_ORIG_DESTINATION"] == str(queue)
    assert letter.kafka is not None
    assert "JBMTemporary" not in dict(letter.kafka.headers)


def test_a_transaction_takes_from_a_temporary_queue_and_sends_elsewhere(
    connection: Connection, stranger: Session, orders: Queue
) -> None:
    """Of ACK-7: rolled back both are undone, committed both are done."""
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    queue = transacted.create_temporary_queue()
    consumer = transacted.create_consumer(queue)
    send(stranger, queue, "one")
    for end in (transacted.rollback, transacted.commit):
        message = receive(consumer)
        transacted.create_producer(orders).send(f"{message.body!s} done")
        transacted.create_producer(queue).send("and more")
        end()
    assert left(connection, orders) == ["one done"]
    assert bodies(receive_all(consumer, 1)) == ["and more"]
    transacted.commit()
    assert consumer.receive(NOTHING_S) is None


def test_what_a_closed_consumer_held_comes_to_the_next(connection: Connection, stranger: Session) -> None:
    """Of TEMP-1: the queue keeps what it holds for as long as it lives, and no longer."""
    client = connection.create_session(AcknowledgeMode.CLIENT)
    queue = client.create_temporary_queue()
    send(stranger, queue, "a", "b", "c")
    with client.create_consumer(queue) as consumer:
        assert bodies(receive_all(consumer, 2)) == ["a", "b"]
    client.recover()
    again = client.create_consumer(queue)
    assert bodies(receive_all(again, 3)) == ["a", "b", "c"]
    client.acknowledge()
    again.close()
    assert client.create_consumer(queue).receive(NOTHING_S) is None


def test_deleting_waits_for_no_consumer_and_ends_it_for_all(connection: Connection, stranger: Session) -> None:
    """TEMP-1: while something receives it is refused; then nobody sends and nobody receives any more."""
    client = connection.create_session(AcknowledgeMode.CLIENT)
    queue = client.create_temporary_queue()
    send(stranger, queue, "a")
    producer = stranger.create_producer(queue)
    with client.create_consumer(queue) as consumer:
        receive(consumer)
        with pytest.raises(errors.IllegalStateError, match="it has a consumer"):
            queue.delete()
    with pytest.raises(errors.IllegalStateError, match="unacknowledged"):
        queue.delete()
    client.acknowledge()
    client.create_consumer(queue).close()
    queue.delete()
    queue.delete()  # again: nothing happens
    with pytest.raises(errors.InvalidDestinationError, match="it was deleted"):
        producer.send("b")
    with pytest.raises(errors.InvalidDestinationError, match="it was deleted"):
        client.create_consumer(queue)


def test_it_ends_with_its_connection(connect: Connect, stranger: Session) -> None:
    """TEMP-1: who sends there in the same process is told."""
    connection = connect()
    session = connection.create_session()
    queue, topic = session.create_temporary_queue(), session.create_temporary_topic()
    session.create_consumer(queue)
    session.create_consumer(topic)
    connection.close()
    for gone in (queue, topic):
        with pytest.raises(errors.InvalidDestinationError, match="its connection or process has ended"):
            stranger.create_producer().send("late", destination=gone)


def test_a_name_that_is_not_ours_is_not_sent_to(session: Session) -> None:
    """Of MSG-2: it is read and passed on; to send there is refused with the reason."""
    with pytest.raises(errors.InvalidDestinationError, match="nothing of jbm-kafka gave this name"):
        session.create_producer(TemporaryQueue("somebody's own"))


def test_browsers_do_not_look_into_one(session: Session) -> None:
    """They look at what stays; the reason is told."""
    with pytest.raises(errors.InvalidDestinationError, match="has no Kafka topic of its own"):
        list(session.create_browser(session.create_temporary_queue()))


def test_consumers_may_select(session: Session, stranger: Session) -> None:
    """Of UNIT-6: as of any queue."""
    queue = session.create_temporary_queue()
    consumer = session.create_consumer(queue, selector="region = 'EU'")
    producer = stranger.create_producer(queue)
    for region in ("US", "EU"):
        producer.send(region, properties={"region": region})
    assert receive(consumer).body == "EU"
    consumer.close()
    assert receive(session.create_consumer(queue)).body == "US"


def test_one_whose_worker_ended_by_itself_goes_on_where_it_was(session: Session, stranger: Session) -> None:
    """Of TEMP-1: what was acknowledged does not come again, what was not does."""
    queue = session.create_temporary_queue()
    consumer = session.create_consumer(queue)
    send(stranger, queue, "a", "b", "c")
    assert bodies(receive_all(consumer, 2)) == ["a", "b"]
    session.recover()
    group_worker = group_worker_behind(consumer._link)
    eventually(lambda: not any(channel.needs_checkpoint for channel in group_worker.data.channels.values()), "settled")
    group_worker.post(lambda: group_worker._give_up(RuntimeError("a fault for the test")))
    with pytest.raises(errors.JMSError, match="a fault for the test"):
        receive_all(consumer, 10)
    found = bodies(receive_all(consumer, 1))
    send(stranger, queue, "d")
    while found[-1] != "d":
        found.append(receive(consumer).body)
    assert found[-2:] == ["c", "d"]
    assert "a" not in found


def test_many_are_cheap(session: Session, stranger: Session) -> None:
    """Of TEMP-1: none is a Kafka topic of its own, and threads come with consumers only."""
    session.create_temporary_queue()
    before = threading.active_count()
    queues = [session.create_temporary_queue() for _ in range(1_000)]
    eventually(lambda: threading.active_count() <= before, "no thread is for one of them")
    send(stranger, queues[-1], "last")
    assert receive(session.create_consumer(queues[-1])).body == "last"
