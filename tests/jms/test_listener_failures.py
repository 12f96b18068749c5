"""The line of a listener that raised says what becomes of the message, also at its last attempt."""

import logging
import sys

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Message, Queue
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.receiving.listener_failures import what_follows
from jbm_kafka.jms.session import Session
from tests.jms.support import Seen, bodies, eventually, send

ORDERS = Queue("orders")


def fail(message: Message) -> None:
    raise RuntimeError("no")


RAISED = ": its listener raised"


def test_a_last_attempt_was_logged_as_one_that_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    """Of ACK-11."""
    settings = {"orders": AddressSettings(max_delivery_attempts=2)}
    with ConnectionFactory("memory://raised", address_settings=settings).create_connection() as connection:
        connection.create_session().create_producer(ORDERS).send("an order")
        letters = connection.create_session().create_consumer(Queue("DLQ"))
        connection.create_session().create_consumer(ORDERS).set_listener(fail)
        assert letters.receive(10) is not None
        lines = [record.getMessage().rpartition("; ")[2] for record in caplog.records if RAISED in record.getMessage()]
    assert lines == ["attempt 1 of 2, it comes again", "attempt 2 of 2, it goes to DLQ"]


@pytest.mark.parametrize(
    ("mode", "settings", "said"),
    [
        (AcknowledgeMode.AUTO, ResolvedSettings(max_delivery_attempts=-1), "attempt 3, it comes again"),
        (AcknowledgeMode.DUPS_OK, ResolvedSettings(max_delivery_attempts=4), "attempt 3 of 4, it comes again"),
        (
            AcknowledgeMode.INDIVIDUAL,
            ResolvedSettings(max_delivery_attempts=3, dead_letter_address=None),
            "attempt 3 of 3, it is removed, for there is no dead-letter address",
        ),
        (
            AcknowledgeMode.AUTO,
            ResolvedSettings(max_delivery_attempts=3, on_dead_letter="hold"),
            "attempt 3 of 3, it is on hold with its unit, as on_dead_letter='hold' asks",
        ),
        (
            AcknowledgeMode.CLIENT,
            ResolvedSettings(max_delivery_attempts=3),
            "it stays unacknowledged: session.recover(), called in the listener, has it come again",
        ),
        (AcknowledgeMode.NO, ResolvedSettings(), "it had been acknowledged before, and does not come again"),
    ],
)
def test_what_follows_is_told_by_mode_and_settings(
    mode: AcknowledgeMode, settings: ResolvedSettings, said: str
) -> None:
    """Of ACK-11."""
    assert what_follows(mode, settings, 3) == said


def test_a_message_held_after_its_only_attempt_failed_once_and_not_1_times(caplog: pytest.LogCaptureFixture) -> None:
    """Of REDELIVER-3."""
    caplog.set_level(logging.WARNING)
    settings = {"orders": AddressSettings(max_delivery_attempts=1, on_dead_letter="hold")}
    with ConnectionFactory("memory://raised", address_settings=settings).create_connection() as connection:
        connection.create_session().create_producer(ORDERS).send("an order")
        connection.create_session().create_consumer(ORDERS).set_listener(fail)
        eventually(lambda: "failed once (with RuntimeError) and is on hold" in caplog.text, "the line")


def test_a_listener_that_exits_has_not_processed_its_message(
    connection: Connection, session: Session, orders: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    """Of ACK-11: whatever a listener raises, in AUTO the message comes again; the log says that no process ended."""
    send(session, orders, "a")
    exits = iter([True])

    def then(message: Message) -> None:
        if next(exits, False):
            sys.exit("no reason")

    seen = Seen(then)
    with connection.create_session() as listening:
        listening.create_consumer(orders).set_listener(seen)
        assert bodies(seen.wait(2)) == ["a", "a"]
    assert "its listener called sys.exit(), which ends nothing here" in caplog.text
    assert "attempt 1 of 10, it comes again" in caplog.text
