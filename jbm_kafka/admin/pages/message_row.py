"""Messages as a page shows them: without their bodies, which may be large."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from jbm_kafka.admin.dead_letters.letters import DeadLetter
from jbm_kafka.codec.bodies import OBJECT, TEXT, body_kind
from jbm_kafka.codec.dead_letter import origin_of
from jbm_kafka.codec.identity import message_id_of, unit_name
from jbm_kafka.codec.one_header import header_text
from jbm_kafka.codec.record_values import record_timestamp_ms
from jbm_kafka.codec.scan import scan
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_expired
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.summary import summary
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.provider import Seen

PageState = Literal["ready", "waits", "blocked", "in hand", "delayed", "scheduled", "on hold", "expired"]
"""How a message stands. "ready": a receiver could have it now. "waits": that, or behind earlier ones of its unit, which
stand on an earlier page. "blocked": behind earlier ones of its unit. "delayed": it came back, and waits for its next
attempt. "scheduled": its sender delayed it."""
PAGE_STATES: Final = get_args(PageState)
PREVIEW_LENGTH = 160
UNPRINTABLE = "\N{MIDDLE DOT}"
"""In place of what has no picture, or would turn around what stands beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRow:
    """A message that a queue or subscription holds."""

    partition: int
    """The number of the Kafka topic's partition."""
    offset: int
    """Its place in the log."""
    message_id: str
    """As `message.message_id`."""
    unit: str | None
    """Its unit of order; None: it has none."""
    type: str | None
    """Its JMSType."""
    state: PageState
    """How it stands. "ready": a receiver could have it now; "blocked": behind earlier ones of its unit; "waits": one of
    these two, which only an earlier page tells; "in hand"; "delayed": it came back, and waits for its next attempt;
    "scheduled": its sender delayed it; "on hold"; "expired"."""
    due_at_ms: int
    """The time before which a delayed or scheduled message is not handed over; else 0."""
    attempts: int
    """Hand-overs so far that did not end in acknowledgement; of a dead letter that nobody has had here, those before
    it was given up."""
    last_error: str | None
    """Why the latest failed one failed, as recorded, or as a dead letter tells; None: it is not known."""
    sent_at_ms: int
    """When it was sent first."""
    arrived_at_ms: int
    """When it came into this queue."""
    expires_at_ms: int
    """0: never."""
    priority: int
    """0 to 9."""
    kind: str
    """Its body: text, bytes, map, stream, object or none, as announced."""
    bytes: int
    """The size of its body."""
    preview: str
    """How a body begins that is text or JSON; of others nothing."""

    @property
    def place(self) -> tuple[int, int]:
        """(partition, offset): its identity, for ids may repeat."""
        return self.partition, self.offset

    def __repr__(self) -> str:
        return summary(self, self.message_id, state=self.state, partition=self.partition, offset=self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePage:
    """Some of what a queue or subscription holds, in the order of its log."""

    messages: tuple[MessageRow, ...]
    """In the order of the log."""
    after: str | None
    """Given as `after` it has the next page; None: everything was looked at."""
    looked_at: int
    """So many messages were read for this page. A page ends after some thousands, however few it shows."""
    left: int
    """So many more are there at most."""
    asked_receivers: bool
    """Receivers were asked what they have in hand; else that shows as ready, or as what it was before."""

    def __repr__(self) -> str:
        return summary(
            self, f"{len(self.messages)} messages", after=self.after, looked_at=self.looked_at, left=self.left
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMessage:
    """One message as it stands in a log, whatever became of it."""

    message: Message
    """As a browser shows it."""
    value: bytes | None
    """The body as it is in the log."""
    arrived_at_ms: int
    """When it was written there."""
    letter: DeadLetter | None
    """The letter's account of where it was before; None: it is no dead letter, nor an expired message."""

    def __repr__(self) -> str:
        return summary(self, self.message.message_id, bytes=len(self.value or b""))


def message_row(seen: Seen, now_ms: int, *, knows_unit: bool) -> MessageRow:
    """The row of a message; `knows_unit`: it is known whether earlier ones of its unit are held."""
    record, headers = seen.record, seen.record.headers()
    partition, offset = record.partition() or 0, record.offset() or 0
    scanned, unit = scan(headers), unit_name(record.key())
    value, kind, origin = record.value(), body_kind(headers), origin_of(headers)
    return MessageRow(
        partition=partition,
        offset=offset,
        message_id=message_id_of(headers, record.topic() or "", partition, offset),
        unit=unit,
        type=header_text(headers, "JMSType"),
        state=_state(seen, scanned.expiration_ms, now_ms, knows_unit=knows_unit or unit is None),
        due_at_ms=seen.due_at_ms if seen.due_at_ms < FOREVER_MS else 0,
        attempts=seen.attempts or origin.delivery_count or 0,
        last_error=seen.last_error or origin.last_error,
        sent_at_ms=record_timestamp_ms(record),
        arrived_at_ms=record.timestamp()[1],
        expires_at_ms=scanned.expiration_ms,
        priority=scanned.priority,
        kind=announced(record),
        bytes=len(value or b""),
        preview=_preview(kind, value),
    )


def announced(record: KafkaRecord) -> str:
    """The kind of body that a record announces."""
    kind = body_kind(record.headers())
    if kind is None:
        return "none" if record.value() is None else "bytes"
    return kind.decode(errors="backslashreplace")


def _state(seen: Seen, expiration_ms: int, now_ms: int, *, knows_unit: bool) -> PageState:
    if seen.state is MessageState.DELIVERED:
        return "in hand"
    if seen.due_at_ms >= FOREVER_MS:
        return "on hold"
    if is_expired(expiration_ms, now_ms):
        return "expired"
    if seen.due_at_ms > now_ms:
        return "delayed" if seen.attempts else "scheduled"
    if not seen.is_deliverable:
        return "blocked"
    return "ready" if knows_unit else "waits"


def _preview(kind: bytes | None, value: bytes | None) -> str:
    if value is None or kind not in (TEXT, OBJECT, None):
        return ""
    begin = value[: 4 * PREVIEW_LENGTH]
    try:
        text = begin.decode()
    except UnicodeDecodeError as fault:
        if len(begin) == len(value) or fault.start < len(begin) - 3:  # else a character is cut
            return ""
        text = begin[: fault.start].decode()
    line = " ".join(text.split())[:PREVIEW_LENGTH]
    strange = sum(not each.isprintable() for each in line)
    if 4 * strange > len(line):  # bytes that happen to be UTF-8
        return ""
    return "".join(each if each.isprintable() else UNPRINTABLE for each in line) if strange else line
