"""Mistakes that people make: each is told on one line that names the argument, its value and what to do.

What only a broker finds is in test_mistakes_on_a_broker.py, what is typed at a prompt in tests/cli/test_mistakes.py.
"""

import re
from collections.abc import Iterator

import pytest

from jbm_kafka import ConnectionFactory, Queue, errors
from tests.jms import mistakes_in_making as making
from tests.jms import mistakes_in_use as use
from tests.jms.one_of_each import HOST, Make, Objects, assign, call, new
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
        (new(ConnectionFactory, HOST, retries=3), TypeError, "unexpected keyword argument 'retries'"),
        (call("producer", "send", "a", ttl=3), TypeError, "unexpected keyword argument 'ttl'"),
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
