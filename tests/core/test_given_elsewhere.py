"""What programs for other clients give as arguments is led to where it belongs here."""

import pytest

from jbm_kafka.core.call_arguments import explained
from jbm_kafka.core.given_elsewhere import address_in_one, by_its_look, client_property, given_elsewhere
from jbm_kafka.core.jms_errors import InvalidTypeError


@explained
class Factory:
    """Made as the real one is."""

    def __init__(self, url: str, *, kafka: object = None) -> None:
        """Takes one by position."""

    def create_consumer(self, destination: str) -> None:
        """Takes no mode, and no function."""


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("security_protocol", "SSL", "given as kafka={'security.protocol': 'SSL'}"),
        ("sasl_mechanism", "PLAIN", "given as kafka={'sasl.mechanism': 'PLAIN'}"),
        ("sasl_plain_password", "secret", "given as kafka={'sasl.password': …}"),
        ("user_name", "joe", "given as kafka={'sasl.username': …}"),
        ("port", 9092, "the address is host and port in one, as in 'localhost:9092'"),
    ],
)
def test_what_a_factory_takes_in_another_form(name: str, value: object, says: str) -> None:
    with pytest.raises(InvalidTypeError) as told:
        Factory("localhost:9092", **{name: value})
    assert str(told.value).endswith(says)
    assert "secret" not in repr(vars(told.value)), "what may be a password is kept nowhere"


def test_host_and_port_are_written_in_one() -> None:
    with pytest.raises(InvalidTypeError, match=r"takes host and port in one: write 'localhost:9092'$"):
        Factory("localhost", 9092)  # type: ignore[call-arg]


@pytest.mark.parametrize("given", [("a", "b"), ("a", True), ("", 1), (1, 2), ("a:1", 2), ("a",), ("a", 1, 2)], ids=str)
def test_what_is_no_host_and_port_is_nothing(given: tuple[object, ...]) -> None:
    assert address_in_one(given, ["url", "kafka"]) is None
    assert address_in_one(("localhost", 9092), ["url"]) is None


def test_a_consumers_mode_and_function_are_given_to_others() -> None:
    with pytest.raises(InvalidTypeError, match=r"the session has a mode, create_session\(AcknowledgeMode.CLIENT\)"):
        Factory("a").create_consumer("q", ack_mode="manual")  # type: ignore[call-arg]
    with pytest.raises(InvalidTypeError, match=r"the consumer takes it, set_listener\(…\)"):
        Factory("a").create_consumer("q", on_message=print)  # type: ignore[call-arg]


def test_what_nobody_knows_is_nothing() -> None:
    assert given_elsewhere("create_consumer", "colour", 1, ["destination"]) is None
    assert given_elsewhere("ConnectionFactory", "colour", 1, ["url", "kafka"]) is None
    assert given_elsewhere("send", "password", 1, ["message"]) is None
    assert client_property("colour") is None


@pytest.mark.parametrize(
    ("call", "name", "says"),
    [
        ("ConnectionFactory", "acknowledge_mode", "a session has the mode"),
        ("browse", "limit", "itertools.islice"),
        ("dead_letters", "count", "retry_dead_letters has a count"),
        ("retry_dead_letters", "destination", "origin is the queue that the letters left"),
    ],
)
def test_what_another_call_has_was_taken_for_a_misspelt_argument(call: str, name: str, says: str) -> None:
    """As the count of `dead_letters`, for which `unit` was suggested."""
    told = given_elsewhere(call, name, 5, ["queue", "unit", "origin"])
    assert told is not None
    assert says in told


@pytest.mark.parametrize(
    ("value", "names", "name"),
    [
        ("ID:5", ["subscription", "selector", "message_id"], "message_id"),
        ("a = 1", ["subscription", "selector", "message_id"], "selector"),
        ("region LIKE 'E%'", ["subscription", "selector"], "selector"),
        ("monthly", ["subscription", "selector"], "subscription"),
        ("ID:5", ["subscription"], "subscription"),
        ("a = 1", ["subscription"], "subscription"),
        (5, ["subscription", "selector"], "subscription"),
    ],
)
def test_what_a_value_without_a_name_is_meant_for_is_told_by_its_look(
    value: object, names: list[str], name: str
) -> None:
    assert by_its_look(value, names) == name
