"""`message.reject`: a dead letter before the last attempt."""

import pytest

from jbm_kafka import AcknowledgeMode, Connection, Message, Queue, Session
from jbm_kafka.errors import IllegalStateError, InvalidSettingError
from tests.jms.support import DEAD_LETTERS, SOON_S, receive, receive_all, send

WHY = "no such   customer\n"


def letter_of(session: Session, queue: Queue) -> Message:
    """The next letter of the queue."""
    selector = f"_JBM_ORIG_DESTINATION = '{queue}'"
    with session.create_consumer(DEAD_LETTERS, selector) as consumer:
        message = receive(consumer)
        message.acknowledge()
        return message


@pytest.mark.parametrize("mode", [AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.CLIENT])
def test_a_rejected_message_is_a_dead_letter_now(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode
) -> None:
    """REDELIVER-3, of REDELIVER-4: once, with the reason, and its unit goes on."""
    send(session, orders, "bad", "good", unit=orders.name)  # of no other letter: its unit would hold this one
    with connection.create_session(mode) as worker:
        consumer = worker.create_consumer(orders)
        receive(consumer).reject(WHY)
        message = receive(consumer)
        assert (message.body, message.delivery_count) == ("good", 1)
        message.acknowledge()
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as reader:
        letter = letter_of(reader, orders)
    told = {name: letter.properties[f"_JBM_{name}"] for name in ("DEAD_LETTER_REASON", "LAST_ERROR", "DELIVERY_COUNT")}
    assert (letter.body, letter.unit_of_order) == ("bad", orders.name)
    assert told == {"DEAD_LETTER_REASON": "rejected", "LAST_ERROR": "no such customer", "DELIVERY_COUNT": 1}


def test_in_client_later_messages_of_the_unit_go_back(connection: Connection, session: Session, orders: Queue) -> None:
    """UNIT-3: the one before stays in hand, and the letter leaves when that is acknowledged."""
    send(session, orders, "1", "2", "3", unit=orders.name)
    with connection.create_session(AcknowledgeMode.CLIENT) as worker:
        consumer = worker.create_consumer(orders)
        first, second, _ = receive_all(consumer, 3)
        second.reject("not this one")
        first.acknowledge()
        third = receive(consumer)
        assert (third.body, third.delivery_count, third.redelivered) == ("3", 2, True)
        third.acknowledge()
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as reader:
        letter = letter_of(reader, orders)
    assert (letter.body, letter.properties["_JBM_LAST_ERROR"]) == ("2", "not this one")


@pytest.mark.parametrize(
    "mode", [each for each in AcknowledgeMode if each not in (AcknowledgeMode.INDIVIDUAL, AcknowledgeMode.CLIENT)]
)
def test_other_modes_have_no_reject(
    connection: Connection, session: Session, orders: Queue, mode: AcknowledgeMode
) -> None:
    send(session, orders, "a")
    with connection.create_session(mode) as worker:
        message = receive(worker.create_consumer(orders))
        with pytest.raises(IllegalStateError, match="reject"):
            message.reject("why")


def test_what_is_settled_cannot_be_rejected(connection: Connection, session: Session, orders: Queue) -> None:
    send(session, orders, "a")
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as worker:
        message = receive(worker.create_consumer(orders))
        for wrong in ("", "  ", 7):
            with pytest.raises(InvalidSettingError, match="reason"):
                message.reject(wrong)  # type: ignore[arg-type]
        message.acknowledge()
        with pytest.raises(IllegalStateError, match="settled already"):
            message.reject("too late")


def test_a_letter_that_is_rejected_stays(connection: Connection, session: Session, orders: Queue) -> None:
    """REDELIVER-3: nothing leaves a dead-letter queue by a failure."""
    send(session, orders, "bad")
    with connection.create_session(AcknowledgeMode.INDIVIDUAL) as worker:
        receive(worker.create_consumer(orders)).reject("bad")
        with worker.create_consumer(DEAD_LETTERS, f"_JBM_ORIG_DESTINATION = '{orders}'") as consumer:
            receive(consumer).reject("still bad")
            again = consumer.receive(SOON_S)
            assert again is not None
            assert (again.body, again.redelivered) == ("bad", True)
            again.acknowledge()
