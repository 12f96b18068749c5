"""Why a connection cannot be made: each cause says itself, in one line, with what to do."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest

from jbm_kafka import ConnectionFactory
from jbm_kafka.admin import Admin
from jbm_kafka.core.jms_errors import ConnectionFailedError, JMSError, JMSSecurityError
from jbm_kafka.devbroker.ports import free_port
from tests.support.sasl import PASSWORD, USER, SaslBroker, sasl_broker
from tests.support.secured import ALICE, SecuredBroker
from tests.support.waiting import in_time
from tests.support.wire_broker import wire_broker

NOBODY_S = 3.0
SOON_S = 5.0
NO_NAME = f"{'x' * 64}.example:9092"
"""No name has a part of 64 letters, so no server is asked for it, which may take long."""
BY_PASSWORD = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": USER}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslBroker]:
    with sasl_broker(tmp_path_factory.mktemp("sasl")) as running:
        yield running


@pytest.fixture
def silent() -> Iterator[str]:
    """Takes connections, as the system of a stopped broker does, and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def refusal(bootstrap: str, kafka: dict[str, object] | None = None) -> JMSError:
    """What connecting raises."""
    with pytest.raises(JMSError) as told:
        ConnectionFactory(bootstrap, kafka=kafka).create_connection()
    assert str(told.value).startswith("cannot connect: ")
    assert "\n" not in str(told.value)
    return told.value


def test_a_closed_port_is_told_within_3_seconds() -> None:
    address = f"127.0.0.1:{free_port()}"
    told = in_time(lambda: refusal(address), NOBODY_S)
    assert f"nobody answers at {address}: Connection refused; start the broker, or correct the address" in str(told)
    assert not isinstance(told, JMSSecurityError)


@pytest.mark.thorough
def test_an_outage_has_an_error_of_its_own_and_who_answers_otherwise_has_not(broker: SaslBroker) -> None:
    """It was a JMSError, told from all others by its text only."""
    for address in (f"127.0.0.1:{free_port()}", NO_NAME):
        told = refusal(address)
        assert isinstance(told, ConnectionFailedError)
        assert isinstance(told, ConnectionError)
        assert (told.bootstrap, told.values) == (address, {"bootstrap": address})
        with pytest.raises(ConnectionFailedError) as asked, Admin(address) as admin:
            admin.counts("orders")
        assert asked.value.bootstrap == address
        assert str(asked.value) == str(told).replace("cannot connect", "count orders")
    assert type(refusal(broker.sasl)) is JMSSecurityError


def test_nobody_at_any_of_several_addresses_names_each_with_its_own_reason() -> None:
    closed = f"127.0.0.1:{free_port()}"
    told = str(in_time(lambda: refusal(f"{closed},{NO_NAME}"), NOBODY_S))
    assert f"{closed}: Connection refused" in told
    assert f"{NO_NAME}: the name {NO_NAME.removesuffix(':9092')} is unknown" in told


def test_a_host_whose_name_is_unknown_is_told_as_such_and_not_as_a_broker_that_is_down() -> None:
    """It said that nobody answers, and to start the broker."""
    told = str(refusal(NO_NAME))
    assert told == (
        f"cannot connect: the name {NO_NAME.removesuffix(':9092')} is unknown: "
        "check the host in url (bootstrap of the commands), or this machine's names (DNS, /etc/hosts)"
    )


def test_each_of_several_unknown_names_is_told() -> None:
    told = str(refusal(f"{NO_NAME},y{NO_NAME}"))
    assert "start the broker" not in told
    for address in (NO_NAME, f"y{NO_NAME}"):
        assert f"the name {address.removesuffix(':9092')} is unknown" in told


def test_a_broker_that_calls_itself_by_an_unknown_name_is_told_when_connecting() -> None:
    """Connecting went well, for the address we were given is right, and the first send waited 10 s for nobody."""
    unknown = NO_NAME.removesuffix(":9092")
    with wire_broker("orders", host=unknown) as bootstrap:
        told = str(refusal(bootstrap))
    assert f"the name {unknown} is unknown (from Kafka at {bootstrap})" in told
    assert "set its advertised.listeners to what clients can reach" in told


@pytest.mark.thorough
def test_a_broker_that_is_silent_does_not_hide_why_the_others_are_not_there(silent: str) -> None:
    """Only the last failure was told, of whichever address it was."""
    closed, began = f"127.0.0.1:{free_port()}", time.monotonic()
    told = str(refusal(f"{silent},{closed},{NO_NAME}"))
    assert time.monotonic() - began > 9, "a broker that is there and slow has its 10 seconds"
    assert f"{silent}: no answer, {closed}: " in told
    assert "Connection refused" in told
    assert f"{NO_NAME}: the name " in told


