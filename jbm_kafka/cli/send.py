"""`jbm-kafka send`: messages from the command line, a file, or standard input."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, BinaryIO, cast

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import UNIT, Text, Whole, emit, json_option
from jbm_kafka.cli.connect import as_destination, connect
from jbm_kafka.cli.ending import Interrupted, unwinding
from jbm_kafka.cli.send_progress import SendProgress
from jbm_kafka.codec.object_codecs import read_json
from jbm_kafka.codec.property_header import PROPERTY_TYPES, PropertyType, parse_property
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.durations import LONGEST_MS
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError, MessageFormatError, SendTimeoutError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.jms.messages.bytes_message import BytesMessage
from jbm_kafka.jms.messages.map_message import MapMessage
from jbm_kafka.jms.messages.message import Message, TextMessage
from jbm_kafka.jms.messages.message_properties import checked_property_name
from jbm_kafka.jms.messages.object_message import ObjectMessage
from jbm_kafka.jms.messages.stream_message import StreamMessage
from jbm_kafka.jms.producer import MessageProducer

Typed = tuple[str, PropertyType, str]
"""Name, type, text of a property."""
COUNT_MAX = 1_000_000_000
FLUSH_S = 5.0
"""For what is on its way when the command is interrupted."""
LARGE_BYTES = 100_000
"""A body of so many is sent while no other is under way: it may be too large for its topic, and what was under way
behind it would be sent all the same. Waiting for one of this size costs little beside sending it."""


class _BodyFile(click.File):
    """A file to send."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The open file; wrong usage where standard input is closed."""
        if value == "-" and sys.stdin is None:
            raise click.BadParameter("standard input is closed; nothing was sent", ctx, param)
        return super().convert(value, param, ctx)


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
    checked_property_name(name)
    parse_property(cast(PropertyType, kind), text)
    return name, cast(PropertyType, kind), text


@click.command(epilog="Example: jbm-kafka send orders --unit joe --property qty:int=2 --text '2 books'")
@click.argument("destination", callback=as_destination, metavar="DEST")
@click.argument("file", required=False, type=_BodyFile("rb"), metavar="[FILE|-]")
@click.option("--text", help="The body.")
@click.option("--lines", is_flag=True, help="One message for each line of the file.")
@click.option("--kind", type=click.Choice(["text", "bytes", "map", "stream", "object"]),
              help="Of the messages; the last three are given as JSON. [text if it is UTF-8, else bytes]")  # fmt: skip
@click.option("--unit", metavar="U", type=UNIT,
              help="Unit of order: messages of one unit are received one at a time, in order.")  # fmt: skip
@click.option("--property", "properties", type=Text(), callback=as_properties, multiple=True, metavar="K=V",
              help="A property, as text; K:int=3 for other types. Again for more.")  # fmt: skip
@click.option("--priority", type=Whole(0, 9), metavar="0..9", default=4, show_default=True,
              help="The higher first, between units.")  # fmt: skip
@click.option("--delay-ms", metavar="MS", type=Whole(0, LONGEST_MS), default=0,
              help="Not to be received earlier.")  # fmt: skip
