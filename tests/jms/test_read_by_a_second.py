"""What a second reader of the API found: texts that led nowhere, and mistakes that were taken in silence. In memory."""

from __future__ import annotations

import dataclasses
import pydoc
import re
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from decimal import Decimal
from fractions import Fraction
from operator import setitem
from typing import Any, SupportsFloat

import pytest

import jbm_kafka
from jbm_kafka import (
    AcknowledgeMode,
    BytesMessage,
    Connection,
    Context,
    MapMessage,
    MessageConsumer,
    MessageProducer,
    Queue,
    Session,
    StreamMessage,
    TextMessage,
    admin,
    errors,
)
from jbm_kafka.admin import Admin
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")
RESULTS = [
    kind
    for module in (jbm_kafka, admin)
    for name in module.__all__
    if dataclasses.is_dataclass(kind := getattr(module, name)) and isinstance(kind, type)
]


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def session(world: MemoryWorld) -> Iterator[Session]:
    """Of a connection that is started."""
    with world.factory().create_connection() as connection:
        connection.start()
        yield connection.create_session()


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: str(kind.__name__))
def test_a_set_attribute_of_a_result_was_a_type_error_about_super(kind: type) -> None:
    for name in ("foo", dataclasses.fields(kind)[0].name):
        value: Any = object.__new__(kind)
        with pytest.raises(FrozenInstanceError, match="cannot be changed"):
            setattr(value, name, 1)
        with pytest.raises(FrozenInstanceError, match="cannot be changed"):
            delattr(value, name)


def test_counts_did_not_tell_what_people_call_the_size_of_a_queue() -> None:
    with MemoryWorld() as world, Admin(world.url) as looking:
        looking.create_queue("orders")
        counts = looking.counts("orders")
    for name in ("size", "depth", "message_count"):
        with pytest.raises(AttributeError, match=f"^a QueueCounts has no attribute '{name}'; 'held' is meant, probabl"):
            getattr(counts, name)


@pytest.mark.parametrize("kind", [Session, Connection, MessageProducer, MessageConsumer, Context, Admin])
def test_help_of_a_class_showed_the_inner_names_of_its_machinery(kind: type) -> None:
    told = pydoc.plain(pydoc.render_doc(kind))
    assert re.findall(r"__(?:copy|deepcopy|reduce|setattr|delattr|getattr)__ = .*", told) == []
    assert re.search(r"__reduce__\(self.*\n \| +Refuses to be pickled", told)


def test_a_closed_producer_was_said_to_be_in_use_by_the_listener_of_its_session(session: Session) -> None:
    session.create_consumer(ORDERS).set_listener(lambda message: None)
    producer = session.create_producer(ORDERS)
    producer.close()
    with pytest.raises(errors.IllegalStateError, match=r"^the producer of queue:orders is closed; make a new one$"):
        producer.send("2 books")


@pytest.mark.parametrize("message", [TextMessage("a"), MapMessage({"a": 1}), StreamMessage(), BytesMessage(b"a")])
def test_a_message_that_is_subscripted_did_not_tell_of_its_body_and_properties(message: Any) -> None:
    told = r" has no items: its body is message\.body, a property is message\.properties\[name\]$"
    for use in (
        lambda: message["body"],
        lambda: "a" in message,
        lambda: list(message),
        lambda: setitem(message, "a", 1),
    ):
        with pytest.raises(TypeError, match=f"^a {type(message).__name__}{told}"):
            use()


def test_next_of_a_consumer_did_not_tell_of_receive(session: Session) -> None:
    consumer: Any = session.create_consumer(ORDERS)
    with pytest.raises(
        TypeError, match=r"is no iterator: receive\(\) gives the next message, and `for` goes through a"
    ):
        next(consumer)


@pytest.mark.parametrize("timeout", [Decimal("0.01"), Fraction(1, 100)], ids=repr)
def test_a_timeout_that_the_type_takes_was_refused_by_the_call(session: Session, timeout: SupportsFloat) -> None:
    consumer = session.create_consumer(ORDERS)
    assert consumer.receive(timeout) is None
    assert consumer.receive_body(str, timeout) is None
    session.create_producer(ORDERS).send("2 books")
    received = consumer.receive(Decimal("1e400"))
    assert received is not None
    assert received.body == "2 books"


