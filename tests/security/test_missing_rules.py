"""A user who lacks one of the rules of docs/security.md is told which, soon, and that nothing was committed."""

import time
from dataclasses import replace

import pytest

from jbm_kafka import AcknowledgeMode, Connection, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Ailment
from jbm_kafka.errors import JMSSecurityError, TransactionRolledBackError
from jbm_kafka.kafka.client import ConfluentKafka
from jbm_kafka.ports import Outgoing, TransactionAborted
from tests.security.test_page import broker, page_rules
from tests.support.secured import Rule, SecuredBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

__all__ = ["broker"]

NAMESPACE = "shop"
SOON_S = 25.0


@pytest.fixture
def queue(broker: SecuredBroker, kafka_name: str) -> Queue:
    """One of this test's own, with a message."""
    with Admin(broker.open, namespace=NAMESPACE) as admin:
        admin.create_queue(kafka_name, partitions=1)
    with ConnectionFactory(broker.open, namespace=NAMESPACE).create_connection() as connection:
        connection.create_session().create_producer(Queue(kafka_name)).send("hello")
    return Queue(kafka_name)


def connect_without(broker: SecuredBroker, queue: Queue, lacking: Rule) -> Connection:
    """As a user with the page's rules for the queue but this one."""
    user = f"without-{queue.name}"
    broker.add_user(user)
    rules = page_rules(queue.name)
    kept = [replace(r, operations=tuple(set(r.operations) - set(lacking.operations))) if r.name == lacking.name else r
            for r in rules]  # fmt: skip
    broker.allow(user, kept)
    return ConnectionFactory(broker.sasl, kafka=broker.as_user(user), namespace=NAMESPACE).create_connection()


def test_without_the_transactional_id_a_commit_is_rolled_back_and_not_in_doubt(
    broker: SecuredBroker, queue: Queue
) -> None:
    lacking = Rule("transactional_id", f"{NAMESPACE}.jbm.", ("WRITE",))
    with connect_without(broker, queue, lacking) as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        session.create_producer(queue).send("never")
        began = time.monotonic()
        with pytest.raises(TransactionRolledBackError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
            session.commit()
        assert time.monotonic() - began < SOON_S


def test_without_write_on_the_queue_a_commit_says_so(broker: SecuredBroker, queue: Queue) -> None:
    with connect_without(broker, queue, Rule("topic", queue.name, ("WRITE",))) as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        session.create_producer(queue).send("never")
        with pytest.raises(TransactionRolledBackError, match="TOPIC_AUTHORIZATION_FAILED"):
            session.commit()


def test_without_write_on_the_queue_a_record_that_comes_late_is_told_why_too(
    broker: SecuredBroker, queue: Queue
) -> None:
    """The transaction fails between two of its records; librdkafka says of the second that its state is wrong."""
    with connect_without(broker, queue, Rule("topic", queue.name, ("WRITE",))):
        kafka = ConfluentKafka(broker.sasl, broker.as_user(f"without-{queue.name}"))
        producer = kafka.transactional_producer(f"{NAMESPACE}.jbm.late", transaction_timeout_ms=10_000)
        producer.initialise(SOON_S)
        producer.begin()

        def produce() -> bool:
            producer.produce(Outgoing(queue.name, 0, None, b"never"))
            return False

        with pytest.raises(TransactionAborted, match="TOPIC_AUTHORIZATION_FAILED"):
            wait_until(produce, about="the transaction fails", timeout_s=SOON_S)
        producer.close()


def test_without_write_on_the_queue_a_plain_send_is_refused(broker: SecuredBroker, queue: Queue) -> None:
    with connect_without(broker, queue, Rule("topic", queue.name, ("WRITE",))) as connection:
        producer = connection.create_session().create_producer(queue)
        with pytest.raises(JMSSecurityError, match=r"jbm-kafka docs security lists"):
            producer.send("never")


def test_without_the_group_a_consumer_is_refused(broker: SecuredBroker, queue: Queue) -> None:
    with (
        connect_without(broker, queue, Rule("group", f"{NAMESPACE}.jbm.", ("READ",))) as connection,
        connection.create_session() as session,
        pytest.raises(JMSSecurityError, match="GROUP_AUTHORIZATION_FAILED"),
    ):
        session.create_consumer(queue).receive(timeout=20)


def test_without_read_on_the_queue_a_browser_is_refused(broker: SecuredBroker, queue: Queue) -> None:
    with connect_without(broker, queue, Rule("topic", queue.name, ("READ",))) as connection:
        browser = connection.create_session().create_browser(queue)
        with pytest.raises(JMSSecurityError, match="TOPIC_AUTHORIZATION_FAILED"):
            list(browser)


def test_the_doctor_names_a_right_that_a_worker_lacks(broker: SecuredBroker, queue: Queue) -> None:
    """And by its credentials alone: it needs no more than a worker has."""
    user = f"doctor-{queue.name}"
    broker.add_user(user)
    rules = page_rules(queue.name)
    lacking = [replace(rule, operations=("READ", "WRITE")) if rule.name == queue.name else rule
               for rule in rules]  # fmt: skip
    broker.allow(user, lacking)
    with Admin(broker.sasl, kafka=broker.as_user(user), namespace=NAMESPACE) as admin:
        found = [each for each in admin.doctor(role="worker").findings if each.kind is Ailment.RIGHTS]
        assert [(each.about, "may not DescribeConfigs on this topic" in each.text) for each in found] == [
            ((queue.name,), True)
        ]
        broker.allow(user, rules)
        wait_until(
            lambda: not [each for each in admin.doctor(role="worker").findings if each.kind is Ailment.RIGHTS],
            about="the right that was given",
            timeout_s=SOON_S,
        )
