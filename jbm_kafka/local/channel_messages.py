"""Messages and references as channels of one process hold them and show them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jbm_kafka.codec.dead_letter import HOP_PROPERTIES, ORIG_DESTINATION, ORIG_MESSAGE_ID
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


def reference_to(message: Routable, store_id: str, *, redelivered: bool | None = None) -> StoredReference:
    """A reference to a message that the store of this id keeps; `redelivered` as the message says, unless given."""
    return StoredReference(
        store_id=store_id,
        message_id=message.message_id,
        is_reliable=message.is_reliable,
        priority=message.priority,
        expiration_ms=message.expiration_ms,
        redelivered=message.redelivered if redelivered is None else redelivered,
        unit_of_order=message.unit_of_order,
        headers=message.headers,
    )


def _of_original(name: str) -> Any:
    return property(lambda shown_message: getattr(shown_message.original, name))


class ShownMessage(_ByPriority):
    """A message whose `redelivered` is what this channel knows; everything else is the message's own."""

    __slots__ = ("original", "redelivered")

    message_id: str = _of_original("message_id")
    body: object = _of_original("body")
    is_reliable: bool = _of_original("is_reliable")
    priority: int = _of_original("priority")
    expiration_ms: int = _of_original("expiration_ms")
    unit_of_order: str | None = _of_original("unit_of_order")
    headers: Mapping[str, object] = _of_original("headers")

    def __init__(self, message: CoreMessage, redelivered: bool) -> None:
        self.original = message
        self.redelivered = redelivered

    def __eq__(self, other: object) -> bool:
        return self.original == (other.original if isinstance(other, ShownMessage) else other)

    def __hash__(self) -> int:
        return hash(self.original)


def shown(message: CoreMessage, *, redelivered: bool) -> CoreMessage:
    """The message with this flag; itself when it says so already."""
    return message if message.redelivered == redelivered else ShownMessage(message, redelivered)


def as_stored(message: CoreMessage) -> CoreMessage:
    """The message as its sender made it, of one that some channel may have shown."""
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
    """The unit that it is in order with; None: nothing."""
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


def departing_copy(message: CoreMessage, *, channel: str, hop: Mapping[str, object]) -> LocalMessage:
    """The copy that goes to a dead-letter or expiry channel (REDELIVER-4, SEND-5); `hop` says why it left."""
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