@pytest.mark.parametrize("timeout", ["1", True, 1j, Fraction(10**400)], ids=repr)
def test_what_is_no_number_of_seconds_is_refused(session: Session, timeout: Any) -> None:
    with pytest.raises(
        errors.InvalidTypeError, match="it is a number of seconds, 0 not to wait, None to wait for ever"
    ):
        session.create_consumer(ORDERS).receive(timeout)


def test_repr_did_not_tell_of_a_selector_nor_of_another_attempt(world: MemoryWorld) -> None:
    with world.factory().create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = session.create_consumer(ORDERS, "JMSPriority > 3")
        assert repr(consumer) == "<MessageConsumer queue:orders selector='JMSPriority > 3' INDIVIDUAL open>"
        session.create_producer(ORDERS).send("2 books")
        for attempt in ("", " delivery_count=2"):
            message = consumer.receive(10)
            assert message is not None
            assert repr(message) == f"<TextMessage {message.message_id} queue:orders{attempt}>"
            message.nack(0)


def test_a_selector_over_priority_chose_nothing_in_silence(session: Session, caplog: pytest.LogCaptureFixture) -> None:
    queue = Queue("of-selector-names")
    for _ in range(2):
        session.create_consumer(queue, "priority > 5 AND type = 'order'").close()
        session.create_browser(queue, "body = 'a customer' OR priority > 3")
    session.create_browser(queue, "JMSPriority > 5")
    assert [each.getMessage() for each in caplog.records if "a selector names" in each.getMessage()] == [
        "queue:of-selector-names: a selector names priority, which is a property that senders set, and no header; the "
        "header is JMSPriority",
        "queue:of-selector-names: a selector names body, which is a property that senders set, and no header; the body "
        "no selector can see",
    ]


def test_a_retry_from_a_misspelt_queue_told_of_nothing() -> None:
    with MemoryWorld() as world, Admin(world.url) as looking, world.factory().create_context() as jms:
        jms.create_producer().send(ORDERS, "2 books")
        looking.send_to_dead_letter(ORDERS, everything=True)
        for dry_run in (True, False):
            report = looking.retry_dead_letters(origin="ordres", dry_run=dry_run)
            told = "nothing in queue:DLQ is of origin='queue:ordres'; Admin.dead_letters() tells what there is"
            assert (report.letters, report.warnings) == ([], [told])
        assert (
            looking.retry_dead_letters(unit="joe", selector="a = 1")
            .warnings[0]
            .startswith("nothing in queue:DLQ is of unit='joe' and the selector;")
        )
        (given_up,) = looking.retry_dead_letters(origin="orders").warnings
        assert given_up.startswith("1 of them was given up by an operator")
        assert not looking.retry_dead_letters().warnings, "nothing is there, and nothing was named"


def test_a_printed_explanation_was_one_line_of_numbers(world: MemoryWorld) -> None:
    with world.factory().create_context(AcknowledgeMode.INDIVIDUAL) as jms, Admin(world.url) as looking:
        for text in ("2 books", "3 pens"):
            jms.create_producer().send(ORDERS, text, unit_of_order="ann")
        message = jms.create_consumer(ORDERS).receive(10)
        assert message is not None
        told = str(looking.explain(ORDERS)).splitlines()
    assert re.fullmatch(r"queue:orders: 1 process receives, consumer group jbm\.queue\.orders", told[0])
    assert re.fullmatch(rf"message {message.message_id} of unit 'ann' \(partition \d+ offset 0\), 1 behind it", told[1])
    assert told[2].startswith("  ")
    assert any(re.fullmatch(r"partition \d+: 2 held, owner .*; units: 1 in-hand", line) for line in told)
    assert told[-1].startswith("receiver ")
    assert told[-1].endswith("1 message in hand")


def test_help_of_counts_told_of_held_below_the_fields_alone() -> None:
    told = (admin.QueueCounts.__doc__ or "").partition("Attributes:\n")[2]
    assert told.startswith("    held: Messages not settled.\n")


def test_who_paused_a_queue_was_an_attribute_that_help_did_not_know(session: Session, world: MemoryWorld) -> None:
    producer = session.create_producer(ORDERS)
    with Admin(world.url) as looking:
        looking.create_queue(ORDERS)
        looking.pause(ORDERS, "sending", by="ann")
        with pytest.raises(errors.IllegalStateError) as caught:
            producer.send("2 books")
    assert (caught.value.by, caught.value.receivers) == ("ann", None)
    assert isinstance(caught.value.since_ms, int)
    with pytest.raises(errors.IllegalStateError) as caught:
        session.commit()
    assert (caught.value.by, caught.value.since_ms) == (None, None)
