"""Every call of the API that may have to wait for Kafka, each ready to be made while Kafka does not answer.

A call is prepared before, made in a thread of its own, and judged afterwards by what is in the topics then: what a
call that returned has promised, and what one that raised leaves open.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, DeliveryMode, Message, Queue, Topic
from jbm_kafka.admin import Admin, QueueCounts
from jbm_kafka.errors import JMSError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.session import Session
from tests.support.chaos_topics import lag_of, read_committed
from tests.support.waiting import wait_until

WAITS_S = 60.0
"""How long a receive waits that is called during the outage."""
SOON_S = 60.0
"""A queue goes on within its session timeout and a moment, on a busy machine too."""
LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Call:
    """One."""

    make: Callable[[], object]
    """May raise a JMSError: then it is made once more when Kafka answers again, if `is_repeatable`."""
    judge: Callable[[object], object]
    """Asserts what must hold; it gets what the call returned, or the JMSError."""
    is_repeatable: bool = False


class Bench:
    """What calls are prepared with: a process with its connections, on the broker that is to fail."""

    def __init__(self, bootstrap: str, folder: Path, gone: ExitStack) -> None:
        self.bootstrap = bootstrap
        self.admin = gone.enter_context(Admin(bootstrap, large_bodies="memory://bodies-of-outages"))
        self._folder = folder
        self.connection = gone.enter_context(self.connect())
        self.blocking = gone.enter_context(self.connect(block_on_acknowledge=True))
        self.named = gone.enter_context(self.connect(client_id="client"))
        self.troubles: list[str] = []
        for connection in (self.connection, self.blocking, self.named):
            connection.exception_listener = lambda error: self.troubles.append(f"{type(error).__name__}: {error}")

    def connect(self, **options: object) -> Connection:
        factory = ConnectionFactory(
            self.bootstrap,
            state_dir=str(self._folder / str(options.get("namespace", ""))),
            address_settings={
                "#": AddressSettings(partitions=1),
                **{
                    name: AddressSettings(max_delivery_attempts=1, dead_letter_address=f"{name}.dlq")
                    for name in ("letters", "looked-letters")
                },
                "held": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold"),
            },
            **options,  # type: ignore[arg-type]
        )
        return factory.create_connection()

    def new_file(self, name: str) -> Path:
        """The place of a file that is not there."""
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder / name

    def session(self, mode: AcknowledgeMode = AcknowledgeMode.AUTO, connection: Connection | None = None) -> Session:
        return (connection or self.connection).create_session(mode)

    def filled(self, name: str, *texts: str) -> Queue:
        """A queue with these messages."""
        with self.session() as session, session.create_producer(Queue(name)) as producer:
            for text in texts:
                producer.send(text, unit_of_order="u")
        return Queue(name)

    def in_log(self, name: str) -> Counter[str]:
        """What is committed on the topic."""
        return Counter((message.value() or b"").decode() for message in read_committed(self.bootstrap, name))

    def counts(self, queue: Queue) -> QueueCounts:
        """Asked again where nobody answers: a broker that just started may be busy, which is no fault of a call."""
        found: list[QueueCounts] = []

        def is_answered() -> bool:
            with suppress(JMSError):
                found.append(self.admin.counts(queue))
            return bool(found)

        wait_until(is_answered, about=f"counts of {queue}", timeout_s=SOON_S)
        return found[0]

    def left(self, queue: Queue) -> list[object]:
        """Receives what the queue still holds, until it holds nothing."""
        found: list[object] = []
        with self.session() as session, session.create_consumer(queue) as consumer:

            def is_empty() -> bool:
                message = consumer.receive(LOOK_S)
                if message is not None:
                    found.append(message.body)
                return message is None and lag_of(self.bootstrap, queue.name) == 0

            wait_until(is_empty, about=f"{queue} empty, after {found}", timeout_s=SOON_S)
        return found


def received(consumer: MessageConsumer) -> Message:
    message = consumer.receive(SOON_S)
    assert message is not None
    return message


def _judge_sends(bench: Bench, queue: Queue, *texts: str) -> Callable[[object], None]:
    """Each is there once; of what raised, at most once."""

    def judge(returned: object) -> None:
        found = bench.in_log(queue.name)
        assert set(found) <= set(texts)
        assert set(found.values()) <= {1}, found
        assert isinstance(returned, Exception) or set(found) == set(texts), (found, returned)

    return judge


def send(bench: Bench) -> Call:
    queue = bench.filled("send")
    producer = bench.session().create_producer(queue)
    return Call(lambda: producer.send("a", unit_of_order="u"), _judge_sends(bench, queue, "a"))


def send_by_a_sender(bench: Bench) -> Call:
    queue = bench.filled("sender")
    sender = bench.connection.create_sender()
    return Call(lambda: sender.send(queue, "a", unit_of_order="u"), _judge_sends(bench, queue, "a"))


def run_a_handler(bench: Bench) -> Call:
    """It is there before, and what the handler did is recorded in the end."""
    queue = bench.filled("handled", "a")
    consumer = bench.session(AcknowledgeMode.INDIVIDUAL).create_consumer(queue)
    seen: list[object] = []

    def handle(message: Message) -> None:
        seen.append(message.body)
        Thread(target=consumer.close).start()

    def judge(returned: object) -> None:
        assert (returned, seen) == (None, ["a"])
        assert bench.left(queue) == []

    return Call(lambda: consumer.run(handle), judge)


def ask_how_it_fares(bench: Bench) -> Call:
    """Both answer within their own time; Kafka is asked, and is ready or not."""

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned

    return Call(lambda: (bench.connection.health(LOOK_S), bench.connection.statistics()), judge)


def send_with_completion_and_flush(bench: Bench) -> Call:
    queue = bench.filled("flush")
    producer = bench.session().create_producer(queue)
    told: list[object] = []

    def make() -> None:
        for text in "abc":
            producer.send(text, unit_of_order="u", on_completion=lambda message, error: told.append(error))
        producer.flush(WAITS_S)
        assert len(told) == 3
        for error in told:
            if isinstance(error, Exception):
                raise error

    return Call(make, _judge_sends(bench, queue, *"abc"))


def send_non_persistent(bench: Bench) -> Call:
    """SEND-2: it may be lost."""
    queue = bench.filled("lossy")
    producer = bench.session().create_producer(queue)

    def make() -> None:
        producer.send("a", delivery_mode=DeliveryMode.NON_PERSISTENT)
        producer.close()

    def judge(returned: object) -> None:
        assert returned is None
        assert bench.in_log(queue.name)["a"] <= 1

    return Call(make, judge)


def send_in_groups(bench: Bench) -> Call:
    queue = bench.filled("groups")
    session = bench.session()
    session.set_group_ack_threshold(2)
    producer = session.create_producer(queue)

    def make() -> None:
        for text in "abc":
            producer.send(text, unit_of_order="u", delivery_mode=DeliveryMode.PERSISTENT_GROUPACK)
        producer.flush(WAITS_S)
        assert producer.unacknowledged_sends() == []

    return Call(make, _judge_sends(bench, queue, *"abc"))


def commit(bench: Bench) -> Call:
    """Both or neither, whatever it says."""
    source, target = bench.filled("commit", "a"), bench.filled("committed")
    session = bench.session(AcknowledgeMode.TRANSACTED)
    message = received(session.create_consumer(source))
    session.create_producer(target).send(str(message.body))

    def judge(returned: object) -> None:
        session.close()
        copies = bench.in_log(target.name)["a"]
        assert copies == 1 or isinstance(returned, Exception), returned
        assert bench.left(source) == ["a"] * (1 - copies)
        assert bench.in_log(target.name)["a"] == copies

    return Call(session.commit, judge)


def rollback(bench: Bench) -> Call:
    source, target = bench.filled("rollback", "a"), bench.filled("rolled-back")
    session = bench.session(AcknowledgeMode.TRANSACTED)
    session.create_producer(target).send(str(received(session.create_consumer(source)).body))

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        session.close()
        assert bench.in_log(target.name) == Counter()
        assert bench.left(source) == ["a"]

    return Call(session.rollback, judge)


def acknowledge_and_wait(bench: Bench) -> Call:
    """What returned is durable; what raised is kept."""
    queue = bench.filled("blocking", "a")
    session = bench.session(AcknowledgeMode.CLIENT, bench.blocking)
    message = received(session.create_consumer(queue))

    def judge(returned: object) -> None:
        session.close()
        assert bench.left(queue) == (["a"] if isinstance(returned, Exception) else [])

    return Call(message.acknowledge, judge)


def acknowledge(bench: Bench) -> Call:
    """It returns at once; the message may come again, and is finished in the end."""
    queue = bench.filled("client", "a", "b")
    session = bench.session(AcknowledgeMode.CLIENT)
    message = received(session.create_consumer(queue, prefetch=1))

    def judge(returned: object) -> None:
        session.close()
        assert bench.left(queue) in (["b"], ["a", "b"])

    return Call(message.acknowledge, judge)


def recover(bench: Bench) -> Call:
    queue = bench.filled("recover", "a", "b")
    session = bench.session(AcknowledgeMode.CLIENT)
    received(session.create_consumer(queue))

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        session.close()
        assert bench.left(queue) == ["a", "b"]

    return Call(session.recover, judge)


def receive(bench: Bench) -> Call:
    """It waits through the outage, and gets what is sent during it."""
    queue = bench.filled("receive")
    consumer = bench.session().create_consumer(queue)
    assert consumer.receive_nowait() is None
    producer = bench.session().create_producer(queue)
    return Call(lambda: _sent_and_received(producer, consumer), _judge_is("a"))


def _sent_and_received(producer: MessageProducer, consumer: MessageConsumer) -> object:
    """The body of what came; or "a", where it is told that it could not be sent in time."""
    failed: list[Exception | None] = []
    producer.send("a", on_completion=lambda message, error: failed.append(error))
    message = consumer.receive(WAITS_S)
    if message is not None and message.body == "before":  # its acknowledgement was not recorded yet, and it says so
        assert message.redelivered
        message = consumer.receive(WAITS_S)
    if message is None and failed and failed[0] is not None:
        return "a"
    return received(consumer).body if message is None else message.body  # of its time the outage took the most


def receive_nowait(bench: Bench) -> Call:
    queue = bench.filled("nowait")
    consumer = bench.session().create_consumer(queue)
    assert consumer.receive_nowait() is None
    return Call(consumer.receive_nowait, _judge_is(None))


def _judge_is(value: object) -> Callable[[object], None]:
    def judge(returned: object) -> None:
        assert returned == value, returned

    return judge


def create_consumer(bench: Bench) -> Call:
    queue = bench.filled("consumer", "a")
    session = bench.session()

    def make() -> object:
        return received(session.create_consumer(queue)).body

    return Call(make, _judge_is("a"), is_repeatable=True)


def create_durable_consumer(bench: Bench) -> Call:
    """It begins when it returned, not before it was called."""
    topic, session, producer = Topic("durable"), bench.session(connection=bench.named), bench.session()
    producer.create_producer(topic).send("before")

    def make() -> object:
        consumer = session.create_durable_consumer(topic, "audit")
        producer.create_producer(topic).send("after")
        return received(consumer).body

    return Call(make, _judge_is("after"), is_repeatable=True)


def unsubscribe(bench: Bench) -> Call:
    """Gone in the end, whatever it says: a second call may find that the first has done it."""
    topic, session = Topic("ended"), bench.session(connection=bench.named)
    session.create_durable_consumer(topic, "ended").close()

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception) or "nothing to unsubscribe" in str(returned), returned
        assert bench.admin.subscriptions(topic) == []

    return Call(lambda: session.unsubscribe("ended"), judge, is_repeatable=True)


def receive_from_a_durable_subscription(bench: Bench) -> Call:
    topic, session, producer = Topic("along"), bench.session(connection=bench.named), bench.session()
    consumer = session.create_durable_consumer(topic, "along")
    sender = producer.create_producer(topic)
    sender.send("before")
    assert received(consumer).body == "before"

    return Call(lambda: _sent_and_received(sender, consumer), _judge_is("a"))


def browse(bench: Bench) -> Call:
    queue = bench.filled("browse", "a")
    session = bench.session()

    def make() -> object:
        with session.create_browser(queue) as browser:
            return [message.body for message in browser]

    return Call(make, _judge_is(["a"]), is_repeatable=True)


def close_a_consumer(bench: Bench) -> Call:
    queue = bench.filled("close-consumer", "a")
    consumer = bench.session().create_consumer(queue)

    def has_one() -> bool:
        with consumer._link.lock:
            # As if it were used: what an idle one has asked for is taken back after 3 s.
            consumer._link.demand.receives += 1
            if not consumer._link.buffer.ready:
                consumer._link.request(1)
        return len(consumer._link.buffer) == 1

    wait_until(has_one, about="a message that nobody has asked for", timeout_s=SOON_S)

    def judge(returned: object) -> None:
        assert returned is None
        assert bench.left(queue) == ["a"]

    return Call(consumer.close, judge)


def close_a_session(bench: Bench) -> Call:
    queue = bench.filled("close-session", "a")
    session = bench.session(AcknowledgeMode.CLIENT)
    received(session.create_consumer(queue))

    def judge(returned: object) -> None:
        assert returned is None
        assert bench.left(queue) == ["a"]

    return Call(session.close, judge)


def count(bench: Bench) -> Call:
    queue = bench.filled("count", "a", "b")
    return Call(lambda: bench.admin.counts(queue).held, _judge_is(2), is_repeatable=True)


def create_a_queue(bench: Bench) -> Call:
    """A second call may find that the first has made it."""

    def judge(returned: object) -> None:
        assert isinstance(returned, bool), returned
        assert bench.admin.exists("created")

    return Call(lambda: bench.admin.create_queue("created"), judge, is_repeatable=True)


def list_subscriptions(bench: Bench) -> Call:
    topic = Topic("listed")
    bench.session(connection=bench.named).create_durable_consumer(topic, "listed")
    return Call(lambda: [each.name for each in bench.admin.subscriptions(topic)], _judge_is(["listed"]), True)


CALLS: tuple[Callable[[Bench], Call], ...] = (
    *(send, send_by_a_sender, send_with_completion_and_flush, send_non_persistent, send_in_groups),
    *(run_a_handler, ask_how_it_fares),
    *(commit, rollback, acknowledge_and_wait, acknowledge, recover, receive, receive_nowait),
    *(create_consumer, create_durable_consumer, unsubscribe, receive_from_a_durable_subscription, browse),
    *(close_a_consumer, close_a_session, count, create_a_queue, list_subscriptions),
)
