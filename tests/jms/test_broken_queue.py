"""A queue whose topic or changelog somebody deleted harms no other queue of the process."""

from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.jms.connection import Connection
from tests.jms.support import SOON_S, eventually, receive, send
from tests.support.topics import create_topic, delete_topics

pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("victim", ["the topic", "the changelog"])
def test_what_one_queue_lacks_stops_no_other(
    bootstrap: str, connect: Callable[..., Connection], kafka_name: str, victim: str
) -> None:
    """Of LOG-5: the checkpoint goes on without the queue whose records are refused. Of a topic that is gone its
    receivers are told that what they acknowledged is not recorded, and they wait for it to be made again. A changelog
    is made again here, and they notice nothing.
    """
    connection = connect(namespace=kafka_name)
    told: list[Exception] = []
    connection.exception_listener = told.append
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
        if victim == "the topic":
            eventually(lambda: any("of offset 0 refused" in str(error) for error in told), "nobody is told")
            create_topic(bootstrap, topic)
            send(session, broken, "c")
            assert receive(consumer).body == "c"
            return
        send(session, broken, "c")
        receive(consumer).acknowledge()
        eventually(lambda: topic in admin.list_topics().topics, "the changelog is not made again")
        assert not told
    connection.close()
    with connect(namespace=kafka_name).create_session(AcknowledgeMode.CLIENT) as session:
        assert session.create_consumer(broken).receive(0) is None


def test_who_receives_from_a_deleted_topic_is_told_the_remedy_and_it_works(
    bootstrap: str, connect: Callable[..., Connection], kafka_name: str
) -> None:
    """It was a bare JMSError in Kafka's words, and each further consumer of the process had it again; later only one
    that was made while the first one's worker ended."""
    connection, queue = connect(namespace=kafka_name), Queue(kafka_name)
    with connection.create_session() as session:
        session.create_producer(queue).send("a")
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.delete_topics([queue.name])[queue.name].result()
        with pytest.raises(
            InvalidDestinationError,
            match=rf"topic '{queue.name}' was deleted.*Make a consumer again, which creates it.*create {queue.name},",
        ):
            session.create_consumer(queue).receive(SOON_S)
        again = session.create_consumer(queue)
        send(session, queue, "b")
        assert receive(again).body == "b"


def test_events_and_registry_deleted_while_running_are_made_again_and_what_is_done_is_recorded(
    bootstrap: str, connect: Callable[..., Connection], kafka_name: str
) -> None:
    """Of LOG-5: nothing was recorded any more, and each commit was in doubt after a minute."""
    connection, queue = connect(namespace=kafka_name), Queue(f"{kafka_name}.orders")
    ours = [f"{kafka_name}.jbm.events", f"{kafka_name}.jbm.registry"]
    with (
        connection.create_session(AcknowledgeMode.TRANSACTED) as session,
        Admin(bootstrap, namespace=kafka_name) as admin,
    ):
        send(session, queue, "a", "b")
        session.commit()
        consumer = session.create_consumer(queue)
        assert receive(consumer).body == "a"
        delete_topics(bootstrap, ours)
        session.commit()
        assert receive(consumer).body == "b"
        session.commit()
        eventually(lambda: admin.counts(queue).held == 0, "what was committed is not recorded")
        topics = AdminClient({"bootstrap.servers": bootstrap})
        eventually(lambda: topics.list_topics(timeout=SOON_S).topics.keys() >= set(ours), "they are not made again")
