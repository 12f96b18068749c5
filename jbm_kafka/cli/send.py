"""`jbm-kafka send`: messages from the command line, a file, or standard input."""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from shlex import quote
from typing import Any, BinaryIO, cast

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole, check_unit, emit, json_option
from jbm_kafka.cli.connect import as_destination, connect, of_its_kind
from jbm_kafka.cli.ending import Interrupted, unwinding
from jbm_kafka.codec.object_codecs import read_json
from jbm_kafka.codec.property_header import PROPERTY_TYPES, PropertyType, parse_property
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.durations import LONGEST_MS
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.bytes_message import BytesMessage
from jbm_kafka.jms.map_message import MapMessage
from jbm_kafka.jms.message import Message, TextMessage
from jbm_kafka.jms.message_properties import check_property_name
from jbm_kafka.jms.object_message import ObjectMessage
from jbm_kafka.jms.stream_message import StreamMessage

Typed = tuple[str, PropertyType, str]
"""Name, type, text of a property."""
COUNT_MAX = 1_000_000_000
FLUSH_S = 5.0
"""For what is on its way when the command is interrupted."""
MILLISECONDS = "milliseconds, as in 5000"


class _BodyFile(click.File):
    """A file to send; what is none was meant as a text, more often than not."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The open file; wrong usage, with how a text is sent, where there is none."""
        if value == "-" and sys.stdin is None:
            raise click.BadParameter("standard input is closed; nothing was sent", ctx, param)
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            raise click.BadParameter(f"{error.message}; for a text: --text {quote(str(value))}", ctx, param) from None


def as_properties(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Typed, ...]:
    """`k=v` for a string, `k:int=3` for another type; wrong usage when they do not fit."""
    found: list[Typed] = []
    for value in values:
        try:
            one = _property(value)
            if any(name == one[0] for name, *_ in found):
                raise ValueError(f"{one[0]} is given twice")
            found.append(one)
        except (JMSError, ValueError) as error:
            raise click.BadParameter(f"{value!r}: {error}", context, parameter) from None
    return tuple(found)


def _property(value: str) -> Typed:
    left, equals, text = value.partition("=")
    name, _, kind = left.partition(":")
    kind = kind or "string"
    if not equals:
        raise ValueError("write name=text, or name:type=value")
    if kind not in PROPERTY_TYPES:
        raise ValueError(f"{kind!r} is not a type; use {', '.join(sorted(PROPERTY_TYPES))}")
    check_property_name(name)
    parse_property(cast(PropertyType, kind), text)
    return name, cast(PropertyType, kind), text


@click.command(epilog="Example: jbm-kafka send orders --unit joe --property qty:int=2 --text '2 books'")
@click.argument("destination", callback=as_destination, metavar="DEST")
@click.argument("file", required=False, type=_BodyFile("rb"), metavar="[FILE|-]")
@click.option("--text", help="The body.")
@click.option("--lines", is_flag=True, help="One message for each line of the file.")
@click.option("--kind", type=click.Choice(["text", "bytes", "map", "stream", "object"]),
              help="Of the messages; the last three are given as JSON. [text if it is UTF-8, else bytes]")  # fmt: skip
@click.option("--unit", metavar="U", callback=check_unit,
              help="Unit of order: messages of one unit are received one at a time, in order.")  # fmt: skip
@click.option("--property", "properties", callback=as_properties, multiple=True, metavar="K=V",
              help="A property, as text; K:int=3 for other types. Again for more.")  # fmt: skip
@click.option("--priority", type=Whole(0, 9), metavar="0..9", default=4, show_default=True,
              help="The higher first, between units.")  # fmt: skip
@click.option("--delay-ms", metavar="MS", type=Whole(0, LONGEST_MS, unit=MILLISECONDS), default=0,
              help="Not to be received earlier.")  # fmt: skip
