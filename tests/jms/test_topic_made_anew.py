"""Topics that are deleted and made anew while they are used, on a real broker."""

from collections.abc import Callable

from confluent_kafka import Producer

from jbm_kafka import AcknowledgeMode, Queue
from jbm_kafka.jms.connection import Connection
from tests.jms.support import SOON_S, bodies, receive, receive_all, send
from tests.support.topics import create_topic, delete_topics


def test_a_live_consumer_gets_all_of_a_topic_made_anew(
    bootstrap: str, connect: Callable[..., Connection], orders: Queue
) -> None:
    """Of LOG-4: also when the new topic has outgrown the old position before the next fetch."""
    create_topic(bootstrap, orders.name)
    with connect() as connection, connection.create_session(AcknowledgeMode.AUTO) as session:
        send(session, orders, "old 0", "old 1")
        consumer = session.create_consumer(orders)
        receive_all(consumer, 2)
        assert consumer.receive(0.2) is None
        delete_topics(bootstrap, [orders.name])
        create_topic(bootstrap, orders.name)
        sent = [f"new {n}" for n in range(6)]
        producer = Producer({"bootstrap.servers": bootstrap})  # one that knows nothing of the old topic
        for body in sent:
            producer.produce(orders.name, body.encode(), partition=0, headers={"JBMBody": b"text"})
        assert producer.flush(SOON_S) == 0
        found: list[object] = []
        while "new 0" not in found:
            found += bodies([receive(consumer)])
        assert [found[-1], *bodies(receive_all(consumer, 5))] == sent
