"""Which of the known names is meant."""

from dataclasses import fields

import pytest

from jbm_kafka.core.address_settings import AddressSettings
from jbm_kafka.core.call_arguments import explained_function
from jbm_kafka.core.jms_errors import InvalidTypeError
from jbm_kafka.core.likely_name import (
    ADDRESS_SETTINGS,
    address_setting,
    likely_name,
    with_likely_attribute,
    with_likely_name,
)

KNOWN = ["url", "prefetch", "time_to_live_ms", "unit_of_order", "priority"]


@pytest.mark.parametrize(
    ("written", "likely"),
    [
        ("prefech", "prefetch"),
        ("PREFETCH", "prefetch"),
        ("ttl", "time_to_live_ms"),
        ("bootstrap_servers", "url"),
        ("key", "unit_of_order"),
        ("unit", "unit_of_order"),
        ("time_to_live", "time_to_live_ms"),
        ("something_else", None),
        ("dlq", None),
        ("durable", None),
    ],
)
def test_a_near_name_or_what_other_systems_call_it(written: str, likely: str | None) -> None:
    assert likely_name(written, KNOWN) == likely


def test_without_a_near_name_the_text_is_all() -> None:
    assert with_likely_name("no 'x'", "x", KNOWN) == "no 'x'"
    assert with_likely_name("no 'ttl'", "ttl", KNOWN) == "no 'ttl'; 'time_to_live_ms' is meant, probably"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("createReceiver", "; 'create_consumer' is meant, probably"),
        ("create_sender", "; 'create_producer' is meant, probably"),
        ("createSubscriber", "; 'create_consumer' is meant, probably"),
        ("create_session", ": a connection has it, and a context is a session already"),
        ("createContext", ": a ConnectionFactory has it"),
        ("send", ": a producer has it"),
        ("poll", "; 'receive' is meant, probably: a consumer has it"),
        ("xyz", ""),
    ],
)
def test_what_another_object_has_was_taken_for_a_misspelt_name(written: str, said: str) -> None:
    """As create_session of a context, for which create_stream_message was suggested."""
    known = ["create_consumer", "create_producer", "close"]
    assert with_likely_attribute("none", written, known) == f"none{said}"
    told = with_likely_attribute("none", "createReceiver", ["start"])
    assert told == "none; 'create_consumer' is meant, probably: a session has it, and a context"


def test_a_misspelt_name_of_another_object_was_taken_for_one_that_does_harm() -> None:
    """`session.recieve()` was led to `recover`, which gives everything back."""
    known = ["recover", "create_consumer", "close"]
    told = with_likely_attribute("none", "recieve", known)
    assert told == "none; 'receive' is meant, probably: a consumer has it"
    assert with_likely_attribute("none", "getText", ["body", "priority"]) == "none; 'body' is meant, probably"
    assert with_likely_attribute("none", "recove", known) == "none; 'recover' is meant, probably"


def test_a_setting_of_destinations_was_taken_for_a_misspelt_one_of_connections() -> None:
    """`ConnectionFactory(redelivery_delay=5)` was led to `receiver_idle_ms`."""
    elsewhere_too_or_to_come = {"default_unit_of_order", "routing", "truncate"}
    assert set(ADDRESS_SETTINGS) == {each.name for each in fields(AddressSettings)} - elsewhere_too_or_to_come
    assert address_setting("redelivery_delay") == "redelivery_delay_ms"
    assert address_setting("max_delivery_attempts") == "max_delivery_attempts"
    assert address_setting("dlq") == "dead_letter_address"
    assert address_setting("prefetch") is None

    @explained_function
    def connect(*, receiver_idle_ms: int = 0, address_settings: object = None) -> None:
        del receiver_idle_ms, address_settings

    with pytest.raises(InvalidTypeError, match=r"AddressSettings\(redelivery_delay_ms=…\)\}$"):
        connect(redelivery_delay=5)  # type: ignore[call-arg]
    with pytest.raises(InvalidTypeError, match="'receiver_idle_ms' is meant, probably"):
        connect(receiver_idl_ms=5)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("written", "known", "meant"),
    [
        ("delete_queue", ["create_queue", "delete_destination"], "delete_destination"),
        ("receive_no_wait", ["receive", "receive_nowait"], "receive_nowait"),
        ("started", ["start", "is_started"], "is_started"),
        ("destination", ["queue", "selector"], "queue"),
        ("subscribe", ["unsubscribe", "create_consumer"], "create_consumer"),
        ("delete_message", ["acknowledge", "create_text_message"], "acknowledge"),
        ("disconnect", ["close", "create_consumer"], "close"),
    ],
)
def test_a_name_was_led_to_the_opposite(written: str, known: list[str], meant: str) -> None:
    """`admin.delete_queue` to `create_queue`, since their letters are alike."""
    assert with_likely_attribute("none", written, known) == f"none; {meant!r} is meant, probably"


def test_who_asks_a_message_or_a_browser_for_what_others_call_so_is_told_ours() -> None:
    of_message, of_browser = ["delivery_count", "properties"], ["include", "queue"]
    assert with_likely_attribute("no", "partition", of_message).startswith("no; 'kafka.partition' of a received")
    assert with_likely_attribute("no", "get", [*of_message, "get_object"]) != "no; 'properties.get' is meant, probably"
    assert with_likely_attribute("no", "next", of_browser) != "no"
    assert with_likely_attribute("no", "partition", of_browser) == with_likely_name("no", "partition", of_browser)


@pytest.mark.parametrize(
    ("written", "known", "says"),
    [
        ("purge_queue", ["create_queue", "create_consumer"], "'remove' is meant, probably: an Admin has it"),
        ("delete_topics", ["create_queue", "create_topic"], "'delete_destination' is meant, probably: an Admin has it"),
        ("create_channel", ["create_context", "create_session"], "'create_session' is meant, probably"),
        ("recv", ["recover", "create_consumer"], "'receive' is meant, probably: a consumer has it"),
        ("create_message_producer", ["create_message", "create_producer"], "'create_producer' is meant, probably"),
        ("redrive", ["retry_dead_letters", "release"], "'retry_dead_letters' is meant, probably"),
    ],
)
def test_what_is_written_alike_and_means_the_opposite_is_not_proposed(
    written: str, known: list[str], says: str
) -> None:
    assert with_likely_attribute("no", written, known) == f"no; {says}"
