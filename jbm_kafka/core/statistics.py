"""The counts of a connection, at one moment: values that nobody changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import ClassVar, Self

BOUNDS_S = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3_600.0, 86_400.0),
)


@dataclass(frozen=True, slots=True)
class Histogram:
    """How often something took how long."""

    bounds_s: ClassVar[tuple[float, ...]] = BOUNDS_S
    """Upper bounds of the counts, in seconds; the last count is of what took longer than each."""
    counts: tuple[int, ...] = (0,) * (len(BOUNDS_S) + 1)
    """How many took so long, each in one count only."""
    sum_s: float = 0.0
    """Seconds of all together."""

    @property
    def count(self) -> int:
        """How many were measured."""
        return sum(self.counts)

    def __add__(self, other: Histogram) -> Histogram:
        both = zip(self.counts, other.counts, strict=True)
        return Histogram(tuple(mine + theirs for mine, theirs in both), self.sum_s + other.sum_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationStatistics:
    """One queue, or one subscription of a topic. All temporary destinations are one, called `jbm.temporary`.

    Counts only grow while the process runs. Levels are of the moment, of the partitions that this process owns.
    """

    destination: str
    """The name of the queue or topic."""
    subscription: str = ""
    """`<client id>/<name>` or the name, in the first of them `/` as `%2F` and `%` as `%25`.

    Empty: a queue's, or of the topic's unnamed subscriptions together.
    """
    sent: int = 0
    """Count: messages that this connection gave to Kafka, those of transactions with their commit."""
    handed_over: int = 0
    """Count: messages that receivers were given; what comes back and goes out again counts again."""
    acknowledged: int = 0
    """Count: messages that were settled by their receivers."""
    returned: int = 0
    """Count: messages that came back after an application had them."""
    given_up: int = 0
    """Count: messages that left without success: dead letters, and those that no address took."""
    expired: int = 0
    """Count: messages that left because their time was up."""
    held: int = 0
    """Level: messages that are not settled. What is not read yet is estimated by the log's end, and counted too."""
    deliverable: int = 0
    """Level: of the held, those that a receiver could have now, as far as is known without looking at each."""
    delayed: int = 0
    """Level: of the held, those that wait for a time."""
    blocked: int = 0
    """Level: of the held, those that wait for an earlier one of their unit, a selector, or an operator."""
    unacknowledged: int = 0
    """Level: of the held, those that receivers have."""
    oldest_held_s: float = 0.0
    """Level: seconds since the oldest of the held came into the queue; 0 where nothing is held.

    The following are so of the oldest of some of them, as far as it stands in memory.
    """
    oldest_deliverable_s: float = 0.0
    """Level: of those that a receiver could have now."""
    oldest_delayed_s: float = 0.0
    """Level: of those that wait for a time."""
    oldest_blocked_s: float = 0.0
    """Level: of those that wait for an earlier one of their unit, a selector, or an operator."""
    oldest_in_hand_s: float = 0.0
    """Level: of those that receivers have."""
    log_records: int = 0
    """Level: records of its log, when what is settled was deleted last; 0 where nothing is deleted."""
    log_deletable: int = 0
    """Level: of them, those that nobody needs, and that could not be deleted."""
    log_for_receivers: int = 0
    """Level: of them, those from the oldest on that a queue or subscription has not settled, if nobody needs more."""
    log_for_branches: int = 0
    """Level: the same of those that a prepared branch of a transaction has."""
    log_for_readers: int = 0
    """Level: the same of registered readers, and of the originals of dead letters that went without their bodies."""
    log_for_groups: int = 0
    """Level: the same of consumer groups of other programs."""
    handler_seconds: Histogram = field(default_factory=Histogram)
    """How long handlers and listeners of this connection took for a message."""
    handler_timeouts: int = 0
    """Count: handlers that ran for longer than their `timeout_s`."""
    handlers_overdue: int = 0
    """Level: of them, those that run still."""
    handler_pauses: int = 0
    """Count: pauses of handlers that failed too often in a row (`pause_on`)."""
    handlers_paused: int = 0
    """Level: handlers in such a pause."""
    send_to_acknowledge_seconds: Histogram = field(default_factory=Histogram)
    """From the sending of a message to its acknowledgement; of those acknowledged together the first is measured."""

    def __add__(self, other: DestinationStatistics) -> Self:
        own = [each.name for each in fields(self)[2:]]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in own}
        # The oldest of both is the older one; everything else adds up.
        both = {name: max(pair) if name.startswith("oldest_") else pair[0] + pair[1] for name, pair in pairs.items()}
        return type(self)(destination=self.destination, subscription=self.subscription, **both)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """The counts of a connection, and what its process holds for it.

    Connections of one process to the same cluster, namespace and state folder share all but `sent` and what is told of
    handlers: look at one of them.
    """

    destinations: tuple[DestinationStatistics, ...] = ()
    """The destinations by name, each once."""
    checkpoints: int = 0
    """Count: how often something was recorded."""
    checkpoint_failures: int = 0
    """Count: how often it could not be, and was tried again."""
    reconnects: int = 0
    """Count: connections to brokers that receivers lost."""
    rebalances: int = 0
    """Count: how often partitions came or went."""
    memory_used_bytes: int = 0
    """Level: what messages take that are read and not settled, estimated."""
    memory_budget_bytes: int = 0
    """Level: `memory_budget_bytes` of the ConnectionFactory."""
    checkpoint_seconds: Histogram = field(default_factory=Histogram)
    """How long it took to record something."""
    clients: int = 0
    """Level: AMQP clients that are connected to this sidecar."""
    client_links: int = 0
    """Level: what they send and receive by."""
    clients_refused: int = 0
    """Count: those that were turned away, for there were too many, or the password was wrong."""
    store_waiting: int = 0
    """Level: sends that wait in the store of `store_and_forward`; a transaction is one."""
    store_bytes: int = 0
    """Level: what they take there."""
    store_oldest_seconds: float = 0.0
    """Level: how long the oldest of them waits."""
    store_set_aside: int = 0
    """Level: dead letters of that store."""
    store_full_ratio: float = 0.0
    """Level: how near it is to refusing sends, by its limits or its disk; 1: it does."""

    def of(self, destination: str, subscription: str = "") -> DestinationStatistics:
        """One row; zeros where nothing was counted."""
        for row in self.destinations:
            if (row.destination, row.subscription) == (destination, subscription):
                return row
        return DestinationStatistics(destination=destination, subscription=subscription)


@dataclass(frozen=True, slots=True)
class Health:
    """How a connection and its process fare."""

    is_alive: bool
    """Its threads work. False: only a new process helps."""
    is_ready: bool
    """Messages can be sent and received: Kafka answers, and the partitions that are ours are open."""
    reasons: tuple[str, ...] = ()
    """The faults, a sentence each; empty when there is none."""


def added(statistics: Statistics, rows: Mapping[str, DestinationStatistics]) -> tuple[DestinationStatistics, ...]:
    """The rows of the statistics with these added, by destination."""
    found = {(row.destination, row.subscription): row for row in statistics.destinations}
    for name, row in rows.items():
        before = found.get((name, ""))
        found[name, ""] = row if before is None else before + row
    return tuple(found[key] for key in sorted(found))
