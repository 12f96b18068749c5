"""The topics of a simulated installation, and the groups of its queues."""

from __future__ import annotations

from jbm_kafka.core.destination import Queue, Topic

DLQ, EXPIRED, OUT, MOVED = "DLQ", "ExpiryQueue", "out", "elsewhere"
"""Topics that take copies and sends."""
NEWS = "news"
"""The topic with subscriptions."""
AHEAD_HEADER = "senders-clock-ahead-ms"
REGISTRY = "jbm.registry"
COMMANDS = "jbm.commands"
BRANCHES = "jbm.branches"


def group_of(queue: str) -> str:
    """The consumer group of a queue."""
    return Queue(queue).group_id("")


def changelog_of(queue: str) -> str:
    """The changelog topic of a queue."""
    return Queue(queue).changelog_topic("")


def changelog_of_topic(topic: str) -> str:
    """The changelog topic of all subscriptions of a topic."""
    return Topic(topic).changelog_topic("")


COLOURS = ("red", "blue", "green")
SELECTORS = {
    None: frozenset(COLOURS),
    "JMSType = 'red'": frozenset({"red"}),
    "JMSType <> 'red'": frozenset({"blue", "green"}),
    "JMSType IN ('blue', 'red')": frozenset({"blue", "red"}),
}
"""What each chooses, by its own few words."""


def number_of(name: str) -> int:
    """Which message it is, by its name."""
    return int(name.removeprefix("poison").removeprefix("m"))


def colour_of(number: int) -> str:
    """The JMSType of the n-th message."""
    return COLOURS[number * 7 % 11 % 3]
