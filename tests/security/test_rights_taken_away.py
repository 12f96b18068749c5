"""A right that is taken from a process that receives, and given back: told, and mended, by itself (LOG-12)."""

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.errors import JMSError, JMSSecurityError
from tests.jms.support import receive, send
from tests.security.test_page import broker, page_rules
from tests.support.secured import Rule, SecuredBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

__all__ = ["broker"]

NAMESPACE = "shop"
SOON_S = 40.0


@pytest.mark.parametrize("of", ["{}.jbm-changelog", "jbm.events"])
def test_without_write_where_it_is_recorded_messages_went_out_as_if_nothing_were_wrong(
    broker: SecuredBroker, kafka_name: str, of: str
) -> None:
    """LOG-12: on real brokers no report names the record."""
    queue, topic = Queue(kafka_name), f"{NAMESPACE}.{of.format(kafka_name)}"
    with Admin(broker.open, namespace=NAMESPACE) as admin:
        admin.create_queue(queue.name, partitions=1)
    broker.add_user(user := f"of-{kafka_name}")
    broker.allow(user, page_rules(queue.name))
    factory = ConnectionFactory(
        broker.sasl,
        kafka=broker.as_user(user),
        namespace=NAMESPACE,
        address_settings={"#": AddressSettings(partitions=1)},
    )
    heard: list[JMSError] = []
    with factory.create_connection() as connection:
        connection.exception_listener = heard.append
        session = connection.create_session(AcknowledgeMode.CLIENT)
        send(session, queue, *"abcd")
        consumer = session.create_consumer(queue)
        receive(consumer)
        with broker.denied(user, Rule("topic", topic, ("WRITE",))):
            session.acknowledge()
            wait_until(lambda: bool(heard), about="the exception listener is called", timeout_s=SOON_S)
            assert (type(heard[0]), heard[0].topic) == (JMSSecurityError, topic)
            with pytest.raises(JMSSecurityError, match=topic):
                consumer.receive(timeout=1)
            assert not connection.health().is_ready
        wait_until(lambda: connection.health().is_ready, about="it is recorded again", timeout_s=SOON_S)
        assert receive(consumer).body == "b"
        assert len(heard) == 1
