"""A text is taken by its characters, whatever its class shows."""

from __future__ import annotations

from enum import Enum

import pytest

from jbm_kafka.core.jms_errors import InvalidClientIDError
from jbm_kafka.core.plain_text import plain_text, plain_texts, recorded_text, utf8_fault


class Status(str, Enum):  # noqa: UP042 - the class that showed another text
    """Shows `Status.OPEN`, and holds `open`."""

    OPEN = "open"


def test_a_text_is_its_characters_and_not_what_its_class_shows() -> None:
    assert str(Status.OPEN) == "Status.OPEN"
    assert (plain_text(Status.OPEN), type(plain_text(Status.OPEN))) == ("open", str)
    assert {type(text) for pair in plain_texts({Status.OPEN: Status.OPEN}).items() for text in pair} == {str}


def test_settings_keep_what_is_no_text() -> None:
    assert plain_texts({"linger.ms": 5, 7: "x"}) == {"linger.ms": 5, 7: "x"}  # type: ignore[dict-item]
    assert plain_texts(None) == {}


def test_a_recorded_name_with_a_lone_surrogate_is_refused_with_its_value() -> None:
    assert recorded_text("client_id", "café") == "café"
    assert utf8_fault("café") is None
    with pytest.raises(InvalidClientIDError, match=r"^client_id is 'caf\\udce9'") as refused:
        recorded_text("client_id", "caf\udce9", InvalidClientIDError)
    assert refused.value.values["value"] == "caf\udce9"
