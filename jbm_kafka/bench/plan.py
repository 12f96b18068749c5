"""How much each shape of the benchmark sends and receives."""

from __future__ import annotations

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
    latency_warm_up: int = 1_000
    """The first so many are sent and received, but not counted."""
    sends: int = 3_000
    """Messages sent one by one, each waited for."""
    sends_beside_flood: int = 200
    sends_with_callback: int = 60_000
    forward_commits: int = 400
    """Commits of one session that receives and sends, of 1 and of 100 messages."""
    held_behind: int = 100_000
    """Messages of the held unit behind its delayed head."""
    held_others: int = 400_000
    """Messages of other units whose throughput is measured: more than a sidecar reads ahead."""
    held_delay_ms: int = 60_000
    quiet_patience_s: float = 30.0
    """How long to wait, before each client of a shape, for the machine to have nothing else to do; see QuietMachine."""

    @property
    def turns(self) -> range:
        """The numbers of all repeats; those below zero warm up."""
        return range(-self.warm_ups, self.repeats)

    def turn_name(self, number: int) -> str:
        """What a repeat is called."""
        return f"{number + 1}/{self.repeats}" if number >= 0 else "warm-up"


QUICK = Plan(
    repeats=2, backlog_messages=50_000, warm_ups=0, latency_s=1.0, latency_warm_up=500,
    sends=500, sends_beside_flood=50, sends_with_callback=10_000, forward_commits=60,
    held_behind=20_000, held_others=100_000,
)  # fmt: skip
"""A look in under a minute; its ratios say little, for every receiver needs a while to get going."""
