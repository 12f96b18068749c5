"""PERSISTENT_GROUPACK sends that fail, or are not confirmed for a while: who hears of which, and when."""

from collections.abc import Callable, Iterator
from typing import cast

import pytest

from jbm_kafka import DeliveryMode, MessageProducer, Queue, TextMessage, errors
from jbm_kafka.core.destination import Destination
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.sends.send_group import GroupSend, SendGroup
from jbm_kafka.jms.sends.send_order import SendOrder
from jbm_kafka.jms.session import Session
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_kafka.ports.provider import Provider
from jbm_kafka.providers.in_memory import use_world
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import NOTHING_S, SOON_S, Aside, bodies, eventually, left, receive

ORDERS = Queue("orders")
FAILED = r"; (\d+) sends are not confirmed, unacknowledged_sends\(\) has them: send them again, in order"
Refuse = Callable[..., None]


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as world:
        yield world


@pytest.fixture
def cluster(world: MemoryWorld) -> Iterator[MemoryCluster]:
    """Its brokers, to do wrong with."""
    used = use_world(world.url.removeprefix("memory://"))
    yield used.cluster
    used.let_go()


@pytest.fixture
def connection(world: MemoryWorld, cluster: MemoryCluster) -> Iterator[Connection]:
    with world.factory().create_connection() as connection:
        yield connection
        cluster.faults.stalled = cluster.faults.refuse = None


@pytest.fixture
def session(connection: Connection) -> Session:
    return connection.create_session()


@pytest.fixture
def producer(session: Session) -> MessageProducer:
    """Four at a time."""
    session.set_group_ack_threshold(4)
    producer = session.create_producer(ORDERS)
    producer.delivery_mode = DeliveryMode.PERSISTENT_GROUPACK
    producer.unit_of_order = "u"
    return producer


@pytest.fixture
def refuse(cluster: MemoryCluster) -> Refuse:
    """Have these bodies refused; none: nothing any more."""

    def set_refused(*refused: str) -> None:
        def reason(record: Outgoing) -> str | None:
            is_refused = record.topic == ORDERS.name and (record.value or b"").decode() in refused
            return "Broker failed to validate record" if is_refused else None

        cluster.faults.refuse = reason

    return set_refused


def told(connection: Connection) -> None:
    """Everything sent was reported."""
    assert connection._core.provider.flush(SOON_S)


def stall(cluster: MemoryCluster) -> None:
    """Nothing is confirmed."""
    cluster.faults.stalled = lambda topic, partition: topic == ORDERS.name


def go_on(cluster: MemoryCluster) -> None:
    with cluster.changed:
        cluster.faults.stalled = None
        cluster.changed.notify_all()


def test_sends_return_at_once_and_the_nth_waits_for_all(
    cluster: MemoryCluster, connection: Connection, producer: MessageProducer
) -> None:
    """SEND-3: until every one before it is confirmed."""
    stall(cluster)
    for body in "abc":
        producer.send(body)
    assert bodies(producer.unacknowledged_sends()) == ["a", "b", "c"]
    fourth = Aside(lambda: producer.send("d"))
    eventually(lambda: bodies(producer.unacknowledged_sends()) == [*"abcd"], "the fourth is not sent")
    assert fourth.is_running
    go_on(cluster)
    fourth.result()
    assert producer.unacknowledged_sends() == []
    assert left(connection, ORDERS) == [*"abcd"]
    stall(cluster)
    producer.send("e")  # the first of the next four
    assert bodies(producer.unacknowledged_sends()) == ["e"]


@pytest.mark.parametrize("waits", ["flush", "close"])
def test_flush_and_close_wait(cluster: MemoryCluster, producer: MessageProducer, waits: str) -> None:
    """SEND-3: for a group that is not full."""
    stall(cluster)
    producer.send("a")
    waiting = Aside(getattr(producer, waits))
    eventually(lambda: producer.is_closed or waits == "flush", "it is not closing")
    assert waiting.is_running
    go_on(cluster)
    waiting.result()
    assert producer.unacknowledged_sends() == []


