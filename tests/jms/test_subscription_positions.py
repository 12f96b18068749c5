"""Where a durable subscription begins and goes on, whatever happens around it; on a real broker."""

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from jbm_kafka import AcknowledgeMode, Topic
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.conftest import make_factory
from tests.jms.support import NOTHING_S, SOON_S, bodies, eventually, receive_all
from tests.support.chaos_topics import committed_offsets
from tests.support.kafka_tool import reset_offsets
from tests.support.topics import ADMIN_TIMEOUT_S, create_topic, delete_topics

pytestmark = pytest.mark.thorough

KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
NAMES = ("audit", "bill")


@pytest.fixture
def one(bootstrap: str, prices: Topic) -> Topic:
    """A topic of one partition."""
    return Topic(create_topic(bootstrap, f"{prices.name}.one", config=KEPT))


@pytest.fixture
def group(client_id: str) -> str:
    """Of the subscription `audit`."""
    return f"jbm.durable.{client_id}.audit"


@pytest.fixture
def client_id() -> str:
    return f"c{uuid.uuid4().hex[:8]}"


class Process:
    """Connections of one client id with local state of their own; what ends with the last of them is a process."""

    def __init__(self, bootstrap: str, client_id: str, folder: Path) -> None:
        self._factory = make_factory(bootstrap, client_id=client_id, state_dir=str(folder))

    @contextmanager
    def session(self) -> Iterator[Session]:
        with self._factory.create_connection() as connection:
            connection.start()
            with connection.create_session(AcknowledgeMode.AUTO) as session:
                yield session


@pytest.fixture
def process(bootstrap: str, client_id: str, tmp_path: Path) -> Process:
    return Process(bootstrap, client_id, tmp_path / "state")


def nothing_comes(consumer: MessageConsumer) -> bool:
    return consumer.receive(NOTHING_S) is None


def get(consumer: MessageConsumer, *expected: str) -> None:
    """These come next, as new, and then nothing."""
    got = receive_all(consumer, len(expected))
    assert [(m.body, m.delivery_count, m.redelivered) for m in got] == [(body, 1, False) for body in expected]
    assert nothing_comes(consumer)


def plain_producer(bootstrap: str, **options: object) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, **options})


def send_plain(producer: Producer, topic: Topic, *texts: str) -> None:
    """What is in the log when this returns; committed or not."""
    for text in texts:
        producer.produce(topic.name, text.encode(), key=b"u", partition=0, headers={"JBMBody": b"text"})
    assert producer.flush(SOON_S) == 0


# -- made while others send ---------------------------------------------------------------------------------------


def test_subscriptions_made_while_producers_run_begin_between_two_messages_and_miss_none(
    connect: Callable[..., Connection], one: Topic, client_id: str
) -> None:
    """Of TOPIC-1, TOPIC-2: all that is sent after it was made, nothing sent before its making began; no gap."""
    sent = 0
    is_over = threading.Event()
    with connect() as sending, connect(client_id=client_id) as receiving:
        session = sending.create_session(AcknowledgeMode.AUTO)

        def send() -> None:
            nonlocal sent
            producer = session.create_producer(one)
            while not is_over.is_set():
                producer.send(str(sent), unit_of_order="u")
                sent += 1

        sender = threading.Thread(target=send)
        sender.start()
        made = []
        try:
            for number in range(5):
                eventually(lambda least=5 * number + 1: sent >= least, "the sender stands still")  # type: ignore[misc]
                mine, before = receiving.create_session(AcknowledgeMode.AUTO), sent
                is_durable, name = number % 2 == 0, f"s{number}"
                consumer = mine.create_durable_consumer(one, name) if is_durable else mine.create_consumer(one)
                made.append((consumer, before, sent))
            eventually(lambda: sent > made[-1][2] + 20, "the sender stands still")
        finally:
            is_over.set()
            sender.join(SOON_S)
        for consumer, before, after in made:
            first, *others = (int(str(body)) for body in bodies([consumer.receive(SOON_S)]))  # type: ignore[list-item]
            assert not others
            assert before <= first <= after + 1, "sent before it was asked for, or missed what was sent after"
            rest = receive_all(consumer, sent - first - 1)
            assert [int(str(body)) for body in bodies(rest)] == list(range(first + 1, sent))
            assert nothing_comes(consumer)


@pytest.mark.parametrize("is_committed", [True, False], ids=["committed", "aborted"])
def test_a_subscription_made_while_a_transaction_is_open_gets_what_it_commits(
    bootstrap: str, connect: Callable[..., Connection], one: Topic, client_id: str, is_committed: bool
) -> None:
    """Of TOPIC-2, LOG-1: it begins before the open transaction; an aborted one gives nothing."""
    plain = plain_producer(bootstrap)
    transacted = plain_producer(bootstrap, **{"transactional.id": f"open-{client_id}"})
    transacted.init_transactions(ADMIN_TIMEOUT_S)
    send_plain(plain, one, "before")
    transacted.begin_transaction()
    send_plain(transacted, one, "in the transaction, before")
    with connect(client_id=client_id) as connection:
        session = connection.create_session(AcknowledgeMode.AUTO)
        consumers = [session.create_durable_consumer(one, "audit"), session.create_consumer(one)]
        send_plain(transacted, one, "in the transaction, after")
        send_plain(plain, one, "after")
        for consumer in consumers:
            assert nothing_comes(consumer), "the transaction is open"
        expected = ["after"]
        if is_committed:
            transacted.commit_transaction(ADMIN_TIMEOUT_S)
            expected = ["in the transaction, before", "in the transaction, after", "after"]
        else:
            transacted.abort_transaction(ADMIN_TIMEOUT_S)
        for consumer in consumers:
            get(consumer, *expected)


