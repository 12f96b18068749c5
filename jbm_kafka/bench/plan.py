"""How much each shape of the benchmark sends and receives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Plan:
    """The sizes of one run. The defaults are those that the targets are for."""

    repeats: int = 5
    warm_ups: int = 2
    """Repeats of each shape before those that count: a fresh broker compiles itself while it is measured."""
    partitions: int = 8
    units: int = 1_000
    body_bytes: int = 100
    backlog_messages: int = 200_000
    latency_rates: tuple[int, ...] = (1_000, 5_000)
    """Messages a second."""
    latency_s: float = 5.0
    """How long each rate is kept up, after the warm-up."""
    latency_warm_up_s: float = 2.0
    """What is sent in the first seconds is received, and not counted: with a new topic brokers and Kafka's own consumer
    take half a second to get going, which says nothing of a steady rate."""
    sends: int = 3_000
    """Messages sent one by one, each waited for."""
    sends_beside_flood: int = 200
    sends_with_callback: int = 60_000
    forward_commits: int = 400
    """Commits of one session that receives and sends, of 1 and of 100 messages."""
    bridged: int = 100_000
    """Messages that a bridge takes on, and sends into a store."""
    handled: int = 40_000
    """Messages that handlers work on."""
    held_behind: int = 100_000
    """Messages of the held unit behind its delayed head."""
    held_others: int = 400_000
    """Messages of other units whose throughput is measured: more than a sidecar reads ahead."""
    held_delay_ms: int = 60_000
    subscriptions: tuple[int, ...] = (1, 10, 100)
    """How many subscriptions of one topic a process has."""
    subscribed_copies: int = 50_000
    """Messages times subscriptions, in each of them."""
    waiting_delayed: int = 1_000_000
    waiting_delayed_units: int = 1_000_000
    """Delayed messages, each of a unit of its own."""
    waiting_blocked: int = 200_000
    """Behind the first of each of `units`."""
    waiting_unchosen: int = 1_000_000
    waiting_returned: int = 1_000_000
    """They came back once and wait for a delay, each of a unit of its own."""
    waiting_kinds: tuple[str, ...] = ("delayed", "delayed units", "blocked", "unchosen", "returned")
    """Each alone, and when there are several all of them on queues of their own."""
    waiting_others: int = 200_000
    """Messages of other units whose throughput is measured beside what waits."""
    quiet_patience_s: float = 30.0
    """How long to wait, before each client of a shape, for the machine to have nothing else to do; see QuietMachine."""

    @property
    def turns(self) -> range:
        """The numbers of all repeats; those below zero warm up."""
        return range(-self.warm_ups, self.repeats)

    @property
    def waiting_messages(self) -> Mapping[str, int]:
        """How many wait, by why."""
        return {
            "delayed": self.waiting_delayed,
            "delayed units": self.waiting_delayed_units,
            "blocked": self.waiting_blocked,
            "unchosen": self.waiting_unchosen,
            "returned": self.waiting_returned,
        }

    def turn_name(self, number: int) -> str:
        """Return what a repeat is called."""
        return f"{number + 1}/{self.repeats}" if number >= 0 else "warm-up"


QUICK = Plan(
    repeats=2, backlog_messages=50_000, warm_ups=0, latency_s=1.0, latency_warm_up_s=0.5,
    sends=500, sends_beside_flood=50, sends_with_callback=10_000, forward_commits=60, bridged=20_000, handled=10_000,
    held_behind=20_000, held_others=100_000, subscriptions=(1, 10), subscribed_copies=10_000,
    waiting_delayed=50_000, waiting_delayed_units=50_000, waiting_blocked=20_000, waiting_unchosen=50_000,
    waiting_returned=20_000, waiting_others=50_000,
)  # fmt: skip
"""A look in under a minute; its ratios say little, for every receiver needs a while to get going."""
