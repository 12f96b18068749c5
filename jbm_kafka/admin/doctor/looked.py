"""What the doctor looked at, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from jbm_kafka.admin.cluster.subscription_counts import SubscriptionCounts


class TopicRole(Enum):
    """What a Kafka topic is to us."""

    DESTINATION = "destination"
    CHANGELOG = "changelog"
    REGISTRY = "registry"
    """Compacted, as a changelog."""
    PASSING = "passing"
    """What is told there is old after some time: events, commands."""
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
    """Of who looks."""
    brokers: int = 1
    topics: Sequence[LookedTopic] = ()
    missing: Mapping[str, str] = field(default_factory=dict)
    """By the name of a topic that is not there, what it is."""
    parked: Mapping[str, int | None] = field(default_factory=dict)
    """By consumer group, of those with any; None: not known."""
    changelogs: Mapping[str, str] = field(default_factory=dict)
    """By consumer group the name of its changelog."""
    processes: Sequence[LookedProcess] = ()
    silent: Sequence[str] = ()
    """Processes that did not answer."""
    subscriptions: Sequence[SubscriptionCounts] = ()
    refused: Mapping[tuple[str, str], Sequence[str]] = field(default_factory=dict)
    """By ("topic" or "group", name), what who asks may not do and should: in Kafka's words."""
    role: str = ""
    """What he says that he is."""
