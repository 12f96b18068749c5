"""Message and correlation ids: AMQP has four types of them, JMS has texts (its mapping to AMQP, section 3.2.1.1).

The text tells the type, so nothing is lost on the way through a record; Qpid JMS writes and reads the same texts.
"""

from typing import Final
from uuid import UUID

from jbm_kafka.codec.amqp.values import Amqp, binary, string, ulong

_ID: Final = "ID:"
_STRING, _UUID, _ULONG, _BINARY, _BARE = (
    f"{_ID}AMQP_{kind}:" for kind in ("STRING", "UUID", "ULONG", "BINARY", "NO_PREFIX")
)
_TYPED: Final = (_STRING, _UUID, _ULONG, _BINARY, _BARE)


def id_text(held: Amqp, *, is_correlation: bool = False) -> str | None:
    """The text of an id; None for null. A correlation id need not begin with `ID:`, a message's does.

    Raises:
        ValueError: the value has a type that no id has.
    """
    kind, value = held
    if kind == "string":
        if value.startswith(_TYPED):
            return f"{_STRING}{value}"
        return value if is_correlation or value.startswith(_ID) else f"{_BARE}{value}"
    if kind == "uuid":
        return f"{_UUID}{value}"
    if kind == "ulong":
        return f"{_ULONG}{value}"
    if kind == "binary":
        return f"{_BINARY}{value.hex().upper()}"
    if kind == "null":
        return None
    raise ValueError(f"an id is of type {kind}; it is a string, a ulong, a uuid or a binary")


def encoded_id(text: str) -> bytes:
    """The value of the id that has this text; a text that only looks like one of another type stays a string."""
    if not text.startswith(_TYPED):
        return string(text)
    for bare in (_STRING, _BARE):
        if text.startswith(bare):
            return string(text.removeprefix(bare))
    try:
        if text.startswith(_UUID):
            return b"\x98" + UUID(text.removeprefix(_UUID)).bytes
        if text.startswith(_ULONG):
            digits = text.removeprefix(_ULONG)
            if digits.isascii() and digits.isdecimal() and (number := int(digits[:21])) < 1 << 64:
                return ulong(number)
        else:
            return binary(bytes.fromhex(text.removeprefix(_BINARY)))
    except ValueError:
        pass
    return string(text)
