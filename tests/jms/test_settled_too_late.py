"""`message.acknowledge()` after its session closed: told what became of the message, and not "make a new one"."""

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Message, Queue
from jbm_kafka.core.jms_errors import IllegalStateError

ORDERS = Queue("orders")


def message_of_closed(mode: AcknowledgeMode, *, is_acknowledged: bool = False) -> Message:
    """Received in a session of the mode, which was closed then."""
    with ConnectionFactory("memory://too-late").create_connection() as connection:
        connection.create_session().create_producer(ORDERS).send("an order")
        with connection.create_session(mode) as session:
            message = session.create_consumer(ORDERS).receive(5)
            assert message is not None
            if is_acknowledged:
                message.acknowledge()
    return message


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_a_message_not_acknowledged_before_the_close_comes_again(mode: AcknowledgeMode) -> None:
    """Of ACK-2 and ACK-6."""
    with pytest.raises(IllegalStateError, match="offset 0 is closed; it comes again"):
        message_of_closed(mode).acknowledge()
    with pytest.raises(IllegalStateError, match=r"nack\(\).*it comes again"):
        message_of_closed(mode).nack()


@pytest.mark.parametrize("mode", [AcknowledgeMode.CLIENT, AcknowledgeMode.INDIVIDUAL])
def test_a_message_acknowledged_before_the_close_is_not_said_to_come_again(mode: AcknowledgeMode) -> None:
    """Of ACK-2 and ACK-6."""
    with pytest.raises(IllegalStateError, match="offset 0 is closed; it had been acknowledged before"):
        message_of_closed(mode, is_acknowledged=True).acknowledge()


@pytest.mark.parametrize(
    ("mode", "text"),
    [
        (AcknowledgeMode.AUTO, "settled without the call"),
        (AcknowledgeMode.DUPS_OK, "settled without the call"),
        (AcknowledgeMode.PRE, "acknowledged before you got them"),
        (AcknowledgeMode.NO, "acknowledged before you got them"),
        (AcknowledgeMode.TRANSACTED, "what was not committed comes again"),
    ],
)
def test_modes_without_the_call_say_what_settles_their_messages(mode: AcknowledgeMode, text: str) -> None:
    """Of ACK-1, ACK-3, ACK-4, ACK-5 and ACK-7."""
    with pytest.raises(IllegalStateError, match=text):
        message_of_closed(mode).acknowledge()
