"""Mistakes that people make: each is told on one line that names the argument, its value and what to do.

What only a broker finds is in test_mistakes_on_a_broker.py, what is typed at a prompt in tests/cli/test_mistakes.py.
"""

import inspect
import re
from collections.abc import Iterator

import pytest

import jbm_kafka
from jbm_kafka import Queue, errors
from jbm_kafka.admin import Admin
from jbm_kafka.local import LocalTransactionManager, MemoryMessageStore, MemoryPersistenceManager, QueueChannel
from jbm_kafka.testing.memory_world import MemoryWorld
from jbm_kafka.testing.stopped_clock import StoppedClock
from tests.jms import mistakes_in_making as making
from tests.jms import mistakes_in_use as use
from tests.jms.one_of_each import Make, Objects, assign, call
from tests.jms.support import receive

MISTAKES = [
    *(*making.URLS, *making.FACTORY, *making.SETTINGS, *making.CONNECTIONS, *making.SESSIONS),
    *(*use.SENDS, *use.RECEIVES, *use.MESSAGES, *use.ADMIN),
]


@pytest.fixture(scope="module")
def objects() -> Iterator[Objects]:
    made = Objects()
    yield made
    made.context.close()
    made.connection.close()
    made.admin.close()


@pytest.mark.parametrize(("mistake", "kind", "said"), MISTAKES, ids=[said for _, _, said in MISTAKES])
def test_a_mistake_is_told_with_its_name_its_value_and_the_remedy(
    objects: Objects, mistake: Make, kind: type[errors.JMSError], said: str
) -> None:
    with pytest.raises(errors.JMSError) as refused:
        mistake(objects)
    assert re.sub(r"ID:[0-9a-zA-Z:-]+|partition \d+", "…", str(refused.value)) == said
    assert type(refused.value) is kind
    assert "\n" not in said
    assert re.search(r"\b(\w{2,}) \1\b", said) is None, "it says so twice"


def test_there_are_a_hundred_and_more() -> None:
    assert len({said for _, _, said in MISTAKES}) > 150


@pytest.mark.parametrize(
    ("mistake", "kind", "said"),
    [
        (assign("producer", "ttl", 3), AttributeError, "a MessageProducer has no attribute 'ttl'"),
        (assign("context_producer", "unit", "u"), AttributeError, "'unit_of_order' is meant, probably"),
        (assign("context", "exeption_listener", print), AttributeError, "'exception_listener' is meant, probably"),
        (assign("connection", "clientid", "me"), AttributeError, "'client_id' is meant, probably"),
        (call("properties", "__getitem__", "nosuch"), KeyError, "nosuch"),
    ],
)
def test_what_python_itself_refuses_stays_pythons(
    objects: Objects, mistake: Make, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        mistake(objects)


CLASSES = [
    *(each for each in (getattr(jbm_kafka, name) for name in jbm_kafka.__all__) if inspect.isclass(each)),
    *(Admin, MemoryWorld, StoppedClock, LocalTransactionManager, MemoryMessageStore, MemoryPersistenceManager),
    QueueChannel,
]
PUBLIC = sorted(
    {
        (each, name)
        for each in CLASSES
        for name, member in inspect.getmembers(each)
        if (inspect.isfunction(member) or inspect.ismethod(member)) and not name.startswith("_")
    },
    key=str,
)
TAKE_ALL = {(MemoryWorld, "factory")}
"""A factory's settings, which are told by it."""


@pytest.mark.parametrize(("owner", "name"), [each for each in PUBLIC if each not in TAKE_ALL])
def test_no_public_call_has_a_bare_type_error_for_an_argument_that_is_not_there(owner: type, name: str) -> None:
    """It was Python's own, which is no JMSError and does not say what there is."""
    is_of_class = inspect.ismethod(getattr(owner, name))
    with pytest.raises(errors.InvalidTypeError, match=rf"^{name}\(\) has no argument 'no_such_argument'"):
        getattr(owner, name)(*([] if is_of_class else [object()]), no_such_argument=1)


def test_nearly_every_public_call_is_among_them() -> None:
    assert len(PUBLIC) > 150
    assert {(jbm_kafka.Session, "create_consumer"), (Admin, "counts"), (jbm_kafka.TextMessage, "nack")} <= set(PUBLIC)


@pytest.mark.parametrize("name", ["receive", "receive_nowait", "receive_body", "set_listener", "close"])
def test_a_compiled_consumer_tells_it_too(objects: Objects, name: str) -> None:
    with pytest.raises(errors.InvalidTypeError, match=rf"^{name}\(\) has no argument 'timeout_ms'"):
        getattr(objects.consumer, name)(timeout_ms=5)
    with pytest.raises(errors.InvalidTypeError, match=rf"^{name}\(\) takes "):
        getattr(objects.consumer, name)(1, 2, 3)


def test_wrong_values_are_value_errors_and_wrong_types_type_errors_too(objects: Objects) -> None:
    with pytest.raises(ValueError, match="priority is 10"):
        objects.producer.send("a", priority=10)
    with pytest.raises(TypeError, match="priority is 'high'"):
        objects.producer.send("a", priority="high")  # type: ignore[arg-type]


def test_a_mistake_at_a_send_leaves_the_session_as_it_was(objects: Objects) -> None:
    consumer = objects.session.create_consumer(Queue("after"))
    for wrong in (5, None):
        with pytest.raises(errors.MessageFormatError):
            objects.free_producer.send(wrong, destination=consumer.destination)  # type: ignore[arg-type]
    objects.free_producer.send("after", destination=consumer.destination)
    assert receive(consumer).body == "after"
