"""Messages and references as channels of one process hold them and show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

from jbm_kafka.contract import CoreMessage, MessageReference, MessageStore, Routable
from jbm_kafka.core.jms_errors import RoutableNotAcceptedError, UnknownMessageError


def part_of(owner: str, name: str) -> Any:
    """A property that is this attribute of the owner, itself an attribute."""
    return property(attrgetter(f"{owner}.{name}"), lambda self, value: setattr(getattr(self, owner), name, value))


class _ByPriority:
    """Routables compare by priority, the higher first."""

    __slots__ = ()

    priority: int

    def __lt__(self, other: Routable, /) -> bool:
        return self.priority > other.priority


@dataclass(frozen=True, slots=True)
class _Envelope(_ByPriority):
    """All of a message but its body."""

    message_id: str
    """Unique in its store."""
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


_NAMES = [each.name for each in fields(_Envelope)]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReference(_Envelope):
    """A reference to a message in a store."""

    store_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMessage(_Envelope):
    """A message of our own making, for who has no class of messages."""

    body: object = None
    """Any object; that of a reliable message must be one that can be written."""


def reference_to(message: Routable, store_id: str, *, redelivered: bool | None = None) -> StoredReference:
    """A reference to a message that the store of this id keeps; `redelivered` as the message says, unless given."""
    envelope: dict[str, Any] = {name: getattr(message, name) for name in _NAMES}
    if redelivered is not None:
        envelope["redelivered"] = redelivered
    return StoredReference(store_id=store_id, **envelope)


class ShownMessage(_ByPriority):
    """A message whose `redelivered` is what this channel knows; everything else is the message's own."""

    __slots__ = ("original", "redelivered")

    message_id: str = part_of("original", "message_id")
    body: object = part_of("original", "body")
    is_reliable: bool = part_of("original", "is_reliable")
    priority: int = part_of("original", "priority")
    expiration_ms: int = part_of("original", "expiration_ms")
    unit_of_order: str | None = part_of("original", "unit_of_order")
    headers: Mapping[str, object] = part_of("original", "headers")

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
