"""Kafka's address as users write it."""

import pytest

from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError


@pytest.mark.parametrize(
    ("given", "taken"),
    [("a:1", "a:1"), ("kafka://a:1", "a:1"), ("a:1,b.c:65535", "a:1,b.c:65535"), ("[::1]:9092", "[::1]:9092")],
)
def test_addresses_are_taken_with_and_without_their_scheme(given: str, taken: str) -> None:
    assert checked_bootstrap("url", given) == taken


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("localhost", "url is 'localhost': the port is missing; write 'host:port', as in 'localhost:9092'"),
        ("a:1,b", "url is 'a:1,b': the port is missing; write 'host:port', as in 'b:9092'"),
        ("kafka://", "url is 'kafka://': write 'host:port', several separated by commas"),
        ("", "url is '': write 'host:port', several separated by commas"),
        ("a b:1", "url is 'a b:1': there is a space in it; write 'host:port', several separated by commas"),
        (
            "localhost:abc",
            "url is 'localhost:abc': abc is not a port, those are 1 to 65535; write 'host:port', several "
            "separated by commas",
        ),
        ("a:", "url is 'a:': the port is missing; write 'host:port', several separated by commas"),
        (
            " a:1",
            "url is ' a:1': there is a space before or behind a:1; write 'host:port', several separated by commas",
        ),
        (
            "a:1, b:2",
            "url is 'a:1, b:2': there is a space before or behind b:2; write 'host:port', several separated by commas",
        ),
        ("a:1;b:2", "url is 'a:1;b:2': there is a ';' in it; write 'host:port', several separated by commas"),
        (
            "a:1,",
            "url is 'a:1,': there is no address behind the last comma; write 'host:port', several separated by commas",
        ),
        (
            ",a:1",
            "url is ',a:1': there is no address before one of the commas; write 'host:port', several separated by "
            "commas",
        ),
        ("memory://a", "url is 'memory://a': a memory:// world is inside its own process, and nothing else reaches it"),
        ("http://a:1", "url is 'http://a:1': its scheme is not known; use 'kafka://host:port', or 'host:port'"),
        ("a:99999", "url is 'a:99999': 99999 is not a port, those are 1 to 65535; write 'host:port'"),
        ("a:0", "url is 'a:0': 0 is not a port, those are 1 to 65535; write 'host:port'"),
    ],
)
def test_what_is_not_an_address_is_refused_with_an_example(given: str, said: str) -> None:
    with pytest.raises(InvalidSettingError) as refused:
        checked_bootstrap("url", given)
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("kafka://billing:geheim@127.0.0.1:1", "kafka://***@127.0.0.1:1"),
        ("billing:geheim@a:1", "***@a:1"),
        ("billing@a:1", "***@a:1"),
        ("billing:geh@eim@a:1", "***@a:1"),
        ("billing:geh/eim@a:1,billing:geheim@b:1", "***@b:1"),
        ("http://billing:geheim@a:1", "http://***@a:1"),
    ],
)
def test_a_password_in_the_address_was_printed(given: str, told: str) -> None:
    with pytest.raises(InvalidSettingError) as refused:
        checked_bootstrap("url", given)
    assert str(refused.value) == (
        f"url is '{told}': credentials do not belong in the address; write 'host:port', and give sasl.username and "
        "sasl.password as kafka={'sasl.username': …}, or in [kafka] of the config file"
    )
    assert "billing" not in str(refused.value.values)


def test_an_address_that_is_not_text_is_of_a_wrong_type() -> None:
    with pytest.raises(InvalidTypeError, match="bootstrap is 9092: it is a str such as 'localhost:9092'"):
        checked_bootstrap("bootstrap", 9092)
