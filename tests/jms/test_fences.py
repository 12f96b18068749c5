"""What a session gives back holds back what the lane had granted it of the same units (Fence)."""

import pytest

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.session import Session
from tests.jms.support import bodies, eventually, receive, receive_all, send, standing_still


def one_unread(sender: Session, consumer: MessageConsumer, body: str) -> None:
    """The consumer asked, and has that message of the unit in its buffer."""
    assert consumer.receive(0) is None
    send(sender, consumer.destination, body, unit="u")
    eventually(lambda: len(consumer.link.buffer) == 1, "what was asked for did not come")


@pytest.mark.parametrize("is_made_later", [False, True])
def test_a_rollback_after_a_close_holds_back_what_another_consumer_has_unread(
    connection: Connection, session: Session, orders: Queue, is_made_later: bool
) -> None:
    """UNIT-1, UNIT-3, UNIT-5: the closed one's message comes first, and the next commit settles each once."""
    transacted = connection.create_session(AcknowledgeMode.TRANSACTED)
    first = transacted.create_consumer(orders)
    second = None if is_made_later else transacted.create_consumer(orders)
    send(session, orders, "m1", unit="u")
    assert receive(first).body == "m1"
    first.close()
    if second is None:
        second = transacted.create_consumer(orders)
    one_unread(session, second, "m2")
    with standing_still(second):
        transacted.rollback()
        early = second.receive(0)
    assert early is None
    again = receive_all(second, 2)
    assert bodies(again) == ["m1", "m2"]
    assert [message.delivery_count for message in again] == [2, 1]
    transacted.commit()
    send(session, orders, "m3", unit="u")
    assert receive(second).body == "m3"
