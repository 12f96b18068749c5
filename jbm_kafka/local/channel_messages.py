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


@dataclass(frozen=True, slots=True)
class _Envelope:
    """All of a message but its body. The higher priority goes first."""

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

    def __lt__(self, other: Routable, /) -> bool:
        return self.priority > other.priority


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReference(_Envelope):
    """A reference to a message in a store."""

    store_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalMessage(_Envelope):
    """A message, for who has no class of his own; and how any is shown that was delivered before."""

    body: object = None
    """Any object; that of a reliable message must be one that can be written."""


def reference_to(message: Routable, store_id: str, *, redelivered: bool | None = None) -> StoredReference:
    """A reference to a message that the store of this id keeps; `redelivered` as the message says, unless given."""
    return StoredReference(store_id=store_id, **_envelope(message, redelivered))


def shown(message: CoreMessage, *, redelivered: bool) -> CoreMessage:
    """The message with this flag; itself when it says so already."""
    if message.redelivered == redelivered:
        return message
    return LocalMessage(body=message.body, **_envelope(message, redelivered))


def _envelope(message: Routable, redelivered: bool | None) -> dict[str, Any]:
    told = {} if redelivered is None else {"redelivered": redelivered}
    return {each.name: getattr(message, each.name) for each in fields(_Envelope)} | told


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
        return routable
    if not isinstance(routable, MessageReference) or routable.store_id != store.store_id:
        raise refused(channel, routable, f"it is neither a message nor a reference into store {store.store_id!r}")
    try:
        return store.retrieve(routable.message_id)
    except UnknownMessageError:
        raise refused(channel, routable, f"store {store.store_id!r} does not have it") from None
