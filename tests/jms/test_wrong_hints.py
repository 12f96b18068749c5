"""Hints that led to the opposite, to another thing or nowhere, as a strict reader found them. In memory."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Context, Queue, TextMessage, errors
from jbm_kafka.admin import Admin, Rule, Wait
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS = Queue("orders")
ITS_OPPOSITE = "; is_closed tells the opposite, so write `not ….is_closed`"


@pytest.fixture
def world() -> Iterator[MemoryWorld]:
    with MemoryWorld() as made:
        yield made


@pytest.fixture
def context(world: MemoryWorld) -> Iterator[Context]:
    with world.factory().create_context() as made:
        yield made


@pytest.fixture
def admin(world: MemoryWorld, context: Context) -> Iterator[Admin]:
    """Of a world with a queue that holds a message."""
    with Admin(world.url) as made:
        context.create_producer().send(ORDERS, "2 books")
        yield made


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("unpause", "resume"),
        ("reset_address_settings", "unset_address_settings"),
        ("replay", "retry_dead_letters"),
        ("requeue", "retry_dead_letters"),
        ("requeue_dead_letters", "retry_dead_letters"),
        ("peek", "browse"),
        ("messages", "browse"),
        ("list", "destinations"),
        ("status", "counts"),
        ("info", "counts"),
        ("size", "counts"),
        ("clear", "remove"),
        ("drop", "delete_destination"),
    ],
)
def test_what_operators_call_it(admin: Admin, written: str, meant: str) -> None:
    with pytest.raises(AttributeError, match=f"^an Admin has no attribute '{written}'; '{meant}' is meant, probably$"):
        getattr(admin, written)


def test_paused_tells_what_is_paused(admin: Admin) -> None:
    with pytest.raises(AttributeError, match=r"; paused\(…\) tells: its result is true when anything is paused$"):
        admin.is_paused(ORDERS)  # type: ignore[attr-defined]
    admin.pause(ORDERS)
    assert admin.paused(ORDERS)
    admin.resume(ORDERS)
    assert not admin.paused(ORDERS)
    for name, meant in (("sending", "production"), ("receiving", "consumption")):
        with pytest.raises(AttributeError, match=f"^a Pause has no attribute '{name}'; '{meant}' is meant, probably$"):
            getattr(admin.paused(ORDERS), name)


@pytest.mark.parametrize("name", ["is_open", "is_connected"])
def test_is_open_was_led_to_is_closed_as_if_it_were_the_same(world: MemoryWorld, name: str) -> None:
    with world.factory().create_connection() as connection:
        session = connection.create_session()
        for each in (connection, session, session.create_consumer(ORDERS), session.create_producer(ORDERS)):
            with pytest.raises(AttributeError) as caught:
                getattr(each, name)
            assert str(caught.value).endswith(f"no attribute '{name}'{ITS_OPPOSITE}")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("exception_listener", ": a connection has it, and a context"),
        ("create_text", "; 'create_text_message' is meant, probably"),
        ("redeliver", "; 'recover' is meant, probably"),
        ("queue", "; 'create_queue' is meant, probably"),
        ("browse", "; 'create_browser' is meant, probably"),
        ("prefetch", "; it is set by a call: set_default_prefetch(…)"),
    ],
)
def test_what_is_looked_for_in_a_session(world: MemoryWorld, name: str, says: str) -> None:
    with world.factory().create_connection() as connection:
        session = connection.create_session()
        for use in (lambda: getattr(session, name), lambda: setattr(session, name, 5)):
            with pytest.raises(AttributeError) as caught:
                use()
            assert str(caught.value) == f"a Session has no attribute '{name}'{says}"


def test_what_is_looked_for_in_a_consumer(context: Context) -> None:
    consumer: Any = context.create_consumer(ORDERS)
    with pytest.raises(AttributeError, match=r"^a MessageConsumer has no attribute 'resume'$"):
        consumer.resume()
    with pytest.raises(AttributeError, match=r"'get_message'; 'receive' is meant, probably$"):
        consumer.get_message()


def test_where_an_admin_comes_from(world: MemoryWorld) -> None:
    factory: Any = world.factory()
    with pytest.raises(AttributeError, match=r"Admin\('host:port'\), from jbm_kafka.admin$"):
        factory.create_admin()
    with pytest.raises(AttributeError, match=r"; write Admin\(world.url\), with Admin from jbm_kafka.admin$"):
        world.admin()  # type: ignore[attr-defined]
    for name, meant in (("AdminClient", "Admin"), ("QueueCount", "QueueCounts")):
        with pytest.raises(ImportError, match=f"^cannot import name '{name}' from 'jbm_kafka.admin'; '{meant}' is"):
            exec(f"from jbm_kafka.admin import {name}")
    for name in ("zzz", "_zzz"):
        with pytest.raises(AttributeError, match=f"^module 'jbm_kafka.admin' has no attribute '{name}'$"):
            getattr(importlib.import_module("jbm_kafka.admin"), name)


def test_a_factory_is_given_the_client_id(world: MemoryWorld) -> None:
    for name in ("set_client_id", "setClientID"):
        with pytest.raises(AttributeError, match=r"is given when it is made: ConnectionFactory\(…, client_id=…\)$"):
            getattr(world.factory(), name)


def test_a_mode_was_taken_for_a_user(world: MemoryWorld) -> None:
    factory: Any = world.factory()
    with pytest.raises(errors.InvalidTypeError, match=r"create_session\(AcknowledgeMode.CLIENT\), or create_context"):
        factory.create_connection(AcknowledgeMode.CLIENT)
    mode: Any = {"acknowledge_mode": AcknowledgeMode.CLIENT}
    for use in (factory.create_connection, lambda **given: ConnectionFactory("localhost:1", **given)):
        with pytest.raises(errors.InvalidTypeError, match="no argument 'acknowledge_mode': a session has the mode"):
            use(**mode)


def test_a_transaction_is_no_session(world: MemoryWorld) -> None:
    with world.factory().create_connection() as connection:
        transaction: Any = connection.create_session(AcknowledgeMode.TRANSACTED).transaction()
        for name in ("commit", "rollback"):
            with pytest.raises(AttributeError, match=r"`with session.transaction\(\):`; without a block write session"):
                getattr(transaction, name)


def test_a_listeners_method_is_given_and_not_its_object(context: Context) -> None:
    class Listener:
        """As in Java."""

        def on_message(self, message: object) -> None:
            """Takes it."""

    class Watcher:
        """As in Java."""

        def on_exception(self, error: object) -> None:
            """Takes it."""

    with pytest.raises(errors.InvalidTypeError, match=r"give its method, ….on_exception$"):
        context.exception_listener = Watcher()  # type: ignore[assignment]
    consumer: Any = context.create_consumer(ORDERS)
    with pytest.raises(errors.InvalidTypeError, match=r"give its method, ….on_message$"):
        consumer.set_listener(Listener())
    consumer.set_listener(Listener().on_message)


@pytest.mark.parametrize("members", [Rule, Wait])
def test_members_of_what_is_told(members: Any) -> None:
    with pytest.raises(AttributeError, match=f"^{members.__name__} has no 'FOO'; it has "):
        members.FOO  # noqa: B018
    with pytest.raises(errors.InvalidSettingError, match=rf"use {members.__name__}.IN_HAND$"):
        members("IN_HAND")


def test_what_counts_and_reports_have(admin: Admin) -> None:
    with pytest.raises(AttributeError, match=r"'receivers'; 'members' is meant, probably$"):
        admin.counts(ORDERS).receivers  # type: ignore[attr-defined]  # noqa: B018
    report, retried = admin.remove(ORDERS, everything=True), admin.retry_dead_letters()
    for name in ("removed", "count", "moved"):
        with pytest.raises(AttributeError, match=r"; 'messages' has them, and len\(report.messages\) is how many$"):
            getattr(report, name)
        with pytest.raises(AttributeError, match=r"; 'letters' has them, and 'sent' is how many were sent$"):
            getattr(retried, name)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda admin: admin.dead_letters(count=5), "retry_dead_letters has a count"),
        (lambda admin: admin.retry_dead_letters(destination="q"), "origin is the queue that the letters left, and"),
        (lambda admin: admin.move("orders", "b", all=True), "'everything' is meant, probably"),
        (lambda admin: admin.move("orders", "b", limit=5), "'count' is meant, probably"),
        (lambda admin: admin.browse("orders", limit=5), r"itertools.islice\(….browse\(…\), 5\)"),
        (
            lambda admin: admin.set_address_settings("orders", max_delivery_attempts=3),
            r"set_address_settings\('orders', AddressSettings\(max_delivery_attempts=…\)\)$",
        ),
        (lambda admin: admin.remove("orders", "ID:5"), "as in message_id=…$"),
        (lambda admin: admin.browse("orders", "a=1"), "as in selector=…$"),
        (lambda admin: admin.browse("orders", "monthly"), "as in subscription=…$"),
    ],
)
def test_what_operators_give(admin: Admin, call: Callable[[Any], object], says: str) -> None:
    with pytest.raises(errors.InvalidTypeError, match=says):
        call(admin)


def test_a_dead_letter_in_hand_is_not_given_up_by_an_admin() -> None:
    """Which the hint said; what a receiver has in hand stays there."""
    message: Any = TextMessage("a")
    with pytest.raises(AttributeError, match="to give it up at once, send it on in a transaction") as caught:
        message.dead_letter()
    assert "send_to_dead_letter" not in str(caught.value)


def test_a_retry_from_the_queue_that_the_letters_left_told_of_nothing(admin: Admin) -> None:
    admin.send_to_dead_letter(ORDERS, everything=True)
    (told,) = admin.retry_dead_letters("orders").warnings
    assert told.startswith("nothing is in queue:orders; ")
    assert told.endswith("choose them with origin='orders'")
    assert admin.retry_dead_letters(origin="orders").sent == 1
    assert not admin.retry_dead_letters().warnings, "empty, the usual one is as it should be"
