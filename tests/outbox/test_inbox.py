"""An inbox: True for the first time, in the caller's transaction (OUTBOX-4)."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from jbm_kafka import Message, Queue, TextMessage, Topic
from jbm_kafka.errors import IllegalStateError, InvalidSettingError, InvalidTypeError
from jbm_kafka.outbox import Inbox
from jbm_kafka.testing.memory_world import MemoryWorld


@pytest.fixture
def inbox(engine: Engine) -> Inbox:
    inbox = Inbox()
    inbox.create_all(engine)
    return inbox


def received(world: MemoryWorld, *sends: dict[str, str]) -> list[Message]:
    with world.factory().create_context() as jms:
        for options in sends:
            jms.create_producer().send(Queue("orders"), "x", **options)  # type: ignore[arg-type]
    return world.sent("orders")


def test_it_is_true_once_and_again_when_the_work_was_rolled_back(
    engine: Engine, inbox: Inbox, world: MemoryWorld
) -> None:
    """OUTBOX-4"""
    first, second = received(world, {}, {})
    with engine.connect() as connection:
        assert inbox.once(connection, first)
        connection.rollback()
        assert inbox.once(connection, first)
        connection.commit()
        assert not inbox.once(connection, first)
        assert inbox.once(connection, second)
        connection.commit()


def test_what_was_sent_twice_with_one_duplicate_id_is_one(engine: Engine, inbox: Inbox, world: MemoryWorld) -> None:
    """OUTBOX-4: also when the queue's window is over. The id is its unit's, as in the queue."""
    messages = received(
        world,
        {"duplicate_id": "7", "unit_of_order": "joe"},
        {"duplicate_id": "7", "unit_of_order": "joe"},
        {"duplicate_id": "7", "unit_of_order": "jim"},
        {"duplicate_id": "7"},
    )
    assert len({message.message_id for message in messages}) == 4
    with engine.begin() as connection:
        assert [inbox.once(connection, message) for message in messages] == [True, False, True, True]


def test_each_scope_is_asked_for_itself(engine: Engine, inbox: Inbox, world: MemoryWorld) -> None:
    """OUTBOX-4: two subscriptions of a topic may share a table."""
    with world.factory().create_context() as jms:
        consumers = [jms.create_shared_consumer(Topic("prices"), name) for name in ("a", "b")]
        jms.create_producer().send(Topic("prices"), "x")
        messages = [consumer.receive(timeout=5) for consumer in consumers]
    with engine.begin() as connection:
        for message, scope in zip(messages, "ab", strict=True):
            assert message is not None
            assert inbox.once(connection, message, scope=scope)
            assert not inbox.once(connection, message, scope=scope)


def test_what_is_old_is_forgotten(engine: Engine, inbox: Inbox, world: MemoryWorld) -> None:
    """OUTBOX-7"""
    [message] = received(world, {})
    with engine.begin() as connection:
        inbox.once(connection, message)
        assert inbox.clean_up(connection, 3_600_000) == 0
        assert not inbox.once(connection, message)
        assert inbox.clean_up(connection, 0) == 1
        assert inbox.once(connection, message)


def test_wrong_arguments_are_refused(engine: Engine, inbox: Inbox, world: MemoryWorld) -> None:
    [message] = received(world, {})
    with engine.begin() as connection:
        with pytest.raises(InvalidTypeError, match="it is a message that was received"):
            inbox.once(connection, TextMessage("x"))
        with pytest.raises(InvalidTypeError, match="scope is 7"):
            inbox.once(connection, message, scope=7)  # type: ignore[arg-type]
    with (
        engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection,
        pytest.raises(IllegalStateError, match=r"inbox.once\(\): the connection is in autocommit"),
    ):
        inbox.once(connection, message)
    with pytest.raises(InvalidSettingError, match="name is 'in box'"):
        Inbox("in box")
