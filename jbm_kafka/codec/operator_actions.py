"""Records of `jbm.events` about what operators did: key `operator|<destination>`, value Avro `OperatorAction`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass

from jbm_kafka.codec.schemas import codec, schemas_by_start

_KEY = b"operator|"
TEXT_MAX = 10_000
"""Characters of `wanted` and `text` that are written: a form may have a whole body in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorAction:
    """One moment of an action; see schemas/OperatorAction.avsc."""

    id: str
    action: str
    by: str
    destination: str
    wanted: str
    """JSON; where it is longer than `TEXT_MAX` its beginning."""
    outcome: str
    text: str
    at_ms: int


def encode_operator_action(done: OperatorAction) -> tuple[bytes, bytes]:
    """Key and value."""
    fields = asdict(done)
    for name in ("wanted", "text"):
        fields[name] = fields[name][:TEXT_MAX]
    return operator_action_key(done.destination), codec("OperatorAction").encode(fields)


def operator_action_key(destination: str) -> bytes:
    """The key of all actions on the destination of this name."""
    return _KEY + destination.encode()


def is_operator_action(key: bytes | None) -> bool:
    """Return True if a record of `jbm.events` with this key is one, and not of a checkpoint, whose key is a group's
    name."""
    return key is not None and key.startswith(_KEY)


def decode_operator_action(value: bytes) -> OperatorAction:
    """Return what the value says.

    Raises:
        CorruptRecordError, NewerRecordError: it cannot be read here.
    """
    return OperatorAction(**codec("OperatorAction").decode(value))


def starts_of_operator_actions() -> Collection[bytes]:
    """How a value of `jbm.events` starts that is one: ten bytes, for readers that take values for others."""
    return schemas_by_start("OperatorAction").keys()
