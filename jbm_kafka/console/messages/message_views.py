"""Messages of a queue or subscription page by page, one of them with its body, and its life."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, Field, field_validator

from jbm_kafka.admin import DeadLetter, MessageLife, MessageRow, StoredMessage
from jbm_kafka.codec.headers import decode_headers
from jbm_kafka.console.frame.console import Console
from jbm_kafka.console.frame.source_name import SourceName
from jbm_kafka.console.frame.view import MOMENT_S, View
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.console.messages.shown_body import ShownBody, shown_body
from jbm_kafka.console.messages.shown_life import ShownLife, shown_life
from jbm_kafka.console.queues.queue_views import SourceAsked
from jbm_kafka.core.jms_errors import InvalidDestinationError, InvalidSettingError

HEADER_SHOWN = 500
"""Characters of a header's value that a page has."""
_PLACE = re.compile(r"(\d{1,5})\.(\d{1,19})", re.ASCII)
State = Literal["ready", "waits", "blocked", "in hand", "delayed", "scheduled", "on hold", "expired"]


class MessagesAsked(SourceAsked):
    """Which of its messages."""

    state: State | None = Field(None, description="Only what stands so.")
    unit: str = Field("", description="Only of this unit of order.")
    message_id: str = Field("", description="Only with this id.")
    selector: str = Field("", description="Only what it chooses, as in JMS: region = 'EU' AND qty > 10.")
    since: datetime | None = Field(None, description="Only what was sent since then; UTC.")
    until: datetime | None = Field(None, description="Only what was sent until then; UTC.")
    after: str = Field("", description="Where the page before ended.")
    count: int = Field(50, ge=1, le=500)
    ask: bool = Field(False, description="Ask receivers what they have in hand; takes a second or two.")

    @field_validator("since", "until")
    @classmethod
    def _in_utc(cls, at: datetime | None) -> datetime | None:
        return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at

    @property
    def filters(self) -> Mapping[str, str]:
        """Return those that are given, as in an address."""
        given = self.model_dump(mode="json", include=set(FILTERS))
        return {name: str(value) for name, value in given.items() if value}

    @property
    def is_filtered(self) -> bool:
        """Not all messages are asked for."""
        return bool(self.filters)

    def address(self, **changed: object) -> str:
        """The query of this view with some of it changed."""
        more = {"count": "" if self.count == 50 else self.count, "after": self.after, "ask": "true" if self.ask else ""}
        of = {"subscription": self.subscription, "client_id": self.client_id}
        query = {**of, **self.filters, **more, **changed}
        return urlencode({name: value for name, value in query.items() if value not in ("", None)})


FILTERS = ("state", "unit", "message_id", "selector", "since", "until")


class MessagesPage(BaseModel):
    """A page of messages."""

    source: SourceName
    asked: MessagesAsked
    messages: Sequence[MessageRow]
    next: str
    """The query of the next page; empty: there is none."""
    looked_at: int
    left: int
    asked_receivers: bool
    has_letters: bool
    """It is a dead-letter queue."""


class MessageAsked(SourceAsked):
    """Which message."""

    at: str = Field("", description="Its partition and offset, as 0.17.")

    @property
    def place(self) -> tuple[int, int]:
        """(partition, offset).

        Raises:
            InvalidSettingError: it is no place.
        """
        found = _PLACE.fullmatch(self.at)
        if found is None:
            raise InvalidSettingError(
                f"at: {self.at!a:.40} is no place: write partition and offset, as 0.17", setting="at"
            )
        return int(found[1]), int(found[2])


class LifeAsked(MessageAsked):
    """Which message, by place or by id."""

    message_id: str = Field("", description="Its id, in place of `at`.")


class ShownProperty(BaseModel):
    """A property of a message."""

    name: str
    type: str
    value: str


class ShownHeader(BaseModel):
    """A header of a record."""

    name: str
    value: str
    bytes: int
    is_text: bool


class ShownLetter(BaseModel):
    """A dead letter as it tells of itself."""

    reason: str | None
    last_error: str | None
    attempts: int | None
    died_at_ms: int
    origin: str | None
    origin_subscription: str | None
    origin_at: str | None
    """Partition and offset there."""


class MessageShown(BaseModel):
    """One message with its body."""

    source: SourceName
    at: str
    partition: int
    offset: int
    message_id: str
    unit: str | None
    type: str | None
    correlation_id: str | None
    reply_to: str | None
    priority: int
    delivery_mode: str
    sent_at_ms: int
    arrived_at_ms: int
    delivery_time_ms: int
    expires_at_ms: int
    letter: ShownLetter | None
    """The letter of a dead letter or an expired message; None: it is neither."""
    body: ShownBody
    properties: Sequence[ShownProperty]
    headers: Sequence[ShownHeader]


class LifePage(BaseModel):
    """The page of a message's life."""

    source: SourceName
    asked: LifeAsked
    life: ShownLife