# -- what becomes of its offset -----------------------------------------------------------------------------------


def test_a_subscription_whose_offsets_expired_goes_on_where_it_was(
    bootstrap: str, one: Topic, process: Process, group: str
) -> None:
    """Of LOG-2, TOPIC-2: the broker forgets the offsets of a group that nobody uses for a week; that is no reset."""
    with process.session() as session:
        producer = session.create_producer(one)
        producer.send("before")
        consumer = session.create_durable_consumer(one, "audit")
        session.create_durable_consumer(one, "bill").close()  # has received nothing, and committed nothing
        for text in ("first", "second"):
            producer.send(text)
        get(consumer, "first", "second")
        eventually(lambda: committed_offsets(bootstrap, group) == {0: 3}, "the offset is not that of the end")
        consumer.close()
        producer.send("third")
    expire_offsets(bootstrap, group)
    with process.session() as session:
        session.create_producer(one).send("fourth")
        get(session.create_durable_consumer(one, "audit"), "third", "fourth")
        get(session.create_durable_consumer(one, "bill"), "first", "second", "third", "fourth")


def expire_offsets(bootstrap: str, group: str) -> None:
    """What the broker does itself after `offsets.retention.minutes`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})  # named: its futures fail as soon as nobody holds it
    admin.delete_consumer_groups([group])[group].result(ADMIN_TIMEOUT_S)
    assert committed_offsets(bootstrap, group) == {}


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        pytest.param(("--to-earliest",), ["before", "m0", "m1", "m2", "m3"], marks=pytest.mark.slow),
        (("--to-offset", "2"), ["m1", "m2", "m3"]),
        pytest.param(("--shift-by", "-1"), ["m1", "m2", "m3"], marks=pytest.mark.slow),
        pytest.param(("--to-latest",), [], marks=pytest.mark.slow),
    ],
    ids=lambda each: each[0].strip("-") if isinstance(each, tuple) else "",
)
def test_operators_reset_one_subscription_with_kafkas_own_tool(
    bootstrap: str, one: Topic, process: Process, group: str, to: tuple[str, ...], expected: list[str]
) -> None:
    """Of LOG-2, for subscriptions: back also to before its beginning, forward skips; the other goes on."""
    with process.session() as session:
        producer = session.create_producer(one)
        producer.send("before")
        consumers = {name: session.create_durable_consumer(one, name) for name in NAMES}
        for number in range(4):
            producer.send(f"m{number}")
        for consumer in consumers.values():
            assert bodies(receive_all(consumer, 2)) == ["m0", "m1"]
            session.recover()
        eventually(lambda: committed_offsets(bootstrap, group) == {0: 3}, "the offset is not that of m2")
        assert "Assignments can only be reset if the group" in reset_offsets(bootstrap, group, one.name, *to)
    assert "Assignments can" not in reset_offsets(bootstrap, group, one.name, *to)
    with process.session() as session:
        get(session.create_durable_consumer(one, "audit"), *expected)
        get(session.create_durable_consumer(one, "bill"), "m2", "m3")


# -- what becomes of its topic ------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
def test_a_subscription_gets_all_of_its_topic_made_anew(
    bootstrap: str, one: Topic, process: Process, client_id: str, is_open: bool
) -> None:
    """Of LOG-4, TOPIC-2: though it began, and had come, further in the old one than the new one's first messages."""
    producer = plain_producer(bootstrap)
    send_plain(producer, one, *(f"before {n}" for n in range(5)))
    with process.session() as session:
        consumer = session.create_durable_consumer(one, "audit")
        session.create_durable_consumer(one, "bill").close()
        send_plain(producer, one, "old")
        get(consumer, "old")
        if is_open:
            make_anew(bootstrap, one)
            get_all_that_is_new(consumer)
            get_all_that_is_new(session.create_durable_consumer(one, "bill"))
    if not is_open:
        make_anew(bootstrap, one)
        with process.session() as session:
            for name in NAMES:
                get_all_that_is_new(session.create_durable_consumer(one, name))


NEW = [f"new {n}" for n in range(9)]


def make_anew(bootstrap: str, topic: Topic) -> None:
    """The new one has outgrown the old one's positions when somebody looks."""
    delete_topics(bootstrap, [topic.name])
    create_topic(bootstrap, topic.name, config=KEPT)
    send_plain(plain_producer(bootstrap), topic, *NEW)


def get_all_that_is_new(consumer: MessageConsumer) -> None:
    """What of the old topic was not acknowledged for good may come once more, before."""
    found: list[object] = []
    while "new 0" not in found:
        found += bodies(receive_all(consumer, 1))
    assert [*found[found.index("new 0") :], *bodies(receive_all(consumer, len(NEW) - 1))] == NEW
    assert nothing_comes(consumer)
