"""References to messages, and messages as a channel shows them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from jbm_kafka.codec.dead_letter import (
    ACTUAL_EXPIRY,
    DEAD_LETTER_REASON,
    DELIVERY_COUNT,
    HOP_PROPERTIES,
    ORIG_DESTINATION,
    ORIG_MESSAGE_ID,
)
from jbm_kafka.contract import CoreMessage, MessageReference, MessageStore, Routable
from jbm_kafka.core.jms_errors import RoutableNotAcceptedError, UnknownMessageError


class _ByPriority:
    """Routables compare by priority, the higher first."""

    __slots__ = ()

    priority: int

    def __lt__(self, other: Routable, /) -> bool:
        return self.priority > other.priority


@dataclass(frozen=True, slots=True)
class StoredReference(_ByPriority):
    """A reference to a message in a store: everything but the body."""

    store_id: str
    message_id: str
    is_reliable: bool
    priority: int
    expiration_ms: int
    redelivered: bool
    unit_of_order: str | None
    headers: Mapping[str, object] = field(repr=False, hash=False)


def reference_to(message: CoreMessage, store_id: str) -> StoredReference:
    """A reference to a message that the store of this id keeps."""
    return StoredReference(
        store_id=store_id,
        message_id=message.message_id,
        is_reliable=message.is_reliable,
        priority=message.priority,
        expiration_ms=message.expiration_ms,
        redelivered=message.redelivered,
        unit_of_order=message.unit_of_order,
        headers=message.headers,
    )


class ShownMessage(_ByPriority):
    """A message whose `redelivered` is what this channel knows; everything else is the message's own."""

    __slots__ = ("_message", "_redelivered")

    def __init__(self, message: CoreMessage, *, redelivered: bool) -> None:
        self._message = message
        self._redelivered = redelivered

    @property
    def original(self) -> CoreMessage:
        """The message as it was stored."""
        return self._message

    @property
    def message_id(self) -> str:
        return self._message.message_id

    @property
    def is_reliable(self) -> bool:
        return self._message.is_reliable

    @property
    def priority(self) -> int:  # type: ignore[override]  # read-only here
        return self._message.priority

    @property
    def expiration_ms(self) -> int:
        return self._message.expiration_ms

    @property
    def redelivered(self) -> bool:
        return self._redelivered

    @property
    def unit_of_order(self) -> str | None:
        return self._message.unit_of_order

    @property
    def headers(self) -> Mapping[str, object]:
        return self._message.headers

    @property
    def body(self) -> object:
        return self._message.body

    def __getattr__(self, name: str) -> object:
        # What the application's own message class has beyond the contract.
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._message, name)

    def __eq__(self, other: object) -> bool:
        return self._message == (other.original if isinstance(other, ShownMessage) else other)

    def __hash__(self) -> int:
        return hash(self._message)

    def __repr__(self) -> str:
        return f"{self._message!r} (redelivered={self._redelivered})"


def shown(message: CoreMessage, *, redelivered: bool) -> CoreMessage:
    """The message with this flag; itself when it says so already."""
    return message if message.redelivered == redelivered else ShownMessage(message, redelivered=redelivered)


def as_stored(message: CoreMessage) -> CoreMessage:
    """What to store of a message that some channel may have shown."""
    return message.original if isinstance(message, ShownMessage) else message


@dataclass(frozen=True, slots=True)
class LocalMessage(_ByPriority):
    """A message of our own making: a dead letter, or an expired message's copy."""

    message_id: str
    """Unique in its store."""
    body: object = None
    """Any object; that of a reliable message must be one that can be written."""
    is_reliable: bool = False
    """It is kept through a restart."""
    priority: int = 4
    """0 to 9, the highest first."""
    expiration_ms: int = 0
    """ms since the epoch; 0: never."""
    redelivered: bool = False
    """It was delivered before."""
    unit_of_order: str | None = None
    """What it is in order with; None: nothing."""
    headers: Mapping[str, object] = field(default_factory=dict, hash=False)
    """Everything else, by name."""


def refused(channel: str, routable: Routable, reason: str) -> RoutableNotAcceptedError:
    """The error of a channel that does not take a message."""
    name = routable.message_id
    return RoutableNotAcceptedError(f"channel {channel!r} refuses message {name!r}: {reason}", message_id=name)


def message_of(routable: Routable, *, channel: str, store: MessageStore) -> CoreMessage:
    """The message, from the store when this is a reference.

    Raises:
        RoutableNotAcceptedError: it is neither a message nor a reference to one in this store.
    """
    if isinstance(routable, CoreMessage):
        return as_stored(routable)
    if not isinstance(routable, MessageReference) or routable.store_id != store.store_id:
        raise refused(channel, routable, f"it is neither a message nor a reference into store {store.store_id!r}")
    try:
        return store.retrieve(routable.message_id)
    except UnknownMessageError:
        raise refused(channel, routable, f"store {store.store_id!r} does not have it") from None


def dead_letter(message: CoreMessage, *, channel: str, delivery_count: int, reason: str) -> LocalMessage:
    """The copy that goes to the dead-letter channel (REDELIVER-4)."""
    return _copy(message, channel, {DELIVERY_COUNT: delivery_count, DEAD_LETTER_REASON: reason})


def expired_copy(message: CoreMessage, *, channel: str, delivery_count: int, now_ms: int) -> LocalMessage:
    """The copy that goes to the expiry channel (SEND-5)."""
    return _copy(message, channel, {DELIVERY_COUNT: delivery_count, ACTUAL_EXPIRY: now_ms})


def _copy(message: CoreMessage, channel: str, hop: Mapping[str, object]) -> LocalMessage:
    # A store has one body per id, and the original is there until the copy is safe: the copy needs an id of its own.
    kept = {name: value for name, value in message.headers.items() if name not in HOP_PROPERTIES}
    origin = {ORIG_DESTINATION: f"queue:{channel}", ORIG_MESSAGE_ID: message.message_id}
    return LocalMessage(
        message_id=f"ID:{uuid.uuid4()}",
        body=message.body,
        is_reliable=message.is_reliable,
        priority=message.priority,
        unit_of_order=message.unit_of_order,
        headers={**kept, **origin, **hop},
    )
