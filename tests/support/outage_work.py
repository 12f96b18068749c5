"""Work that is under way when Kafka ceases to answer, and what administrators ask for meanwhile.

More calls as of outage_calls.py: what an application does in a loop, judged by what came in which order.
"""

from collections.abc import Callable

from jbm_kafka import AcknowledgeMode, AddressSettings, Message, Queue
from jbm_kafka.errors import InvalidDestinationError, JMSError
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.producer import MessageProducer
from jbm_kafka.jms.session import Session
from tests.support.chaos_topics import lag_of, read_committed
from tests.support.outage_calls import LOOK_S, SOON_S, WAITS_S, Bench, Call, received
from tests.support.waiting import wait_until

UNITS = ("u", "v", "w")
EACH = 4
TEXTS = [f"{unit}{number}" for number in range(EACH) for unit in UNITS]
"""What is sent, in that order; the unit is the first letter."""
LETTERS = "letters.dlq"


def _send(producer: MessageProducer, text: str, **options: object) -> None:
    producer.send(text, unit_of_order=text[0], **options)  # type: ignore[arg-type]


def _filled(bench: Bench, name: str) -> Queue:
    """With all texts."""
    queue = bench.filled(name)
    with bench.session() as session, session.create_producer(queue) as producer:
        for text in TEXTS:
            _send(producer, text)
    return queue


def _order(texts: list[str]) -> dict[str, list[str]]:
    """The first time of each, by unit."""
    return {unit: [text for text in dict.fromkeys(texts) if text[0] == unit] for unit in UNITS}


IN_ORDER = _order(TEXTS)


def _in_log(bench: Bench, queue: Queue) -> list[str]:
    return [(message.value() or b"").decode() for message in read_committed(bench.bootstrap, queue.name)]


def send_units_with_completion(bench: Bench) -> Call:
    """SEND-4: of each unit in order, and none twice; what is told to have failed may be missing or there."""
    queue = bench.filled("units")
    producer = bench.session().create_producer(queue)
    failed: list[str] = []

    def make() -> None:
        for text in TEXTS:

            def told(message: Message, error: Exception | None, text: str = text) -> None:
                if error is not None:
                    failed.append(text)

            _send(producer, text, on_completion=told)
        producer.flush(WAITS_S)

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        found = _in_log(bench, queue)
        assert len(found) == len(set(found)), found
        assert set(TEXTS) - set(failed) <= set(found), (found, failed)
        assert all(found_of == sorted(found_of) for found_of in _order(found).values()), found

    return Call(make, judge)


def forward_in_transactions(bench: Bench) -> Call:
    """ACK-7: receives and sends of commits that fall into the outage, gone on with after the first that failed."""
    source, target = _filled(bench, "forward"), bench.filled("forwarded")
    session = bench.session(AcknowledgeMode.TRANSACTED)
    consumer, producer = session.create_consumer(source, prefetch=3), session.create_producer(target)
    first = received(consumer)

    def forward(message: Message) -> None:
        _send(producer, str(message.body))
        session.commit()

    def make() -> None:
        forward(first)
        for _ in TEXTS[1:]:
            forward(received(consumer))

    def go_on() -> bool:
        message = consumer.receive(LOOK_S)
        if message is not None:
            forward(message)
        return message is None and lag_of(bench.bootstrap, source.name) == 0

    def judge(returned: object) -> None:
        if isinstance(returned, Exception):
            session.rollback()
        wait_until(go_on, about=f"{source} forwarded", timeout_s=SOON_S)
        found = _in_log(bench, target)
        assert len(found) == len(TEXTS), found
        assert _order(found) == IN_ORDER, found
        session.close()

    return Call(make, judge)


def listen(bench: Bench) -> Call:
    """Of ACK-9: a listener gets what was sent before and during the outage; what comes twice is flagged."""
    queue = _filled(bench, "listen")
    sender = bench.session().create_producer(queue)
    seen: list[str] = []
    unflagged: list[str] = []

    def hear(message: Message) -> None:
        text = str(message.body)
        if text in seen and not message.redelivered:
            unflagged.append(text)
        seen.append(text)

    session = bench.session()
    consumer = session.create_consumer(queue)
    consumer.set_listener(hear)

    def make() -> None:
        sender.send("u9", unit_of_order="u")

    def judge(returned: object) -> None:
        wanted = set(TEXTS) if isinstance(returned, Exception) else {*TEXTS, "u9"}
        wait_until(lambda: wanted <= set(seen), about=f"all of {wanted} heard: {seen}", timeout_s=SOON_S)
        session.close()
        assert not unflagged, (unflagged, seen)
        heard = _order([text for text in seen if text != "u9"])
        assert heard == IN_ORDER, seen

    return Call(make, judge)


