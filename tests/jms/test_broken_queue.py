"""A queue whose topic or changelog somebody deleted harms no other queue of the process."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.connection import Connection
from tests.jms.support import SOON_S, receive, send


@pytest.mark.parametrize("victim", ["the topic", "the changelog"])
def test_what_one_queue_lacks_stops_no_other(
    bootstrap: str, connect: Callable[..., Connection], kafka_name: str, victim: str
) -> None:
    """Of LOG-5: the checkpoint goes on without the queue whose records are refused, and its receivers are told."""
    connection = connect(namespace=kafka_name)
    broken, whole = Queue(f"{kafka_name}.broken"), Queue(f"{kafka_name}.whole")
    with connection.create_session(AcknowledgeMode.CLIENT) as session:
        send(session, broken, "a")
        consumer = session.create_consumer(broken)
        message = receive(consumer)
        topic = broken.name if victim == "the topic" else f"{kafka_name}.{broken.name}.jbm-changelog"
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics([topic])[topic].result()
        message.acknowledge()
        with connection.create_session(AcknowledgeMode.TRANSACTED) as other:
            send(other, whole, "b")
            other.commit()
            received = receive(other.create_consumer(whole))
            other.commit()
            assert received.body == "b"
        with pytest.raises(JMSError, match=f"{topic} does not exist any more.*create it again or connect anew"):
            consumer.receive(SOON_S)
