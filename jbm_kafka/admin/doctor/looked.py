"""The things that the doctor looked at, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts


class TopicRole(Enum):
    """The role that a Kafka topic has for us."""

    DESTINATION = "destination"
    CHANGELOG = "changelog"
    REGISTRY = "registry"
    """Compacted, as a changelog."""
    PASSING = "passing"
    """News that is old after some time: events, commands."""
    KAFKAS_OWN = "kafkas-own"
    """Kafka keeps our offsets and transactions there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedTopic:
    """A Kafka topic that is there."""

    name: str
    role: TopicRole
    replicas: int = 1
    in_sync: int = 1
    config: Mapping[str, str] | None = None
    """None: who asks may not see it."""
    is_made_by_us: bool = True
    """The registry says so; of what is ours alone it need not."""
    is_as_we_make: bool = False
    """A destination with the configuration that we give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedProcess:
    """A process that receives, by its own answer."""

    name: str
    version: str
    """Empty: it does not say, as older ones."""
    ahead_ms: int = 0
    """Its clock is at least so much ahead of ours; below zero behind. 0: perhaps not at all."""
    files_max: int = -1
    """So many files it may have open; below 0: any number, or it does not say."""
    sources: int = 0
    """Queues and subscriptions that it receives from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """All of it."""

    version: str
    """The version of the program that looks."""
    brokers: int = 1
    topics: Sequence[LookedTopic] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """The role of a topic that is not there, by name."""
    parked: Mapping[str, int | None] = field(default_factory=dict)
    """The number of parked messages by consumer group, where there are any; None: not known."""
    changelogs: Mapping[str, str] = field(default_factory=dict)
    """The name of the changelog by consumer group."""
    processes: Sequence[LookedProcess] = ()
    silent: Sequence[str] = ()
    """Processes that did not answer."""
    subscriptions: Sequence[SubscriptionCounts] = ()
    refused: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """The operations that the caller lacks and should have, in Kafka's words, by ("topic" or "group", name)."""
    role: str = ""
    """The role that the caller claims."""
