"""Messages and figures as text for people, and as JSON for programs.

Any Kafka client may have written what is shown here, so nothing of it may steer the reader's terminal.
"""

import base64
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jbm_kafka.codec.large_body import BYTES_HEADER, is_kept_elsewhere
from jbm_kafka.codec.object_codecs import JSON
from jbm_kafka.codec.one_header import header_text
from jbm_kafka.core.jms_errors import LargeBodyError
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.unread_body import UnreadBody

PLAIN_WIDTH = 160
"""The width of tables that no terminal bounds."""
BODY_MAX = 60
NAME_MAX = 120
"""Characters of a unit, an id and the like that people are shown: Kafka takes keys of a megabyte."""
NUMERIC = frozenset(
    ["partition", "partitions", "offset", "held", "delayed", "retried", "attempts", "receivers", "settled to",
     "end"]
)  # fmt: skip


def as_values(message: Message) -> dict[str, object]:
    """Everything of a message that JSON can say. A body of bytes is `body_base64`, and so is an object of a codec; of a
    large body that cannot be had `body_error` tells why."""
    place = message.kafka
    assert place is not None
    values: dict[str, object] = {
        "message_id": message.message_id,
        "destination": str(message.destination),
        "unit_of_order": message.unit_of_order,
        "timestamp": message.timestamp,
        "type": message.type,
        "correlation_id": message.correlation_id,
        "reply_to": None if message.reply_to is None else str(message.reply_to),
        "priority": message.priority,
        "expiration": message.expiration,
        "delivery_time": message.delivery_time,
        "delivery_count": message.delivery_count,
        "redelivered": message.redelivered,
        "properties": {name: _json_value(value) for name, value in message.properties.items()},
        "kafka": {"topic": place.topic, "partition": place.partition, "offset": place.offset},
    }
    if message.state is not None:
        values["state"] = message.state.value
        values["last_error"] = message.last_error
    try:
        is_coded = isinstance(message, ObjectMessage) and message.codec != JSON
        body = body_of(message) if is_coded else message.body
    except LargeBodyError as error:  # the others are shown all the same
        return {**values, "body": None, "body_error": str(error)}
    if isinstance(message, ObjectMessage) and is_coded:
        values["codec"] = message.codec
    if isinstance(body, bytes):
        values["body_base64"] = base64.b64encode(body).decode()
    else:
        values["body"] = json_body(body)
    return values


def body_of(message: Message) -> object:
    """The body as text or bytes can show it: of an object what its codec wrote, as no command has an application's."""
    return message.data if isinstance(message, ObjectMessage) else message.body


def brief_of(message: Message) -> str:
    """The beginning of its body, on one line; of a large one, which would have to be fetched, how large it is."""
    headers = () if message.kafka is None else message.kafka.headers
    if is_kept_elsewhere(headers) and isinstance(message._known_body, UnreadBody):
        return f"({header_text(headers, BYTES_HEADER)} bytes, kept beside Kafka)"
    return brief(body_of(message))


def json_body(body: object) -> object:
    """The body as JSON can say it: bytes in a map or stream as base64, infinities as text."""
    if isinstance(body, dict):
        return {name: json_body(value) for name, value in body.items()}
    if isinstance(body, list):
        return [json_body(value) for value in body]
    if isinstance(body, bytes):
        return base64.b64encode(body).decode()
    return _json_value(body)


def json_line(values: object) -> str:
    """One line of plain ASCII."""
    return json.dumps(values, allow_nan=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table as wide as the terminal, or, into a pipe, PLAIN_WIDTH wide."""
    drawn = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        drawn.add_column(column, justify="right" if column in NUMERIC else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text("" if cell is None else short(str(cell))) for cell in row))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = PLAIN_WIDTH
    console.print(drawn)


def body_text(body: object) -> str:
    """A whole body as text: bytes that are no text as Python writes them, maps and streams as JSON, none as nothing."""
    if body is None:
        return ""
    if isinstance(body, bytes):
        return bytes_text(body)
    return json_line(json_body(body)) if isinstance(body, dict | list) else str(body)


def bytes_text(data: bytes) -> str:
    """The text that bytes are in UTF-8, if nothing in it steers a terminal; else ASCII with `\\xHH` for the rest."""
    with suppress(UnicodeDecodeError):
        text = data.decode()
        if all(c.isprintable() or c in "\n\r\t" for c in text):
            return text
    return "".join(_byte_text(byte) for byte in data)


def _byte_text(byte: int) -> str:
    if byte == ord("\\"):
        return r"\\"
    return chr(byte) if ord(" ") <= byte <= ord("~") else f"\\x{byte:02x}"


def brief(body: object) -> str:
    """The beginning of a body, on one line."""
    if body is None:
        return "(none)"
    if isinstance(body, bytes):
        cut = body[:BODY_MAX]
        try:
            text = cut.decode()
        except UnicodeDecodeError:
            text = repr(cut)[2:-1]
        is_cut = len(body) > BODY_MAX
    else:
        whole = json.dumps(json_body(body), ensure_ascii=False) if isinstance(body, dict | list) else str(body)
        text, is_cut = whole[:BODY_MAX], len(whole) > BODY_MAX
    return printable(text) + ("..." if is_cut else "")


def printable(text: str, *, lines: bool = False) -> str:
    """The text without what could steer a terminal; line ends and tabs stay where `lines` are wanted."""
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else "\N{REPLACEMENT CHARACTER}" for c in text)


def short(text: str) -> str:
    """The text, or as much of it as people want to see, and then how long it is; --json has it whole."""
    return text if len(text) <= NAME_MAX else f"{text[:NAME_MAX]}... ({len(text)} characters)"


def at_most(count: int) -> str:
    """An upper bound, for people: of nothing there is nothing."""
    return f"up to {count}" if count else "0"


def when(at_ms: int | None) -> str:
    """A time for people, UTC."""
    if not at_ms or at_ms < 0:
        return ""
    try:
        return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError, OSError):  # Kafka takes any 64-bit timestamp
        return f"{at_ms} ms"


def _json_value(value: object) -> object:
    """JSON has no NaN and no infinity; they go as the text that their headers hold."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
