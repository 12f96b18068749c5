"""The findings of the doctor, each with its remedy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Ailment(Enum):
    """The kind of a finding, for programs."""

    REPLICATION = "replication"
    """A topic is on fewer brokers than it could be, or not all of them have all of it."""
    MIN_ISR = "min-isr"
    """`min.insync.replicas` is so small that what was confirmed may be lost, or so large that one broker stops all."""
    RETENTION = "retention"
    """Kafka deletes messages, or what we keep of them, by age or size."""
    COMPACTION = "compaction"
    """`cleanup.policy` is another than the topic needs."""
    MAKER = "maker"
    """Who made a topic is not recorded, so that what is settled is not deleted from it."""
    MISSING = "missing"
    """A topic that we keep things in is not there, such as a changelog."""
    PARKED = "parked"
    """Messages whose only copy is a changelog that is missing or on one broker."""
    RIGHTS = "rights"
    """Who asks may not do what he needs for what he says that he is."""
    CLOCK = "clock"
    """The clock of a process is more than a second away from ours."""
    VERSION = "version"
    """A process runs another version than this one."""
    SILENT = "silent"
    """A process that has partitions does not answer."""
    UNUSED = "unused"
    """A subscription that nobody receives from, for which the log is kept."""
    FILES = "files"
    """A process may have fewer files open than it needs."""


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
