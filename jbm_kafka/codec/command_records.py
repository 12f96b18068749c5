"""Records of `jbm.commands`: what administrators ask of the owners of partitions, and what those answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError

_COMMAND, _ANSWER = b"command|", b"answer|"

IN_HAND = "in-hand"
"""The verb that asks what of a partition receivers have in hand."""
EXPLAIN = "explain"
"""The verb that asks why messages of a partition do not move."""
SEND_NOW = "send-now"
"""The verb that lets messages go before their time."""
DRAIN = "drain"
"""The verb that asks one process, whatever it has, to receive no more and to end; see `drain_command`."""
QUESTIONS = frozenset({IN_HAND, EXPLAIN})
"""Verbs that change nothing."""


@dataclass(frozen=True, slots=True)
class Command:
    """A question or order to whoever owns a partition; see schemas/Command.avsc."""

    id: str
    group: str
    partition: int
    verb: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    asked_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """The owner's answer; see schemas/CommandAnswer.avsc."""

    id: str
    partition: int
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


def drain_command(id_: str, host: str, process_id: int, *, asked_at_ms: int) -> Command:
    """To the process there, of no group."""
    return Command(id_, "", 0, DRAIN, {"host": host, "id": process_id}, asked_at_ms)


def encode_command(command: Command) -> tuple[bytes, bytes]:
    """Key and value."""
    fields = {
        "id": command.id,
        "group": command.group,
        "partition": command.partition,
        "verb": command.verb,
        "arguments": json.dumps(command.arguments),
        "asked_at_ms": command.asked_at_ms,
    }
    return _COMMAND + f"{command.group}|{command.partition}".encode(), codec("Command").encode(fields)


def encode_answer(answer: Answer) -> tuple[bytes, bytes]:
    """Key and value."""
    fields = {
        "id": answer.id,
        "partition": answer.partition,
        "error": answer.error,
        "result": json.dumps(answer.result),
    }
    return _ANSWER + answer.id.encode(), codec("CommandAnswer").encode(fields)


def decode_command(key: bytes | None, value: bytes | None) -> Command | None:
    """The command; None for a record of another kind, and for one that cannot be read here."""
    fields = _decoded("Command", _COMMAND, key, value)
    return None if fields is None else Command(**{**fields, "arguments": _object(fields["arguments"])})


def decode_answer(key: bytes | None, value: bytes | None) -> Answer | None:
    """The answer; None for a record of another kind, and for one that cannot be read here."""
    fields = _decoded("CommandAnswer", _ANSWER, key, value)
    return None if fields is None else Answer(**{**fields, "result": _object(fields["result"])})


def _decoded(name: str, kind: bytes, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    if value is None or not (key or b"").startswith(kind):
        return None
    try:
        return codec(name).decode(value)
    except (CorruptRecordError, NewerRecordError):
        return None


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