def test_the_nth_raises_and_the_list_has_exactly_those_not_confirmed(
    cluster: MemoryCluster, connection: Connection, producer: MessageProducer, refuse: Refuse
) -> None:
    """SEND-3, SEND-4: each as it was sent, with what was an argument of its send."""
    refuse("b")
    stall(cluster)  # a failure known before the fourth is sent would keep it back
    producer.send("a")
    producer.send("b", properties={"region": "EU"}, correlation_id="7")
    producer.send("c")
    fourth = Aside(lambda: producer.send("d"))
    eventually(lambda: bodies(producer.unacknowledged_sends()) == [*"abcd"], "the fourth is not sent")
    go_on(cluster)
    with pytest.raises(errors.JMSError, match=FAILED) as caught:
        fourth.result()
    assert caught.value.values["unacknowledged"] == 1
    [failed] = producer.unacknowledged_sends()
    assert (failed.body, failed.unit_of_order, failed.properties["region"], failed.correlation_id) == (
        "b", "u", "EU", "7",
    )  # fmt: skip
    refuse()
    producer.unit_of_order = None
    producer.send(failed)
    producer.flush()
    assert producer.unacknowledged_sends() == []
    with connection.create_session() as session:
        *_, again = session.create_browser(ORDERS, include="all")
        assert (again.body, again.unit_of_order, again.properties["region"]) == ("b", "u", "EU")


def test_the_send_after_a_failure_sends_nothing(
    connection: Connection, producer: MessageProducer, refuse: Refuse
) -> None:
    """SEND-4: nothing overtakes what is sent again; its message is on the list with the others."""
    refuse("a")
    producer.send("a")
    told(connection)
    with pytest.raises(errors.JMSError, match=FAILED) as caught:
        producer.send("b")
    assert caught.value.values["unacknowledged"] == 2
    again = producer.unacknowledged_sends()
    assert bodies(again) == ["a", "b"]
    refuse()
    for message in again:
        producer.send(message)
    producer.flush()
    assert producer.unacknowledged_sends() == []
    assert left(connection, ORDERS) == ["a", "b"]


def test_what_was_refused_for_an_earlier_failure_is_not_waited_for(
    connection: Connection, producer: MessageProducer, refuse: Refuse
) -> None:
    """SEND-3: it was not sent, so no report will come; whoever waits would wait for ever."""
    refuse("a")
    producer.send("a")
    told(connection)
    with pytest.raises(errors.JMSError, match=FAILED):
        producer.send("b")
    Aside(producer.close).result()
    assert bodies(producer.unacknowledged_sends()) == ["a", "b"]


def test_a_failure_is_raised_once(connection: Connection, producer: MessageProducer, refuse: Refuse) -> None:
    """SEND-3: by whatever comes first; the list keeps it."""
    refuse("a")
    producer.send("a")
    with pytest.raises(errors.JMSError, match=FAILED):
        producer.flush()
    producer.send("b")
    producer.flush()
    producer.close()
    assert bodies(producer.unacknowledged_sends()) == ["a"]


def test_what_was_given_is_forgotten_by_a_flush_that_finds_nothing_wrong(
    producer: MessageProducer, refuse: Refuse
) -> None:
    """SEND-3: who sends it in another way, or not at all, has it on the list no more. Not before it was given."""
    refuse("a", "b")
    for body in "ab":
        producer.send(body)
    with pytest.raises(errors.JMSError):
        producer.flush()
    producer.flush()
    assert bodies(producer.unacknowledged_sends()) == ["a", "b"]
    producer.send("a")
    with pytest.raises(errors.JMSError):
        producer.flush()
    assert bodies(producer.unacknowledged_sends()) == ["a", "b", "a"], "a flush that fails forgets nothing"
    producer.flush()
    assert producer.unacknowledged_sends() == []


