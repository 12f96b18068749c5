"""Records of `jbm.registry` about subscriptions, clients, selectors and topics: key `<kind>|<name>`, value Avro."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import CorruptRecordError, InvalidSelectorError, JMSError, NewerRecordError
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.subscription import Subscription, SubscriptionKind

_SUBSCRIPTION = b"subscription|"
TURN = b"turn|"
"""The beginning of the keys of all turns to change the registry."""


@dataclass(frozen=True, slots=True)
class SubscriptionRecord:
    """The record of one subscription; see schemas/Subscription.avsc."""

    subscription: Subscription
    topic_id: str
    incarnation: str
    begins: tuple[int, ...]
    holders: tuple[str, ...] = ()
    created_ms: int = 0
    is_ending: bool = False


@dataclass(frozen=True, slots=True)
class ClientRecord:
    """Which connection has a client id."""

    holder: str
    connection_id: str


def turn_key(number: int) -> bytes:
    """Return the key of a turn to change the registry; its value says nothing."""
    return TURN + b"%013x" % number


def subscription_key(group_id: str) -> bytes:
    """Return the key of the subscription's record."""
    return _SUBSCRIPTION + group_id.encode()


def encode_subscription(record: SubscriptionRecord) -> bytes:
    """The value."""
    subscription = record.subscription
    return codec("Subscription").encode(
        {
            "topic": subscription.topic.name,
            "topic_id": record.topic_id,
            "kind": subscription.kind.value,
            "client_id": subscription.client_id,
            "name": subscription.name,
            "selector": subscription.selector,
            "no_local": subscription.no_local,
            "incarnation": record.incarnation,
            "begins": list(record.begins),
            "holders": list(record.holders),
            "created_ms": record.created_ms,
            "is_ending": record.is_ending,
        }
    )


def decode_subscription(value: bytes) -> SubscriptionRecord:
    """Return what the value says.

    Raises:
        JMSError: only a newer version understands it.
    """
    fields = _decoded("Subscription", value)
    try:
        parse_selector(fields["selector"])
    except InvalidSelectorError as error:
        raise JMSError(
            f"the subscription {fields['name']!r} has a selector that only a newer jbm-kafka understands: {error}"
        ) from None
    subscription = Subscription(
        topic=Topic(fields["topic"]),
        kind=SubscriptionKind(fields["kind"]),
        name=fields["name"],
        client_id=fields["client_id"],
        no_local=fields["no_local"],
        selector=fields["selector"],
    )
    return SubscriptionRecord(
        subscription=subscription,
        topic_id=fields["topic_id"],
        incarnation=fields["incarnation"],
        begins=tuple(fields["begins"]),
        holders=tuple(fields["holders"]),
        created_ms=fields["created_ms"],
        is_ending=fields["is_ending"],
    )


def subscriptions_in(values: Mapping[bytes, bytes]) -> Iterator[tuple[bytes, SubscriptionRecord]]:
    """Every subscription that is recorded and can be read here, with its key."""
    for key, value in values.items():
        if key.startswith(_SUBSCRIPTION):
            try:
                yield key, decode_subscription(value)
            except JMSError:
                continue


def unreadable_subscriptions(values: Mapping[bytes, bytes]) -> list[bytes]:
    """The keys of those that cannot be read here: nobody knows which topic they are of."""
    readable = {key for key, _ in subscriptions_in(values)}
    return [key for key in values if key.startswith(_SUBSCRIPTION) and key not in readable]


def client_key(client_id: str) -> bytes:
    """Return the key of the client id's record."""
    return f"client|{client_id}".encode()


def encode_client(record: ClientRecord) -> bytes:
    """The value."""
    return codec("Client").encode({"holder": record.holder, "connection_id": record.connection_id})


def decode_client(value: bytes) -> ClientRecord:
    """Return what the value says.

    Raises:
        JMSError: only a newer version understands it.
    """
    return ClientRecord(**_decoded("Client", value))


@dataclass(frozen=True, slots=True)
class SelectorSet:
    """Which selectors the consumers of a queue have, and in which processes; see schemas/SelectorSet.avsc."""

    selectors: tuple[str, ...]
    holders: tuple[str, ...]


def selectors_key(name: str) -> bytes:
    """Return the key of the record of a queue's selectors."""
    return f"selectors|{name}".encode()


def encode_selectors(record: SelectorSet) -> bytes:
    """The value."""
    return codec("SelectorSet").encode({"selectors": list(record.selectors), "holders": list(record.holders)})


def decode_selectors(value: bytes) -> SelectorSet:
    """Return what the value says.

    Raises:
        JMSError: only a newer version understands it.
    """
    fields = _decoded("SelectorSet", value)
    return SelectorSet(tuple(fields["selectors"]), tuple(fields["holders"]))


_SIDECAR = b"sidecar|"


def sidecar_key(holder: str) -> bytes:
    """Return the key of the record that says where a standalone sidecar listens."""
    return _SIDECAR + holder.encode()


def encode_address(address: str) -> bytes:
    """The value."""
    return codec("SidecarAddress").encode({"address": address})


def addresses_in(values: Mapping[bytes, bytes]) -> Iterator[tuple[str, str]]:
    """Holder and address of every sidecar whose record can be read here."""
    for key, value in values.items():
        if key.startswith(_SIDECAR):
            try:
                yield key.removeprefix(_SIDECAR).decode(), str(_decoded("SidecarAddress", value)["address"])
            except JMSError:
                continue


def owner_key(group_id: str) -> bytes:
    """Return the key of the record that says whose a durable subscription is; one of its own, for older versions pass
    over it."""
    return f"owner|{group_id}".encode()


def encode_owner(incarnation: str, user: str) -> bytes:
    """The value."""
    return json.dumps({"incarnation": incarnation, "user": user}).encode()


def owner_of(values: Mapping[bytes, bytes], group_id: str, incarnation: str) -> str:
    """The user whose the subscription is; empty: nobody's. What was recorded of an ended one of the name is void.

    A value that is none of ours counts as nobody's, which a command shows and a user's next attach mends.
    """
    value = values.get(owner_key(group_id))
    try:
        found = {} if value is None else json.loads(value)
    except ValueError:
        return ""
    is_this = isinstance(found, dict) and found.get("incarnation") == incarnation
    return str(found.get("user", "")) if is_this else ""


def topic_key(name: str) -> bytes:
    """Return the key of the record that the destination is a topic."""
    return f"topic|{name}".encode()


def maker_key(name: str) -> bytes:
    """Return the key of the record that we made the destination's topic, whose value is as that of a topic's record."""
    return f"maker|{name}".encode()


def adopted_key(name: str) -> bytes:
    """Return the key of the record that others made the destination's topic, whatever its configuration; the value is
    as a maker's."""
    return f"adopted|{name}".encode()


def encode_topic(topic_id: str) -> bytes:
    """The value."""
    return codec("TopicName").encode({"topic_id": topic_id})


def decode_topic(value: bytes) -> str:
    """The Kafka id of the topic that it is about.

    Raises:
        JMSError: only a newer version understands it.
    """
    return str(_decoded("TopicName", value)["topic_id"])


def _decoded(name: str, value: bytes) -> dict[str, Any]:
    try:
        return codec(name).decode(value)
    except (CorruptRecordError, NewerRecordError) as error:
        raise JMSError(
            f"a record of the registry cannot be read: {error}; use the newer jbm-kafka that wrote it"
        ) from None
