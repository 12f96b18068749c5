"""What kind of weather a seed has: which settings hold, and how often what goes wrong.

Each seed draws its own, so that some runs have no crash at all and others little else: a fault that is always there
hides what only its absence shows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from enum import Enum

from tests.simulation.names import NEWS


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings, and the weight of each act; 0: it never happens."""

    queues: tuple[tuple[str, int], ...]
    """(name, partitions)."""
    topics: tuple[tuple[str, int], ...]
    """The same."""
    selects: bool
    """Receivers have selectors, whatever else is drawn."""
    keeps: bool
    """What is out of attempts stays for an operator."""
    machines: int
    units: int
    max_attempts: int
    redelivery_delay_ms: int
    has_dead_letter_address: bool
    persists_attempts: bool
    offered_limits: tuple[int, int]
    checkpoint_interval_ms: int
    memory_budget_bytes: int
    prefetch: int
    poison: float
    """Share of messages that no receiver ever acknowledges."""
    alone: float
    """Share of messages without a unit."""
    delayed: float
    """Share of messages with a time before which they may not be delivered."""
    marks_ms: tuple[int, ...]
    """How long after its end a transaction's marks are written; one of them each time."""
    weights: dict[str, float]


class Plan(Enum):
    """What is played beside queues."""

    QUEUES = "queues"
    """Nothing."""
    TOPICS = "topics"
    """Subscriptions of a topic."""
    SELECTORS = "selectors"
    """Consumers with selectors, which come and go."""
    PAUSES = "pauses"
    """Administrators pause and resume."""
    HOLDS = "holds"
    """What is out of attempts stays for an administrator."""
    SHELF = "shelf"
    """Messages wait for their times and for selectors, more than memory has room for."""
    LEASES = "leases"
    """Processes that select alike or otherwise, and client ids."""
    MOVES = "moves"
    """Administrators move, remove, expire and give up messages."""
    BRANCHES = "branches"
    """Transaction managers prepare, commit and roll back, and others recover what they left."""
    TOPIC_MOVES = "topic-moves"
    """They do so to what durable subscriptions of a topic have."""


def draw(chance: random.Random, plan: Plan = Plan.QUEUES) -> Profile:
    """The profile of a seed."""
    profile = _draw(chance)
    weights = {**profile.weights, **MORE.get(plan, {})}
    if plan in (Plan.TOPICS, Plan.TOPIC_MOVES):
        topics = ((NEWS, chance.choice((1, 2))),)
        profile = replace(profile, queues=(("orders", 1),), topics=topics, weights=weights)
        return profile if plan is Plan.TOPICS else _of_moves(profile, chance)
    if plan is Plan.SELECTORS:
        return replace(profile, machines=1, selects=True, weights=weights)
    if plan is Plan.SHELF:
        budget, prefetch = chance.choice((8_000, 16_000)), chance.choice((1, 3))
        return replace(
            profile, machines=1, selects=True, memory_budget_bytes=budget, prefetch=prefetch, poison=0.0, units=3,
            alone=0.8, delayed=chance.choice((0.0, 0.3, 0.6)), weights=weights,
        )  # fmt: skip
    if plan is Plan.HOLDS:
        attempts, poison = chance.choice((1, 2, 3)), chance.choice((0.1, 0.3))
        budget = chance.choice((8_000, 16_000, profile.memory_budget_bytes))  # what is kept is shelved, or has room
        return replace(
            profile, keeps=True, has_dead_letter_address=True, max_attempts=attempts, poison=poison,
            memory_budget_bytes=budget, weights=weights,
        )  # fmt: skip
    if plan is Plan.LEASES:
        queues = (("orders", chance.choice((1, 2, 3))),)
        calm = {name: 0.0 for name in ("crash", "freeze", "outlast", "expire", "long_time") if chance.random() < 0.4}
        weights = {**weights, **calm}
        return replace(profile, queues=queues, machines=chance.choice((2, 2, 3)), weights=weights)
    if plan is Plan.BRANCHES:
        machines, units, alone = chance.choice((2, 2, 3)), chance.choice((1, 3)), chance.choice((0.2, 0.6))
        return replace(profile, machines=machines, units=units, alone=alone, weights=weights)
    if plan is Plan.MOVES:
        return _of_moves(replace(profile, weights=weights), chance)
    return replace(profile, weights=weights)


