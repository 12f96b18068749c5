"""What a stranger to the API met: Python's own words for a wrong call, and objects and texts that told nothing."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import pytest

from jbm_kafka import (
    NO_UNIT,
    AcknowledgeMode,
    BytesMessage,
    Context,
    DeliveryMode,
    MapMessage,
    Message,
    ObjectMessage,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
    Topic,
    errors,
)
from jbm_kafka.admin import Admin
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, QueueChannel, TopicChannel
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS, NEWS = Queue("orders"), Topic("news")
Call = Callable[[Any], object]


@pytest.mark.parametrize(
    ("kind", "argument", "said"),
    [
        (Message, "body", "Message() has no argument 'body'; it takes none; what has a body is a TextMessage, "
         "BytesMessage, MapMessage, StreamMessage or ObjectMessage"),
        (TextMessage, "body", "TextMessage() has no argument 'body'; 'text' is meant, probably; it has text"),
        (BytesMessage, "body", "BytesMessage() has no argument 'body'; 'data' is meant, probably; it has data"),
        (MapMessage, "values", "MapMessage() has no argument 'values'; it has body"),
        (StreamMessage, "values", "StreamMessage() has no argument 'values'; it has body"),
        (ObjectMessage, "value", "ObjectMessage() has no argument 'value'; 'body' is meant, probably; it has body, "
         "codec"),
    ],
)  # fmt: skip
def test_a_message_made_with_an_argument_that_it_has_not(kind: type[Message], argument: str, said: str) -> None:
    with pytest.raises(errors.InvalidTypeError) as caught:
        kind(**{argument: 1})
    assert str(caught.value) == said


def test_help_of_a_stream_message_shows_its_argument() -> None:
    assert list(inspect.signature(StreamMessage).parameters) == ["body"]
    with pytest.raises(errors.MessageFormatError, match=r"^body is 'a': a StreamMessage holds a list$"):
        StreamMessage(body="a")
    assert StreamMessage(body=[1, "a"]).body == [1, "a"]
    assert pickle.loads(pickle.dumps(StreamMessage([1]))).body == [1]


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def admin(world: MemoryWorld) -> Iterator[Admin]:
    """Of a world with a queue and a topic."""
    with world.factory().create_connection(), Admin(world.url) as made:
        made.create_queue(ORDERS)
        made.create_topic(NEWS)
        yield made


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda a: a.delete_destination(Topic("missing")),
         "topic:missing: there is no such topic, and nothing is left of one; Admin.destinations() has those there are, "
         "and jbm-kafka list shows them"),
        (lambda a: a.counts(NEWS),
         "'news' is a topic: name one of its subscriptions with subscription=NAME; jbm-kafka subscriptions list news "
         "shows them"),
        (lambda a: a.browse(Topic("orders")),
         "topic:orders: 'orders' is a queue, and only topics have subscriptions: name a topic, or 'orders' alone where "
         "a queue will do"),
        (lambda a: a.remove(Topic("missing"), everything=True),
         "topic:missing: there is no Kafka topic 'missing'; Admin.destinations() tells which there are"),
    ],
)  # fmt: skip
def test_what_is_said_of_a_topic_that_was_given_as_one(admin: Admin, call: Call, said: str) -> None:
    with pytest.raises(errors.InvalidDestinationError) as caught:
        call(admin)
    assert str(caught.value) == said


def test_each_name_of_a_destination_leads_to_the_other(admin: Admin) -> None:
    assert admin.delete_destination(destination=ORDERS, dry_run=True).destination == ORDERS
    with pytest.raises(errors.InvalidTypeError, match="no argument 'queue'; 'destination' is meant, probably"):
        admin.delete_destination(queue=ORDERS)  # type: ignore[call-arg]
    with pytest.raises(errors.InvalidTypeError, match="and queue the one that they are in"):
        admin.dead_letters(destination=ORDERS)  # type: ignore[call-arg]


def test_where_messages_go_may_be_a_topic(admin: Admin) -> None:
    """So it was, and no type checker let it pass."""
    assert not admin.expire(ORDERS, everything=True, expiry_address=NEWS).messages
    assert not admin.send_to_dead_letter(ORDERS, everything=True, dead_letter_address=Queue("DLQ")).messages


def test_a_producer_whose_unit_nobody_set_has_none(world: MemoryWorld) -> None:
    with world.factory().create_context() as context:
        producer = context.create_producer()
        assert producer.unit_of_order is None
        producer.unit_of_order = NO_UNIT
        producer.unit_of_order = None
        sent = producer.send(ORDERS, "a", properties={"JMSXGroupID": "ann"})
        assert sent.unit_of_order == "ann"


def test_a_contexts_producer_is_asked_for_with_a_destination(world: MemoryWorld) -> None:
    told = "; a context's producer has no destination, each send names it first: send(queue, message)"
    with world.factory().create_context() as context:
        make: Any = context.create_producer
        for arguments, named in ((ORDERS,), {}), ((), {"destination": ORDERS}):
            with pytest.raises(errors.InvalidTypeError) as caught:
                make(*arguments, **named)
            assert str(caught.value).endswith(told)


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("commit", "here message.acknowledge() ends what was received, and a send is done when it returns"),
        ("rollback", "here message.nack() or recover() gives back what was received, and a send cannot be taken back"),
    ],
)
def test_a_session_that_is_not_transacted_tells_what_it_has_instead(
    world: MemoryWorld, call: str, instead: str
) -> None:
    with world.factory().create_context(AcknowledgeMode.INDIVIDUAL) as context:
        with pytest.raises(errors.IllegalStateError) as caught:
            getattr(context, call)()
        assert str(caught.value).endswith(f"; {instead}")
        wanted, mode = AcknowledgeMode.TRANSACTED, AcknowledgeMode.INDIVIDUAL
        assert caught.value.values == {"call": call, "acknowledge_mode": mode, "wanted": wanted}


def test_what_a_user_gets_hold_of_says_what_it_is(world: MemoryWorld, admin: Admin) -> None:
    """Others than these had one before; a message shows no body, which may be large or secret."""
    assert re.fullmatch(r"<MemoryWorld memory://world-\w+ open>", repr(world))
    assert repr(world.clock) == f"<StoppedClock at {world.clock.now_ms()} ms>"
    with world.factory().create_context() as context:
        for _ in range(2):
            context.create_producer().send(ORDERS, "a", unit_of_order="ann")
    look = admin.browse(ORDERS)
    assert repr(look) == "<QueueLook iterate it for its messages; not shown so far: none>"
    assert len(list(look)) == 1
    assert repr(look) == "<QueueLook iterate it for its messages; not shown so far: 1 behind others of their unit>"
    world.close()
    assert repr(world).endswith(" closed>")


def test_what_a_user_of_the_core_interfaces_gets_hold_of_says_what_it_is() -> None:
    store, transactions = MemoryMessageStore("bodies"), LocalTransactionManager()
    assert repr(store.persistence_manager) == "<MemoryPersistenceManager 0 records>"
    assert repr(QueueChannel("q", message_store=store).state) == "<LocalChannelState of 'q': 0 messages>"
    assert repr(TopicChannel("t", message_store=store).state) == "<TopicState of 't': 0 messages>"
    assert repr(transactions) == "<LocalTransactionManager no transaction is open here>"
    current = transactions.begin()
    assert repr(transactions) == f"<LocalTransactionManager transaction {current} is open here>"
    transactions.rollback()


def test_the_module_of_errors_lists_errors_alone() -> None:
    assert [name for name in dir(errors) if not name.startswith("__")] == sorted(errors.__all__)


@pytest.mark.parametrize(
    ("header", "value", "kind", "said"),
    [
        ("priority", "x", errors.InvalidTypeError, "priority is 'x': it is an int from 0 to 9"),
        ("priority", 10, errors.InvalidSettingError, "priority is 10: it is an int from 0 to 9"),
        ("timestamp", 1.5, errors.InvalidTypeError,
         "timestamp is 1.5: it is an int of milliseconds since 1970, 0 for none, of at least 0"),
        ("expiration", -1, errors.InvalidSettingError,
         "expiration is -1: it is an int of milliseconds since 1970, 0 for none, of at least 0"),
        ("delivery_mode", 3.5, errors.InvalidTypeError,
         "delivery_mode is 3.5: it is DeliveryMode.PERSISTENT, NON_PERSISTENT or PERSISTENT_GROUPACK"),
        ("correlation_id", 5, errors.MessageFormatError, "correlation_id is 5: it is a str, or None"),
        ("message_id", 5, errors.MessageFormatError, "message_id is 5: it is a str, or None"),
        ("reply_to", "q", errors.InvalidDestinationError,
         "reply_to is 'q': it is a Queue, not its name; use Queue('q')"),
        ("destination", "q", errors.InvalidDestinationError,
         "destination is 'q': it is a Queue, not its name; use Queue('q')"),
        ("redelivered", 1, errors.InvalidTypeError, "redelivered is 1: it is True or False"),
        ("delivery_count", None, errors.InvalidTypeError,
         "delivery_count is None: it is an int of hand-overs of at least 0"),
        ("state", "NEW", errors.InvalidTypeError,
         "state is 'NEW': it is what a browser tells of its message: a MessageState, or None"),
    ],
)  # fmt: skip
def test_a_header_of_a_message_was_set_to_nonsense(
    world: MemoryWorld, header: str, value: object, kind: type[errors.JMSError], said: str
) -> None:
    with world.factory().create_context() as context:
        made = context.create_producer().send(ORDERS, "a", priority=7)
        received = context.create_consumer(ORDERS).receive(10)
        for message in (TextMessage("a"), made, received):
            before = getattr(message, header)
            with pytest.raises(kind) as caught:
                setattr(message, header, value)
            assert str(caught.value) == said
            assert getattr(message, header) == before
            setattr(message, header, before)


@pytest.mark.parametrize(
    "call",
    [
        *(
            getattr(Session, f"create_{kind}")
            for kind in ("consumer", "durable_consumer", "shared_consumer", "browser")
        ),
        *(getattr(Context, f"create_{kind}") for kind in ("consumer", "browser")),
    ],
)
def test_help_of_what_is_made_with_options_tells_each(call: Callable[..., object]) -> None:
    told = inspect.getdoc(call) or ""
    options = [each.name for each in inspect.signature(call).parameters.values() if each.default is not each.empty]
    assert [option for option in options if option not in told] == []


@pytest.mark.parametrize("kind", [AcknowledgeMode, DeliveryMode])
def test_help_of_a_mode_tells_each_member(kind: type[Enum]) -> None:
    assert [name for name in kind.__members__ if not re.search(rf"\b{name}\b", kind.__doc__ or "")] == []


def test_which_subscription_a_consumer_has_is_shown(world: MemoryWorld) -> None:
    with world.factory().create_context() as jms:
        shown = [
            repr(jms.create_consumer(NEWS)),
            repr(jms.create_shared_consumer(NEWS, "team")),
            repr(jms.create_shared_durable_consumer(NEWS, "audit")),
        ]
    assert shown == [
        "<MessageConsumer topic:news AUTO open>",
        "<MessageConsumer topic:news shared 'team' AUTO open>",
        "<MessageConsumer topic:news shared-durable 'audit' AUTO open>",
    ]