def look_at_messages(console: Console, _: Viewer, asked: MessagesAsked) -> MessagesPage:
    """A page of what is held."""
    source = asked.source
    asks = asked.ask or asked.state == "in hand"
    found = console.admin.page(
        source.destination,
        **source.arguments,
        selector=asked.selector or None,
        state=asked.state,
        unit=asked.unit or None,
        message_id=asked.message_id or None,
        since_ms=_ms(asked.since),
        until_ms=_ms(asked.until),
        after=asked.after or None,
        count=asked.count,
        ask_receivers=asks,
    )
    return MessagesPage(
        source=source,
        asked=asked,
        messages=found.messages,
        next="" if found.after is None else asked.address(after=found.after),
        looked_at=found.looked_at,
        left=found.left,
        asked_receivers=found.asked_receivers,
        has_letters=not source.subscription and source.name in console.letter_queues(),
    )


def look_at_message(console: Console, _: Viewer, asked: MessageAsked) -> MessageShown:
    """One message, held or settled. Raises InvalidDestinationError: there is none at this place any more."""
    source, (partition, offset) = asked.source, asked.place
    stored = stored_at(console, source, partition, offset)
    message, record = stored.message, stored.message.kafka
    headers = () if record is None else record.headers
    return MessageShown(
        source=source,
        at=asked.at,
        partition=partition,
        offset=offset,
        message_id=message.message_id or "",
        unit=message.unit_of_order,
        type=message.type,
        correlation_id=message.correlation_id,
        reply_to=None if message.reply_to is None else str(message.reply_to),
        priority=message.priority,
        delivery_mode=message.delivery_mode.name,
        sent_at_ms=message.timestamp,
        arrived_at_ms=stored.arrived_at_ms,
        delivery_time_ms=message.delivery_time,
        expires_at_ms=message.expiration,
        letter=None if stored.letter is None else _letter(stored.letter),
        body=shown_body(stored, console.schemas),
        properties=[
            ShownProperty(name=name, type=held.type, value=_text(held.value))
            for name, held in sorted(decode_headers(headers).properties.items())
        ],
        headers=[_header(name, value) for name, value in headers],
    )


def stored_at(console: Console, source: SourceName, partition: int, offset: int) -> StoredMessage:
    """The message at a place.

    Raises:
        InvalidDestinationError: the log has none there.
    """
    found = console.admin.message_at(source.destination, partition, offset)
    if found is None:
        raise InvalidDestinationError(
            f"{source.title} has no message at partition {partition} offset {offset} in its log any more: what is "
            f"settled is deleted soon, unless the setting truncate says never. Its life may still be told"
        )
    return found


def look_at_life(console: Console, viewer: Viewer, asked: LifeAsked) -> LifePage:
    """Return what became of it, in the places that the viewer may look at."""
    source = asked.source
    which: dict[str, Any] = {"message_id": asked.message_id} if asked.message_id else {"place": asked.place}
    life: MessageLife = console.admin.message_life(source.destination, **source.arguments, **which)
    seen = [hop for hop in life.hops if viewer.may_look(hop.destination.name)]
    return LifePage(source=source, asked=asked, life=shown_life(life, seen, len(life.hops) - len(seen)))


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value)


def _ms(at: datetime | None) -> int | None:
    return None if at is None else max(int(at.timestamp() * 1_000), 0)


def _header(name: str, value: bytes | None) -> ShownHeader:
    try:
        text, is_text = (value or b"").decode(), value is not None
    except UnicodeDecodeError:
        text, is_text = (value or b"").hex(" "), False
    return ShownHeader(name=name, value=text[:HEADER_SHOWN], bytes=len(value or b""), is_text=is_text)


def _letter(letter: DeadLetter) -> ShownLetter:
    origin = letter.origin
    place = None if origin.partition is None or origin.offset is None else f"{origin.partition}.{origin.offset}"
    return ShownLetter(
        reason=letter.reason,
        last_error=letter.last_error,
        attempts=letter.attempts,
        died_at_ms=letter.died_at_ms,
        origin=origin.destination,
        origin_subscription=origin.subscription,
        origin_at=place,
    )


_PARTS: tuple[tuple[str, type[BaseModel], Any, type[BaseModel], str, str], ...] = (
    ("/messages", MessagesAsked, look_at_messages, MessagesPage, "A page of its messages", "messages.html"),
    ("/message", MessageAsked, look_at_message, MessageShown, "One message with its body", "message.html"),
    ("/life", LifeAsked, look_at_life, LifePage, "What became of one message", "life.html"),
)
MESSAGE_VIEWS: tuple[View, ...] = tuple(
    View(base + tail, asked, look, gives, summary, template, fresh_s=MOMENT_S)
    for base in ("/queues/{name}", "/topics/{name}/subscription")
    for tail, asked, look, gives, summary, template in _PARTS
)