def _of_moves(profile: Profile, chance: random.Random) -> Profile:
    return replace(profile, prefetch=chance.choice((3, 8, 20)), poison=0.0, units=chance.choice((1, 2)))


MORE: dict[Plan, dict[str, float]] = {
    Plan.TOPICS: {"session": 3.0, "subscribe": 3.0, "unsubscribe": 0.6, "tidy": 2.0},
    Plan.SELECTORS: {"session": 5.0, "settle": 30.0},
    Plan.PAUSES: {"pause": 0.8, "resume": 1.0, "produce": 3.0},
    Plan.HOLDS: {"release": 1.5},
    Plan.BRANCHES: {
        "work": 90.0,
        "receive": 50.0,
        "session": 3.0,
        "settle": 50.0,
        "decide": 3.0,
        "recover": 1.5,
        "outlast": 1.5,
        "leave": 1.5,
        "start": 8.0,
        "send": 9.0,
        "expire": 1.0,
    },
    Plan.SHELF: {"session": 4.0, "start": 6.0, "send": 8.0, "receive": 15.0, "jump": 0.0},
    Plan.LEASES: {
        "session": 9.0,
        "tidy": 6.0,
        "fashion": 1.0,
        "outlast": 0.8,
        "client": 3.0,
        "start": 8.0,
        "send": 10.0,
        "crash": 0.6,
        "freeze": 1.2,
        "expire": 0.6,
        "long_time": 1.0,
    },
    Plan.MOVES: {
        "take_out": 14.0,
        "attend": 6.0,
        "send": 8.0,
        "start": 6.0,
        "settle": 8.0,
        "session": 5.0,
        "refuse": 1.0,
    },
}
"""Further acts."""
MORE[Plan.TOPIC_MOVES] = {**MORE[Plan.MOVES], **MORE[Plan.TOPICS]}


def _draw(chance: random.Random) -> Profile:

    def often(share: float, weight: float) -> float:
        return weight * chance.choice((0.3, 1, 3)) if chance.random() < share else 0.0

    weights = {
        "work": 60.0,
        "receive": 30.0,
        "settle": 20.0,
        "send": 6.0,
        "time": 12.0,
        "session": 2.0,
        "long_time": often(0.6, 0.5),
        "crash": often(0.6, 0.4),
        "start": 2.0,
        "stop": often(0.4, 0.2),
        "expire": often(0.5, 0.4),
        "freeze": often(0.5, 0.4),
        "jump": often(0.3, 0.4),
        "unknown_outcome": often(0.5, 0.5),
        "refuse": often(0.4, 0.4),
        "foreign_transaction": often(0.4, 1.0),
        "compact": often(0.3, 0.3),
    }
    return Profile(
        queues=chance.choice(((("orders", 1),), (("orders", 2),), (("orders", 3),), (("orders", 2), ("bills", 1)))),
        topics=(),
        selects=False,
        keeps=False,
        machines=chance.choice((1, 2, 2, 3)),
        units=chance.choice((1, 3, 6)),
        max_attempts=chance.choice((-1, 2, 3, 3, 5)),
        redelivery_delay_ms=chance.choice((0, 0, 50, 400)),
        has_dead_letter_address=chance.random() < 0.8,
        persists_attempts=chance.random() < 0.25,
        offered_limits=chance.choice(((4, 4), (12, 96), (16, 262_144))),
        checkpoint_interval_ms=chance.choice((10, 50, 500)),
        memory_budget_bytes=chance.choice((1 << 28, 200_000)),
        prefetch=chance.choice((1, 3, 20)),
        poison=chance.choice((0.0, 0.1, 0.3)),
        alone=0.2,
        delayed=0.0,
        marks_ms=chance.choice(((0,), (0, 5, 30), (40, 200))),
        weights=weights,
    )
