"""What is told of an attribute where a name would mislead."""

import pytest

from jbm_kafka.core.likely_name import argument_meant, with_likely_attribute
from jbm_kafka.core.told_attributes import told_attribute


@pytest.mark.parametrize("written", ["is_open", "is_connected", "isOpen", "open"])
def test_is_open_was_led_to_its_opposite_without_a_word(written: str) -> None:
    told = with_likely_attribute("no", written, ["is_closed", "close"])
    assert told == "no; is_closed tells the opposite, so write `not ….is_closed`"
    assert told_attribute((), "is_open", ["is_closed", "is_open"]) is None
    assert told_attribute((), "is_open", ["close"]) is None


def test_each_class_has_its_own_and_those_of_its_bases() -> None:
    assert told_attribute(["Mine", "Session", "object"], "queue", []) == "; 'create_queue' is meant, probably"
    assert told_attribute(["Connection"], "queue", []) is None
    assert with_likely_attribute("no", "requeue", ["release"], ["Admin"]).endswith("'retry_dead_letters' is meant, "
                                                                                   "probably")  # fmt: skip


@pytest.mark.parametrize(
    ("written", "known", "said"),
    [
        ("unpause", ["pause", "paused", "resume"], "; 'resume' is meant, probably"),
        ("reset_it", ["set_it"], ""),
        ("reset_it", ["set_it", "unset_it"], "; 'unset_it' is meant, probably"),
        ("acknowledge_it", ["un_acknowledge_it"], ""),
        ("create_admin", ["create_topic"], ""),
        ("create_topik", ["create_topic"], "; 'create_topic' is meant, probably"),
        ("create_text", ["create_text_message"], "; 'create_text_message' is meant, probably"),
        ("resume", ["close"], ""),
        ("redeliver", ["recover", "close"], "; 'recover' is meant, probably"),
        ("exception_listener", ["close"], ": a connection has it, and a context"),
        ("setExceptionListener", ["close"], "; 'exception_listener' is meant, probably: a connection has it, and a "
                                            "context"),
    ],
)  # fmt: skip
def test_no_hint_is_better_than_the_opposite_or_another_thing(written: str, known: list[str], said: str) -> None:
    assert with_likely_attribute("no", written, known) == f"no{said}"


def test_who_would_set_or_get_an_argument_means_it() -> None:
    for written in ("client_id", "set_client_id", "getClientID"):
        assert argument_meant(written, ["url", "client_id"]) == "client_id"
    assert argument_meant("set_listener", ["url"]) is None
