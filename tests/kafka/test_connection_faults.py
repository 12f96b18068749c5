"""What librdkafka's log says of connections, read the same from every version that we take."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.kafka.connection_faults import ConnectionFaults
from jbm_kafka.kafka.host_names import BOOTSTRAP_REMEDY
from jbm_kafka.kafka.questions import Deadline, Questions
from jbm_kafka.ports import Unreachable

CLOSED = (
    "FAIL [jbm-kafka#producer-1] [thrd:127.0.0.1:31995/bootstrap]: 127.0.0.1:31995/bootstrap: "
    "Disconnected: connection closed by peer: receive 0 after POLLIN (after 3ms in state UP{more})"
)


def test_a_connection_closed_again_is_counted_where_the_log_suppresses_what_is_identical() -> None:
    faults = ConnectionFaults()
    for more in ("", ", 1 identical error(s) suppressed"):
        faults.log(6, CLOSED.format(more=more))
    fault = faults.fault
    assert fault is not None
    assert fault.is_refusal
    assert "sasl.username" in fault.text
    assert "suppressed" not in fault.text


def test_a_broker_that_stops_after_an_answer_is_not_said_to_want_credentials() -> None:
    """Whoever stopped a broker read that it takes no request without credentials."""
    faults = ConnectionFaults()
    questions = Questions(bootstrap="127.0.0.1:31995", timeout_s=0.05, faults=faults, poll=lambda _: None)

    def stopped(_: Deadline) -> None:
        faults.log(6, CLOSED.format(more=""))
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    assert questions.ask("list topics", lambda _: "answer") == "answer"
    with pytest.raises(Unreachable) as raised:
        questions.ask("list topics", stopped)
    assert "connection closed by peer" in str(raised.value)
    assert "start the broker" in str(raised.value)
    assert "credentials" not in str(raised.value)


def asked(tries: int, *, is_answered: bool, timeout_s: float | None = None) -> str:
    """What comes of a question whose broker is silent for so many tries, while others are asked, too."""
    left = tries
    questions = Questions(
        bootstrap="127.0.0.1:31995",
        timeout_s=0.0,
        faults=ConnectionFaults(),
        poll=lambda _: None,
        is_answered=lambda: is_answered,
    )

    def question(_: Deadline) -> str:
        nonlocal left
        left -= 1
        if left >= 0:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return "answer"

    return questions.ask("positions of topic jbm.registry", question, timeout_s)


def test_a_dead_broker_of_three_was_no_answer_before_the_others_had_taken_over() -> None:
    """CONN-3: a first send failed after 10 s, and a cluster takes longer than that to have other leaders."""
    assert asked(5, is_answered=True) == "answer"
    with pytest.raises(Unreachable, match="no answer from Kafka"):
        asked(5, is_answered=False)
    with pytest.raises(Unreachable, match="no answer from Kafka"):
        asked(5, is_answered=True, timeout_s=0.0)


def heard(reason: str, state: str, *, scheme: str = "") -> ConnectionFaults:
    """What is known after one line of librdkafka's log."""
    faults = ConnectionFaults()
    faults.log(3, f"FAIL [rdkafka#producer-1] [thrd:x]: {scheme}host:9092/1: {reason} (after 3ms in state {state})")
    return faults


@pytest.mark.parametrize(
    ("reason", "state", "remedy"),
    [
        ("Connect to ipv4#10.0.0.1:9092 failed: Connection refused", "CONNECT", "start the broker, or correct"),
        (
            "SASL PLAIN mechanism handshake failed: Broker: Unsupported SASL mechanism: "
            "broker's supported mechanisms: SCRAM-SHA-256",
            "AUTH_HANDSHAKE",
            "name a sasl.mechanism that the broker supports",
        ),
        (
            "SASL PLAIN mechanism handshake failed: Broker: Request not valid in current SASL state",
            "AUTH_HANDSHAKE",
            "the broker asks for no credentials at this port",
        ),
        ("SASL authentication error: Authentication failed", "AUTH_REQ", "check sasl.username, sasl.password"),
        ("Disconnected", "AUTH_REQ", "check sasl.username, sasl.password"),
        (
            "SSL handshake failed: error:0A000086:SSL routines::certificate verify failed: broker certificate could "
            "not be verified, verify that ssl.ca.location is correctly configured",
            "SSL_HANDSHAKE",
            "check ssl.ca.location",
        ),
        (
            "SSL handshake failed: error:0A00010B:SSL routines::wrong version number: connecting to a PLAINTEXT "
            "broker listener?",
            "SSL_HANDSHAKE",
            "the port does not speak TLS",
        ),
        ("Disconnected", "SSL_HANDSHAKE", "the port does not speak TLS"),
        ("SSL handshake failed: Disconnected", "CONNECT", "the port does not speak TLS"),
        ("Disconnected: connection closed by peer", "UP", "the broker takes no request without credentials"),
        ("Disconnected: connection closed by peer", "APIVERSION_QUERY", "if the port speaks TLS set security.protocol"),
    ],
)
def test_each_cause_has_its_own_remedy_and_none_of_these_is_sure_to_last(reason: str, state: str, remedy: str) -> None:
    """Wrong password, TLS to a plain port, nobody there: all of them were one and the same line."""
    fault = heard(reason, state).fault
    assert fault is not None
    assert fault.text.startswith(f"host:9092: {reason}; {remedy}")
    assert not fault.is_refusal


