"""The topics of a simulated installation, and the groups of its queues."""

from __future__ import annotations

from jbm_kafka.core.destination import Queue

DLQ, EXPIRED, OUT = "DLQ", "ExpiryQueue", "out"
"""Topics that take copies and sends."""


def group_of(queue: str) -> str:
    """The consumer group of a queue."""
    return Queue(queue).group_id("")


def changelog_of(queue: str) -> str:
    """The changelog topic of a queue."""
    return Queue(queue).changelog_topic("")