def acknowledge_each(bench: Bench) -> Call:
    """Of ACK-9, UNIT-1: each acknowledged on its own while Kafka is silent; a unit comes again from where it was."""
    queue = _filled(bench, "individual")
    session = bench.session(AcknowledgeMode.INDIVIDUAL)
    consumer = session.create_consumer(queue)
    taken = [received(consumer) for _ in UNITS]

    def make() -> None:
        for message in taken:
            message.acknowledge()

    def judge(returned: object) -> None:
        before = [str(message.body) for message in taken]
        after = _drained(bench, queue, session, consumer)
        assert _order([*before, *after]) == IN_ORDER, (before, after)
        assert set(after) >= set(TEXTS) - set(before), after
        assert len(after) == len(set(after)), after

    return Call(make, judge)


def _drained(bench: Bench, queue: Queue, session: Session, consumer: MessageConsumer) -> list[str]:
    """Each that is left, acknowledged; one whose acknowledgement is refused comes again."""
    done: list[str] = []

    def is_empty() -> bool:
        message = consumer.receive(LOOK_S)
        if message is not None:
            message.acknowledge()
            done.append(str(message.body))
        return message is None and lag_of(bench.bootstrap, queue.name) == 0

    wait_until(is_empty, about=f"{queue} empty, after {done}", timeout_s=SOON_S)
    session.close()
    return done


def request(bench: Bench) -> Call:
    """TEMP-1: asked again where it had no reply in time."""
    queue = bench.filled("request")
    responder, session = bench.session(), bench.session()
    reply = responder.create_producer()

    def answer(asked: Message) -> None:
        if asked.reply_to is not None:
            told = asked.correlation_id or asked.message_id
            reply.send(f"re {asked.body!s}", destination=asked.reply_to, correlation_id=told)

    responder.create_consumer(queue).set_listener(answer)
    assert session.request(queue, "a", timeout=SOON_S).body == "re a"

    def judge(returned: object) -> None:
        assert returned == "re b", returned
        responder.close()

    return Call(lambda: session.request(queue, "b", timeout=SOON_S).body, judge, is_repeatable=True)


def set_settings(bench: Bench) -> Call:
    wanted = AddressSettings(max_delivery_attempts=7)

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.admin.address_settings("set")["set"].max_delivery_attempts == 7

    return Call(lambda: bench.admin.set_address_settings("set", wanted), judge, is_repeatable=True)


def pause(bench: Bench) -> Call:
    """PAUSE-1: recorded, once Kafka answers, and ended."""
    queue = bench.filled("pause")

    def judge(returned: object) -> None:
        assert not isinstance(returned, Exception), returned
        assert bench.admin.paused(queue).production is not None
        bench.admin.resume(queue)
        assert bench.admin.paused(queue).production is None

    return Call(lambda: bench.admin.pause(queue, "production", wait_s=0.0), judge, is_repeatable=True)


def delete(bench: Bench) -> Call:
    """Gone in the end; a second call may find that the first has done it."""
    queue = bench.filled("delete", "a")

    def judge(returned: object) -> None:
        assert not isinstance(returned, JMSError) or isinstance(returned, InvalidDestinationError), returned
        assert not bench.admin.exists(queue)

    return Call(lambda: bench.admin.delete_destination(queue), judge, is_repeatable=True)


def retry_letters(bench: Bench) -> Call:
    """REDELIVER-9: the letter is back where it came from, once, and left its queue with that."""
    queue, letters = bench.filled("letters", "a"), bench.filled(LETTERS)
    with bench.session(AcknowledgeMode.INDIVIDUAL) as session:
        received(session.create_consumer(queue)).nack()
        wait_until(lambda: bench.in_log(letters.name)["a"] == 1, about="a dead letter", timeout_s=SOON_S)

    def judge(returned: object) -> None:
        if isinstance(returned, JMSError):
            bench.admin.retry_dead_letters(letters)  # what was not sent is still there
        assert bench.in_log(queue.name)["a"] == 2
        assert bench.counts(letters).held == 0
        with bench.session() as session:
            assert received(session.create_consumer(queue)).body == "a"
        wait_until(lambda: bench.counts(queue).held == 0, about=f"{queue} empty", timeout_s=SOON_S)

    return Call(lambda: bench.admin.retry_dead_letters(letters), judge, is_repeatable=True)


WORK_CALLS: tuple[Callable[[Bench], Call], ...] = (
    *(send_units_with_completion, forward_in_transactions, listen, acknowledge_each, request),
    *(set_settings, pause, delete, retry_letters),
)