def test_a_broker_that_is_silent_is_not_told_as_one_of_another_age() -> None:
    reason = "ApiVersionRequest failed: Local: Timed out: probably due to broker version < 0.10"
    fault = heard(reason, "CONNECT").fault
    assert fault is not None
    assert fault.text.startswith("host:9092: no answer; if the port speaks TLS set security.protocol")


@pytest.mark.parametrize("alert", [40, 42, 43, 44, 45, 46, 48, 70, 116])
def test_what_a_brokers_tls_refuses_of_ours_is_a_refusal(alert: int) -> None:
    """It was tried again without a word for as long as the caller waited."""
    fault = heard(f"SSL handshake failed: tlsv1 alert: SSL alert number {alert}", "UP", scheme="ssl://").fault
    assert fault is not None
    assert fault.is_refusal
    assert "the broker does not take our certificate, or we gave none" in fault.text


def test_an_alert_about_something_else_is_no_refusal() -> None:
    fault = heard("SSL handshake failed: tlsv1 alert: SSL alert number 80", "SSL_HANDSHAKE").fault
    assert fault is not None
    assert not fault.is_refusal


@pytest.mark.parametrize("code", [KafkaError._AUTHENTICATION, KafkaError._SSL])
def test_a_refusal_is_told_rather_than_what_comes_after_it(code: int) -> None:
    """The other addresses of a broker that refuses a password are often closed, and were what was told."""
    faults = ConnectionFaults()
    text = "sasl_ssl://host:9092/bootstrap: SASL authentication error: Authentication failed (after 9ms in state AUTH)"
    faults.note_error(KafkaError(code, text))
    faults.log(
        3,
        "FAIL [c] [thrd:x]: other:1/2: Connect to ipv4#1.2.3.4:1 failed: Connection refused "
        "(after 0ms in state CONNECT)",
    )
    fault = faults.fault
    assert fault is not None
    assert fault.is_refusal
    assert fault.text.startswith("host:9092: SASL authentication error: Authentication failed; check sasl.username")
    faults.forget()
    assert faults.fault is None


def test_an_error_that_is_no_refusal_and_a_line_that_is_no_failure_tell_nothing() -> None:
    faults = ConnectionFaults()
    faults.note_error(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    faults.log(6, "PARTCNT [rdkafka#producer-1] [thrd:main]: Topic orders partition count changed from 1 to 2")
    assert faults.fault is None


def failed(broker: str, reason: str) -> str:
    """A line of librdkafka's log."""
    return f"FAIL [rdkafka#producer-1] [thrd:x]: {broker}: {reason} (after 0ms in state CONNECT)"


REFUSED = "Connect to ipv4#10.0.0.1:9092 failed: Connection refused"


def test_of_several_addresses_each_has_its_own_reason_and_each_remedy_is_told_once() -> None:
    """Only the last one was told."""
    faults = ConnectionFaults()
    faults.log(3, failed("one:1/bootstrap", REFUSED))
    faults.log(3, failed("two:2/bootstrap", "Failed to resolve 'two:2': Name or service not known"))
    faults.log(3, failed("one:1/bootstrap", REFUSED))
    assert faults.cause_at(["one:1", "two:2", "three:3"]) == (
        f"one:1: {REFUSED}, two:2: the name two is unknown, three:3: no answer; "
        f"{BOOTSTRAP_REMEDY}; start the broker, or correct the address"
    )
    assert faults.cause_at(["bootstrap:1"]) == (
        f"two:2: the name two is unknown, one:1: {REFUSED}; "
        f"{BOOTSTRAP_REMEDY}; start the broker, or correct the address"
    )


def test_one_address_is_not_named_twice() -> None:
    faults = ConnectionFaults()
    faults.log(3, failed("one:1/bootstrap", REFUSED))
    assert faults.cause_at(["one:1"]) == f"{REFUSED}; start the broker, or correct the address"


def test_a_name_that_the_brokers_gave_has_another_remedy_than_one_of_ours() -> None:
    faults = ConnectionFaults()
    faults.log(3, failed("kafka:9092/1", "Failed to resolve 'kafka:9092': Name or service not known"))
    fault = faults.fault
    assert fault is not None
    assert fault.text.startswith("kafka:9092: the name kafka is unknown; it is a broker's own name for itself: set its")


def test_a_name_server_that_is_away_is_not_told_as_an_unknown_name() -> None:
    faults = ConnectionFaults()
    faults.log(3, failed("kafka:9092/1", "Failed to resolve 'kafka:9092': Temporary failure in name resolution"))
    fault = faults.fault
    assert fault is not None
    assert fault.reason == "the name kafka could not be looked up (Temporary failure in name resolution)"


def test_many_addresses_are_cut() -> None:
    faults = ConnectionFaults()
    addresses = [f"host:{port}" for port in range(1, 10)]
    for address in addresses:
        faults.log(3, failed(f"{address}/bootstrap", REFUSED))
    told = faults.cause_at(addresses)
    assert told is not None
    assert told.count(REFUSED) == 5
    assert ", and 4 more; start the broker" in told


def test_a_refusal_is_what_is_told_of_all_addresses() -> None:
    faults = ConnectionFaults()
    faults.note_error(
        KafkaError(KafkaError._AUTHENTICATION, "sasl://host:1/bootstrap: SASL: no (after 9ms in state X)")
    )
    assert str(faults.cause_at(["host:1"])).startswith("host:1: SASL: no; check sasl.username")