@click.option(
    "--time-to-live-ms",
    metavar="MS",
    type=Whole(0, LONGEST_MS, unit=MILLISECONDS),
    default=0,
    help="Expires after that; 0: never.",
)
@click.option(
    "--count", metavar="N", type=Whole(1, COUNT_MAX), default=1, show_default=True, help="Send each so often."
)
@cluster_options
@json_option
def send(
    destination: Queue | Topic,
    file: BinaryIO | None,
    text: str | None,
    lines: bool,
    kind: str | None,
    unit: str | None,
    properties: tuple[Typed, ...],
    priority: int,
    delay_ms: int,
    time_to_live_ms: int,
    count: int,
    cluster: Cluster,
    as_json: bool,
) -> None:
    """Send messages to a queue, or to topic:NAME: --text, a file, or - for standard input.

    UTF-8 makes text messages, all else bytes.

    --kind map, stream and object make those of JSON: {"item": "chair", "qty": 3}.
    """
    if (text is None) == (file is None):
        raise click.UsageError("give the body: either --text TEXT, or a file, or - for standard input")
    if lines and file is None:
        raise click.UsageError("--lines needs a file, or - for standard input")
    bodies = _bodies(file, text, lines=lines)
    sender = _Sender(unit, properties, kind)
    with of_its_kind(destination, "send"), unwinding(), connect(cluster) as connection:
        with connection.create_session() as session:
            producer = session.create_producer(destination)
            producer.priority, producer.delivery_delay_ms = priority, delay_ms
            producer.time_to_live_ms = time_to_live_ms
            try:
                for body in bodies:
                    for _ in range(count):
                        sender.check()
                        message = sender.message(body)
                        producer.send(message, unit_of_order=unit, on_completion=sender.reported)
                        sender.begun += 1
                producer.flush()
            except KeyboardInterrupt:
                with suppress(JMSError):
                    producer.flush(FLUSH_S)
                raise Interrupted(sender.told(destination)) from None
        sender.check()
    emit(
        {"sent": sender.sent, "destination": str(destination)}, f"{sender.sent} sent to {destination}", as_json=as_json
    )


class _Sender:
    """Makes the messages and hears what became of them."""

    def __init__(self, unit: str | None, properties: tuple[Typed, ...], kind: str | None) -> None:
        self._unit = unit
        self._kind = kind
        self._properties = properties
        self.begun = 0
        """Sends that were asked for."""
        self.sent = 0
        """Of them, those that Kafka has confirmed."""
        self._failure: Exception | None = None

    def message(self, body: bytes) -> Message:
        """A message of that body, with its properties."""
        message = _message(body, self._kind)
        for name, kind, value in self._properties:
            setter = _SETTERS.get(kind)
            held = parse_property(kind, value).value
            if setter is None:
                message.properties[name] = held
            else:
                getattr(message, setter)(name, held)
        return message

    def reported(self, message: Message, error: Exception | None) -> None:
        """One send is confirmed, or has failed."""
        if error is None:
            self.sent += 1
        elif self._failure is None:
            self._failure = error

    def told(self, destination: Queue | Topic) -> str:
        """How far it came, for who goes on from there: sends are confirmed in their order."""
        doubtful = self.begun - self.sent
        of_others = f"; of {doubtful} more it is not known" if doubtful else ""
        return f"the first {self.sent} were sent to {destination}{of_others}"

    def check(self) -> None:
        """Raises JMSError when a send failed."""
        if self._failure is not None:
            raise JMSError(f"after {self.sent} sent: {self._failure}")


_SETTERS: Mapping[str, str] = {
    kind: f"set_{kind}_property" for kind in ("byte", "short", "int", "long", "float", "double")
}


def _message(body: bytes, kind: str | None) -> Message:
    if kind == "bytes":
        return BytesMessage(body)
    try:
        if kind is None or kind == "text":
            return TextMessage(body.decode())
        value = read_json(body)
        json.loads(body, object_pairs_hook=_checked_pairs, parse_constant=_refuse_constant)
    except ValueError as fault:
        if kind is None:
            return BytesMessage(body)
        form = "UTF-8" if kind == "text" else "JSON"
        raise JMSError(f"--kind {kind}: the body is not {form}: {fault}") from None
    return ObjectMessage(value) if kind == "object" else (MapMessage if kind == "map" else StreamMessage)(value)


def _checked_pairs(pairs: list[tuple[str, object]]) -> None:
    """Raises ValueError for a name that is there twice: one of its values would be gone."""
    counts = Counter(name for name, _ in pairs)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(f"the name {twice[0]!r} is there twice")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is Python's, and no number of JSON; send a text that says so")


def _bodies(file: BinaryIO | None, text: str | None, *, lines: bool) -> Iterator[bytes]:
    """One body, or one for each line, as they come."""
    if file is None:
        assert text is not None
        # What the shell gave that is no UTF-8 arrives as lone surrogates; it stands for bytes.
        yield text.encode(sys.getfilesystemencoding(), "surrogateescape")
    elif lines:
        for line in file:
            yield line.removesuffix(b"\n").removesuffix(b"\r")
    else:
        body = file.read()
        if not body and file is getattr(sys.stdin, "buffer", None):
            raise click.UsageError("standard input is empty; nothing was sent. For an empty body: --text ''")
        yield body