@click.option(
    "--time-to-live-ms",
    metavar="MS",
    type=Whole(0, LONGEST_MS),
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
    if text is None and file is None:
        raise click.UsageError("give the body: either --text TEXT, or a file, or - for standard input")
    if lines and file is None:
        raise click.UsageError("--lines needs a file, or - for standard input")
    if text is not None and file is not None:
        raise click.UsageError("both --text and a file are given, and a message has one body: leave one of them out")
    maker = MessageMaker(kind, properties)
    bodies = _checked(file, maker) if lines and file is not None else _one_body(file, text, maker)
    progress = SendProgress(destination, "line" if lines and count == 1 else "message")
    with (
        unwinding(),
        connect(cluster) as connection,
        connection.create_session() as session,
    ):
        producer = session.create_producer(destination)
        producer.priority, producer.delivery_delay_ms = priority, delay_ms
        producer.time_to_live_ms, producer.unit_of_order = time_to_live_ms, unit
        try:
            send_bodies(producer, bodies, maker, progress, count=count)
        except KeyboardInterrupt:
            with suppress(JMSError):
                producer.flush(FLUSH_S)
            raise Interrupted(progress.text()) from None
    emit(
        {"sent": progress.sent, "destination": str(destination)},
        f"{progress.sent} sent to {destination}",
        as_json=as_json,
    )


class MessageMaker:
    """Makes the messages of one command."""

    def __init__(self, kind: str | None, properties: Sequence[Typed] = ()) -> None:
        self._kind = kind
        self._properties = properties

    def message(self, body: bytes) -> Message:
        """A message of that body, with its properties.

        Raises:
            MessageFormatError: it is not of the kind.
        """
        message = _message(body, self._kind)
        for name, kind, value in self._properties:
            setter = _SETTERS.get(kind)
            held = parse_property(kind, value).value
            if setter is None:
                message.properties[name] = held
            else:
                getattr(message, setter)(name, held)
        return message

    @property
    def takes_any(self) -> bool:
        """There is a message for every body."""
        return self._kind is None or self._kind == "bytes"

    def check(self, body: bytes) -> None:
        """Raises MessageFormatError unless the body is of the kind."""
        if not self.takes_any:
            _message(body, self._kind)


def send_bodies(
    producer: MessageProducer, bodies: Iterable[bytes], maker: MessageMaker, progress: SendProgress, *, count: int
) -> None:
    """Sends each body so often, in order, and returns when all are confirmed; nothing is begun after one that failed.

    Raises:
        JMSError: some were not sent; it tells which were.
        click.UsageError: the same, for a body that is not of its kind.
    """
    try:
        for body in bodies:
            is_large = len(body) >= LARGE_BYTES
            for copy in range(count):
                message = maker.message(body)
                if is_large and copy == 0:
                    producer.flush()  # so that nothing is under way behind it if it is too large
                if progress.failure is not None:
                    break
                producer.send(message, on_completion=progress.reported)
                progress.begun += 1
                if is_large and copy == 0:
                    producer.flush()
            if progress.failure is not None:
                break
    except JMSError as error:
        if isinstance(error, InvalidDestinationError) and not progress.begun:
            raise  # not the body's fault: the command says what to type
        progress.refused(error)
    with suppress(SendTimeoutError):  # the error says of which messages it is not known
        producer.flush()
    if progress.failure is not None:
        text = progress.text()
        raise click.UsageError(text) if isinstance(progress.failure, MessageFormatError) else JMSError(text)
    if progress.sent < progress.begun:
        raise SendTimeoutError(f"no answer from Kafka within 30 s: {progress.text()}")


_EXAMPLES: Mapping[str, str] = {
    "map": '{"item": "chair", "qty": 3}',
    "stream": '["chair", 3]',
    "object": '{"items": ["chair", "desk"]}',
}
"""Examples of bodies that are given as JSON, by the kind of message."""
_SETTERS: Mapping[str, str] = {
    kind: f"set_{kind}_property" for kind in ("byte", "short", "int", "long", "float", "double")
}


def _message(body: bytes, kind: str | None) -> Message:
    if kind == "bytes":
        return BytesMessage(body)
    try:
        if kind is None or kind == "text":
            return TextMessage(body.decode())
        value = read_json(body, is_strict=True)
        json.loads(body, object_pairs_hook=_checked_pairs)
    except ValueError as fault:
        if kind is None:
            return BytesMessage(body)
        form = "UTF-8" if kind == "text" else "JSON"
        why = str(fault) if b"\n" in body else str(fault).replace("line 1 column", "column")
        remedy = (
            "; give --kind bytes, or leave --kind out"
            if kind == "text"
            else f"; write it as in {_EXAMPLES[kind]}, not {_shown(body)}"
        )
        raise MessageFormatError(f"--kind {kind}: the body is not {form}: {why}{remedy}") from None
    if kind == "object":
        return ObjectMessage(value)
    if kind == "map" and isinstance(value, dict):
        return MapMessage(value)
    if kind == "stream" and isinstance(value, list):
        return StreamMessage(value)
    wanted = "object" if kind == "map" else "array"
    raise MessageFormatError(f"--kind {kind} wants a JSON {wanted}, as in {_EXAMPLES[kind]}, not {_shown(body)}")


def _shown(body: bytes) -> str:
    return shown(body.decode(errors="backslashreplace"))


def _checked_pairs(pairs: list[tuple[str, object]]) -> None:
    """Raises ValueError for a name that is there twice: one of its values would be gone."""
    counts = Counter(name for name, _ in pairs)
    twice = [name for name, count in counts.items() if count > 1]
    if twice:
        raise ValueError(f"the name {twice[0]!r} is there twice")


def _one_body(file: BinaryIO | None, text: str | None, maker: MessageMaker) -> list[bytes]:
    """The body; wrong usage when it is missing, or not of its kind."""
    if file is None:
        assert text is not None
        # What the shell gave that is no UTF-8 arrives as lone surrogates; it stands for bytes.
        body = text.encode(sys.getfilesystemencoding(), "surrogateescape")
    else:
        body = file.read()
        if not body and file is getattr(sys.stdin, "buffer", None):
            raise click.UsageError("standard input is empty; nothing was sent. For an empty body: --text ''")
    try:
        maker.check(body)
    except MessageFormatError as error:
        raise click.UsageError(str(error)) from None
    return [body]


def _checked(file: BinaryIO, maker: MessageMaker) -> Iterator[bytes]:
    """Its lines, which were all looked at where it can be read twice; else each is looked at when it is sent.

    Raises:
        click.UsageError: one is not of its kind; nothing was sent.
    """
    if not maker.takes_any and file.seekable():
        begin = file.tell()
        for number, body in enumerate(_lines(file), 1):
            try:
                maker.check(body)
            except MessageFormatError as error:
                raise click.UsageError(f"line {number}: {error}; nothing was sent") from None
        file.seek(begin)
    return _lines(file)


def _lines(file: BinaryIO) -> Iterator[bytes]:
    for line in file:
        yield line.removesuffix(b"\n").removesuffix(b"\r")
