"""Subscriptions of topics: each gets a copy of every message, and is a consumer group of its own."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from jbm_kafka.core.destination import Queue, Topic, percent_encode, with_namespace
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidClientIDError
from jbm_kafka.core.plain_text import recorded_text
from jbm_kafka.core.wrong_values import shown, wrong_type, wrong_value

NAME_LENGTH_MAX = 200
SUBSCRIPTION_ARGUMENT = "subscription=NAME"
"""How a caller of `Admin` names one, for its errors; commands have their own text."""


class SubscriptionKind(Enum):
    """Which consumers may receive from it, and what ends it. Names of groups and the registry contain the value."""

    DURABLE = "durable"
    """One consumer of one client id; `unsubscribe` ends it."""
    SHARED_DURABLE = "shared-durable"
    """Any number of consumers; `unsubscribe` ends it."""
    SHARED = "shared"
    """Any number of consumers; the end of the last one ends it."""
    PRIVATE = "private"
    """One consumer, with which it ends; its name is made up."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """An application's subscription. Kafka and the registry know it by its `group_id`.

    Raises:
        InvalidSettingError: the name cannot be one.
    """

    topic: Topic
    kind: SubscriptionKind
    name: str
    client_id: str = ""
    """Empty: none."""
    no_local: bool = False
    connection_id: str = ""
    """The connection whose own sends a PRIVATE one with `no_local` leaves out."""
    selector: str = ""
    """Which messages of its topic it has, in the normal form; empty: every one. The rest counts as never there."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", checked_subscription_name(self.name))

    @property
    def is_durable(self) -> bool:
        """It keeps what comes while nobody receives."""
        return self.kind in (SubscriptionKind.DURABLE, SubscriptionKind.SHARED_DURABLE)

    @property
    def is_shared(self) -> bool:
        """It may have several consumers."""
        return self.kind in (SubscriptionKind.SHARED, SubscriptionKind.SHARED_DURABLE)

    @property
    def full_name(self) -> str:
        """`<client id>/<name>`, or the name alone; as in metrics and in the properties of a dead letter.

        No other has it: in the client id, or in a name alone, `/` and `%` are `%2F` and `%25`.
        """
        first = (self.client_id or self.name).replace("%", "%25").replace("/", "%2F")
        return f"{first}/{self.name}" if self.client_id else first

    @property
    def former_name(self) -> str:
        """The full name as earlier versions wrote it, where `a/b` with `c` and `a` with `b/c` have the same."""
        return f"{self.client_id}/{self.name}" if self.client_id else self.name

    def is_meant(self, address: bytes) -> bool:
        """Return True if a message that one subscription of its topic has is this one's.

        The address is a `group_id` without a namespace. Earlier versions wrote the former name, which says no kind.
        """
        return address in (self.group_id().encode(), self.former_name.encode())

    @property
    def choice(self) -> tuple[Topic, bool, str]:
        """Which messages it has; with another choice it is another subscription (TOPIC-2)."""
        return self.topic, self.no_local, self.selector

    @property
    def choice_text(self) -> str:
        """The same for people: `topic prices with no_local`."""
        parts = ["no_local"] if self.no_local else []
        if self.selector:
            parts.append(f"the selector {shown(self.selector)}")
        return f"{self.topic} with {' and '.join(parts)}" if parts else str(self.topic)

    def __str__(self) -> str:
        return f"{self.topic} subscription {self.full_name!r}"

    def group_id(self, namespace: str = "") -> str:
        """The Kafka consumer group whose lag is what the subscription holds.

        Of a temporary topic Kafka knows none: there each topic's are its own, whatever they are called elsewhere.
        """
        parts = [self.kind.value, percent_encode(self.client_id), percent_encode(self.name)]
        if self.topic.is_temporary:
            parts.append(percent_encode(self.topic.name))
        return with_namespace("jbm." + ".".join(parts), namespace)

    def leaves_out(self, sender: bytes) -> bool:
        """Return True if `no_local` leaves out a message of this sender, `<client id>/<connection id>`."""
        client_id, _, connection_id = sender.rpartition(b"/")
        if self.client_id and client_id == self.client_id.encode():
            return True
        return bool(self.connection_id) and connection_id == self.connection_id.encode()


def checked_subscription_name(name: object) -> str:
    """The name.

    Raises:
        InvalidSettingError: it cannot be a subscription's; InvalidTypeError: it is no text.
    """
    rule = f"a subscription's name is a str of 1 to {NAME_LENGTH_MAX} characters"
    if not isinstance(name, str):
        raise wrong_type("name", name, rule)
    if not 0 < len(name) <= NAME_LENGTH_MAX:
        raise wrong_value("name", name, rule)
    return recorded_text("name", name)


Source = Queue | Subscription
"""A source that a consumer receives from."""


def destination_of(source: Source) -> Queue | Topic:
    """The queue, or the subscription's topic."""
    return source.topic if isinstance(source, Subscription) else source


def checked_client_id(client_id: object) -> str:
    """The client id, if it can be one.

    Raises:
        InvalidClientIDError: it cannot.
    """
    if not isinstance(client_id, str):
        raise InvalidClientIDError(
            f"client_id is {shown(client_id)}: it is a str such as 'billing'", client_id=client_id
        )
    if not 0 < len(client_id) <= NAME_LENGTH_MAX:
        has = f"has {len(client_id)} characters" if client_id else "is ''"
        raise InvalidClientIDError(f"client_id {has}: it has 1 to {NAME_LENGTH_MAX} characters", client_id=client_id)
    return recorded_text("client_id", client_id, InvalidClientIDError)


def client_id_needed(name: str) -> IllegalStateError:
    """The error for an unshared durable subscription without a client id."""
    return IllegalStateError(
        f"durable subscription {name!r}: the connection has no client_id, by which the subscription is known; give it "
        f"to ConnectionFactory(client_id=…), or use create_shared_durable_consumer, which needs none",
        name=name,
    )