@pytest.mark.thorough
def test_a_port_that_is_no_kafka_is_told_as_such_with_what_to_check(silent: str) -> None:
    """It said "Local: Broker transport failure (TRANSPORT)", and not what to do."""
    told = refusal(silent)
    assert isinstance(told, ConnectionFailedError)
    assert str(told) == (
        f"cannot connect: something listens at {silent}, but it does not answer as Kafka does: check host and port, "
        "or whether the broker hangs"
    )


@pytest.mark.thorough
def test_a_broker_that_is_there_and_slow_has_its_10_seconds_with_tls_too(silent: str) -> None:
    began = time.monotonic()
    refusal(f"{silent},127.0.0.1:{free_port()}", {"security.protocol": "SSL"})
    assert time.monotonic() - began > 9


@pytest.mark.thorough
@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_to_a_plain_port_says_so_soon(broker: SaslBroker, protocol: str) -> None:
    kafka: dict[str, object] = {"security.protocol": protocol}
    if protocol == "SASL_SSL":
        kafka |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    told = in_time(lambda: refusal(broker.plain if protocol == "SSL" else broker.sasl, kafka), NOBODY_S)
    assert isinstance(told, JMSSecurityError)
    assert "the port does not speak TLS (SSL); name the broker's TLS port, or set security.protocol to" in str(told)


@pytest.mark.thorough
@pytest.mark.parametrize("port", ["sasl", "tls"])
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_no_tls_to_a_tls_port_says_so_soon(secured: SecuredBroker, port: str, protocol: str) -> None:
    kafka: dict[str, object] = {"security.protocol": protocol}
    if protocol == "SASL_PLAINTEXT":
        kafka |= {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
    told = in_time(lambda: refusal(getattr(secured, port), kafka), NOBODY_S)
    assert isinstance(told, JMSSecurityError)
    assert "the port speaks TLS (SSL); set security.protocol to SSL or SASL_SSL in kafka={…}, or name a port" in str(
        told
    )


@pytest.mark.thorough
def test_one_address_that_speaks_otherwise_does_not_speak_for_the_others(secured: SecuredBroker) -> None:
    kafka = secured.as_user(ALICE)
    with ConnectionFactory(f"{secured.open},{secured.sasl}", kafka=kafka).create_connection():
        pass


def test_a_wrong_password_is_a_security_error_with_the_brokers_words(broker: SaslBroker) -> None:
    told = in_time(lambda: refusal(broker.sasl, {**BY_PASSWORD, "sasl.password": "guessed"}), SOON_S)
    assert isinstance(told, JMSSecurityError)
    assert "Authentication failed: Invalid username or password" in str(told)
    assert "check sasl.username, sasl.password" in str(told)
    assert "guessed" not in f"{told} {told.values}"


def test_missing_credentials_are_a_security_error_that_says_which_to_give(broker: SaslBroker) -> None:
    told = in_time(lambda: refusal(broker.sasl), SOON_S)
    assert isinstance(told, JMSSecurityError)
    assert "takes no request without credentials" in str(told)
    assert "sasl.username" in str(told)


def test_credentials_to_a_port_that_asks_for_none_say_so(broker: SaslBroker) -> None:
    told = refusal(broker.plain, {**BY_PASSWORD, "sasl.password": PASSWORD})
    assert isinstance(told, JMSSecurityError)
    assert "the broker asks for no credentials at this port" in str(told)


def test_a_mechanism_that_the_broker_does_not_have_says_which_it_has(broker: SaslBroker) -> None:
    told = refusal(broker.sasl, {**BY_PASSWORD, "sasl.mechanism": "SCRAM-SHA-256", "sasl.password": PASSWORD})
    assert isinstance(told, JMSSecurityError)
    assert "supported mechanisms: PLAIN" in str(told)


def test_the_right_password_connects(broker: SaslBroker) -> None:
    with ConnectionFactory(broker.sasl, kafka={**BY_PASSWORD, "sasl.password": PASSWORD}).create_connection():
        pass


@pytest.mark.thorough
def test_an_admin_is_told_as_soon_as_a_connection(broker: SaslBroker) -> None:
    def asking(bootstrap: str, kafka: dict[str, object] | None = None) -> str:
        with pytest.raises(JMSError) as told, Admin(bootstrap, kafka=kafka) as admin:
            admin.destinations()
        return f"{type(told.value).__name__}: {told.value}"

    assert "nobody answers at" in in_time(lambda: asking(f"127.0.0.1:{free_port()}"), NOBODY_S)
    told = in_time(lambda: asking(broker.plain, {"security.protocol": "SSL"}), SOON_S)
    assert told.startswith("JMSSecurityError: ")
    assert "does not speak TLS" in told
    told = in_time(lambda: asking(broker.sasl, {**BY_PASSWORD, "sasl.password": "guessed"}), SOON_S)
    assert told.startswith("JMSSecurityError: ")
    assert "check sasl.username" in told
