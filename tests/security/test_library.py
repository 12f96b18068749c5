"""Factories and Admin on listeners with TLS, passwords and certificates."""

from pathlib import Path

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.errors import JMSError, JMSSecurityError
from tests.support.secured import ALICE, PLAIN_PASSWORD, PLAIN_USER, SecuredBroker, make_certificates
from tests.support.waiting import in_time

SOON_S = 5.0


@pytest.mark.parametrize("who", ["SCRAM-SHA-512", "PLAIN", "certificate"])
def test_a_queue_works_whole_on_a_secured_listener(secured: SecuredBroker, kafka_name: str, who: str) -> None:
    """Sends, a transaction, a dead letter, a browser, the counts: every kind of client that a process has."""
    bootstrap, kafka = {
        "SCRAM-SHA-512": (secured.sasl, secured.as_user(ALICE)),
        "PLAIN": (secured.sasl, secured.as_user(PLAIN_USER, PLAIN_PASSWORD, "PLAIN")),
        "certificate": (secured.tls, secured.as_carol()),
    }[who]
    queue, dead = Queue(kafka_name), Queue(f"{kafka_name}.dead")
    settings = AddressSettings(max_delivery_attempts=1, dead_letter_address=dead.name, partitions=2)
    factory = ConnectionFactory(bootstrap, kafka=kafka, address_settings={kafka_name: settings}, namespace="secured")
    with factory.create_connection() as connection:
        sending = connection.create_session(AcknowledgeMode.TRANSACTED)
        for text in ("good", "bad"):
            sending.create_producer(queue).send(text, unit_of_order=text)
        sending.commit()
        working = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        consumer = working.create_consumer(queue)
        for _ in range(2):
            message = consumer.receive(timeout=20)
            assert message is not None
            message.nack() if message.body == "bad" else message.acknowledge()
        with connection.create_session() as reading:
            letter = reading.create_consumer(dead).receive(timeout=20)
        assert letter is not None
        assert letter.body == "bad"
        assert list(working.create_browser(queue, include="all")) == []
    with Admin(bootstrap, kafka=kafka, namespace="secured") as admin:
        assert admin.counts(queue).held == 0
        assert queue in admin.destinations()


def test_a_wrong_password_over_tls_is_told_soon_and_not_repeated(secured: SecuredBroker) -> None:
    def refusal() -> JMSSecurityError:
        with pytest.raises(JMSSecurityError, match=r"check sasl\.username, sasl\.password") as told:
            ConnectionFactory(secured.sasl, kafka=secured.as_user(ALICE, "guessed")).create_connection()
        return told.value

    told = in_time(refusal, SOON_S)
    assert "guessed" not in f"{told} {told.values}"


def test_a_broker_of_another_authority_is_told_soon(secured: SecuredBroker, tmp_path: Path) -> None:
    stranger = make_certificates(tmp_path)
    kafka = {**secured.as_user(ALICE), "ssl.ca.location": str(stranger.authority)}

    def refusal() -> JMSError:
        with pytest.raises(JMSError, match=r"check ssl\.ca\.location") as told:
            ConnectionFactory(secured.sasl, kafka=kafka).create_connection()
        return told.value

    assert "\n" not in str(in_time(refusal, SOON_S))


def test_tls_without_a_client_certificate_that_the_broker_wants_is_told(secured: SecuredBroker) -> None:
    kafka = {name: value for name, value in secured.as_carol().items() if name.startswith(("security", "ssl.ca"))}
    with pytest.raises(JMSError, match=r"ssl\.certificate\.location") as told:
        ConnectionFactory(secured.tls, kafka=kafka).create_connection()
    assert "\n" not in str(told.value)
