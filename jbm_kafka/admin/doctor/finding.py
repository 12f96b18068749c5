"""The findings of the doctor, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Ailment(Enum):
    """The kind of a finding, for programs."""

    REPLICATION = "replication"
    """A topic, Kafka's own two as well, is on fewer than three brokers where there are three, or some of its replicas
    lag behind: what is on one broker goes with it."""
    MIN_ISR = "min-isr"
    """`min.insync.replicas` is 1 where there are three replicas, so that what one broker has confirmed is lost with it;
    or as large as their number, so that nothing can be written while one broker is away."""
    RETENTION = "retention"
    """The topic of a queue or topic has `retention.ms` or `retention.bytes`: Kafka deletes messages unread."""
    COMPACTION = "compaction"
    """The topic of a queue or topic is compacted, so that of a unit only the last message stays; or a changelog or the
    registry is not, so that what is recorded goes by age."""
    MAKER = "maker"
    """It is not recorded that jbm-kafka made the topic, so what is settled is not deleted by itself
    (docs/topics.md#what-is-settled-can-be-deleted). A setting `truncate` says what you want, and ends the finding."""
    MISSING = "missing"
    """A changelog or the registry is not there, which alone has attempts, delays and what was parked; or, where
    somebody receives, the topic of events or of commands."""
    PARKED = "parked"
    """Messages are parked, and the changelog with their only copy is missing or on one broker of several."""
    RIGHTS = "rights"
    """Who asks may not do what he should (docs/doctor.md#rights)."""
    CLOCK = "clock"
    """The clock of a process that receives is a second or more from that of the machine where you ask: delays and
    expiry go by clocks."""
    VERSION = "version"
    """A process runs another version than the command, or an older one, which does not say its version."""
    SILENT = "silent"
    """A process has partitions, does not answer (`--timeout`), and has them still then: it hangs, is frozen, or may not
    use `jbm.commands`."""
    UNUSED = "unused"
    """Nobody receives from a durable subscription, and messages are kept for it: the log grows until somebody does."""
    FILES = "files"
    """A process may have fewer files open than its queues need, some 12 each: connections fail when none are left."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be."""

    kind: Ailment
    """For programs."""
    about: tuple[str, ...]
    """The topics, groups or processes of which it is so."""
    text: str
    """For people, on one line."""
    remedy: str
    """The remedy, on one line; NAME stands for each of those that it is about."""


@dataclass(frozen=True, slots=True)
class Checkup:
    """The things that the doctor looked at, and the findings."""

    findings: tuple[Finding, ...]
    """Empty: everything is as it should be."""
    brokers: int
    """The number of the cluster's brokers that are there now."""
    topics: int
    """The number of Kafka's topics that belong to the namespace."""
    members: tuple[str, ...]
    """Processes that receive and answered."""
    parked: Mapping[str, int | None]
    """By consumer group how many messages stand in its changelog alone; those without any are left out, and `None`
    means that it could not be read."""

    @property
    def is_healthy(self) -> bool:
        """Nothing was found."""
        return not self.findings
