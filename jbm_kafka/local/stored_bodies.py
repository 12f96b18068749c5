"""Messages as a store writes them: JSON, a text for people too.

A message comes back as a `LocalMessage` with the same headers and body, whatever class it was of. What would not come
back as it was is refused when it is stored.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from jbm_kafka.contract import CoreMessage
from jbm_kafka.core.jms_errors import CorruptRecordError, MessageFormatError
from jbm_kafka.local.channel_messages import LocalMessage

_BYTES = "base64"


def encode_message(message: CoreMessage) -> bytes:
    """What to keep of a message. It is reliable, even where its first sender did not say so.

    Raises:
        MessageFormatError: its body or a header is neither bytes nor what JSON can say, or its id is not UTF-8.
    """
    try:
        message.message_id.encode()  # part of a record's key
        text = json.dumps(
            {
                "message_id": message.message_id,
                "body": _written(message.body),
                "is_reliable": True,
                "priority": message.priority,
                "expiration_ms": message.expiration_ms,
                "unit_of_order": message.unit_of_order,
                "headers": {name: _written(value) for name, value in message.headers.items()},
            }
        ).encode()
    except (TypeError, ValueError) as fault:
        raise _not_written(message, str(fault)) from fault
    read = decode_message(text)
    if read.body != message.body or read.headers != message.headers:
        raise _not_written(message, "its body or a header would not come back as it is")
    return text


def decode_message(text: bytes) -> LocalMessage:
    """The message that was kept.

    Raises:
        CorruptRecordError: no store wrote this.
    """
    try:
        row = json.loads(text)
        body, headers = _read(row.pop("body")), {name: _read(value) for name, value in row.pop("headers").items()}
        return LocalMessage(body=body, headers=headers, **row)
    except (ValueError, TypeError, KeyError, AttributeError) as fault:
        raise CorruptRecordError(f"a record is no message of a store: {fault}") from fault


def _not_written(message: CoreMessage, reason: str) -> MessageFormatError:
    name = message.message_id
    return MessageFormatError(
        f"message {name!r} cannot be kept: {reason}; send text, bytes, numbers, lists and maps by name, or send it as "
        "not reliable",
        message_id=name,
    )


def _written(value: object) -> object:
    return {"value": value} if not isinstance(value, bytes) else {_BYTES: base64.b64encode(value).decode()}


def _read(row: Mapping[str, object]) -> object:
    return base64.b64decode(str(row[_BYTES])) if _BYTES in row else row["value"]
