"""What jbm.events says of operators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jbm_kafka.codec.events import decode_events
from jbm_kafka.codec.operator_actions import (
    TEXT_MAX,
    OperatorAction,
    decode_operator_action,
    encode_operator_action,
    is_operator_action,
    starts_of_operator_actions,
)
from jbm_kafka.core.jms_errors import NewerRecordError

PAUSED = OperatorAction(
    id="a1", action="pause", by="ann", destination="orders", wanted='{"what": "both"}', outcome="done", text="paused",
    at_ms=7,
)  # fmt: skip
BY_THE_FIRST_VERSION = bytes.fromhex(
    "c30121e072d98defcfe80461310a706175736506616e6e0c6f7264657273207b2277686174223a2022626f7468227d08646f6e650c7061757365640e"
)
"""PAUSED; never written anew."""


def test_an_action_is_read_as_it_was_written() -> None:
    key, value = encode_operator_action(PAUSED)
    assert key == b"operator|orders"
    assert decode_operator_action(value) == PAUSED == decode_operator_action(BY_THE_FIRST_VERSION)


def test_an_action_is_told_from_what_a_checkpoint_did() -> None:
    key, value = encode_operator_action(PAUSED)
    assert is_operator_action(key)
    assert value[:10] in starts_of_operator_actions()
    assert not is_operator_action(b"jbm.queue.orders")
    assert not is_operator_action(None)
    with pytest.raises(NewerRecordError):
        decode_events(value)


def test_a_long_form_is_cut_off() -> None:
    _, value = encode_operator_action(replace(PAUSED, wanted="x" * 1_000_000, text="y" * 1_000_000))
    read = decode_operator_action(value)
    assert (len(read.wanted), len(read.text)) == (TEXT_MAX, TEXT_MAX)