def test_a_resend_that_fails_stays_on_the_list(producer: MessageProducer, refuse: Refuse) -> None:
    """SEND-3: once, and behind what failed with it and was not sent again yet."""
    refuse("a", "b")
    for body in "ab":
        producer.send(body)
    with pytest.raises(errors.JMSError):
        producer.flush()
    first, _ = producer.unacknowledged_sends()
    producer.send(first)
    with pytest.raises(errors.JMSError):
        producer.flush()
    assert bodies(producer.unacknowledged_sends()) == ["b", "a"]


def test_what_is_sent_again_keeps_its_duplicate_id(
    connection: Connection, producer: MessageProducer, refuse: Refuse
) -> None:
    """SEND-3, of SEND-8: it may be in the log after all."""
    refuse("a")
    producer.send("a", duplicate_id="order-1")
    with pytest.raises(errors.JMSError):
        producer.flush()
    refuse()
    [failed] = producer.unacknowledged_sends()
    producer.send("a, which arrived", duplicate_id="order-1")
    producer.send(failed)
    producer.flush()
    with connection.create_session() as session:
        consumer = session.create_consumer(ORDERS)
        assert receive(consumer).body == "a, which arrived"
        assert consumer.receive(NOTHING_S) is None


def test_an_object_that_is_used_again_is_listed_as_it_was(cluster: MemoryCluster, producer: MessageProducer) -> None:
    """SEND-3: each send of it with what it had then."""
    stall(cluster)
    message = TextMessage()
    for body in "abc":
        message.body = body
        producer.send(message)
    assert bodies(producer.unacknowledged_sends()) == ["a", "b", "c"]


def test_closing_a_session_tells_the_exception_listener(
    connection: Connection, session: Session, producer: MessageProducer, refuse: Refuse
) -> None:
    """SEND-3: what no call has raised."""
    heard: list[Exception] = []
    connection.exception_listener = heard.append
    refuse("a")
    producer.send("a")
    session.close()
    eventually(lambda: len(heard) == 1, "nobody hears of it")
    assert "1 sends are not confirmed" in str(heard[0])
    assert bodies(producer.unacknowledged_sends()) == ["a"]


def test_leaving_a_producer_raises_unless_something_else_is_raised(
    connection: Connection, session: Session, refuse: Refuse
) -> None:
    heard: list[Exception] = []
    connection.exception_listener = heard.append
    refuse("a")
    mode = DeliveryMode.PERSISTENT_GROUPACK
    with pytest.raises(errors.JMSError, match=FAILED), session.create_producer(ORDERS) as producer:
        producer.send("a", delivery_mode=mode)

    def fail() -> None:
        with session.create_producer(ORDERS) as producer:
            producer.send("a", delivery_mode=mode)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    eventually(lambda: len(heard) == 1, "nobody hears of it")


class Interrupting:
    """Of a provider what a group of sends asks it for: takes a send, and Ctrl-C comes before it returns."""

    def __init__(self) -> None:
        self.is_interrupting = True
        self.sends: list[GroupSend] = []

    def send(self, record: Outgoing, report: GroupSend, *, is_waited_for: bool) -> None:
        self.sends.append(report)
        if self.is_interrupting:
            raise KeyboardInterrupt

    def send_error(self, error: KafkaClientError, destination: Destination) -> errors.JMSError:
        return errors.JMSError(f"{destination}: {error}")


def test_an_interrupted_send_that_arrived_is_told_as_failed_to_nobody() -> None:
    """SEND-3: the list has it while nobody knows; once it is confirmed nothing is raised, and it may be sent again."""
    provider, record = Interrupting(), Outgoing(ORDERS.name, 0, None, b"a")
    group = SendGroup(cast(Provider, provider), SendOrder(), None)
    with pytest.raises(KeyboardInterrupt):
        group.send(TextMessage("a"), record, ORDERS, threshold=4)
    [given] = group.unacknowledged()
    provider.sends[0](None)
    assert group.unacknowledged() == []
    group.check()
    provider.is_interrupting = False
    group.send(given, record, ORDERS, threshold=4)
    provider.sends[1](None)
    assert group.wait(0)
    assert group.unacknowledged() == []
