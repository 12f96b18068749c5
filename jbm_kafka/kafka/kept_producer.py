"""A producer that a forked child never destroys, for a compiled owner, which `kept_at_fork` cannot refer to."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Producer

from jbm_kafka.ports.kept_at_fork import kept_at_fork


class KeptProducer(Producer):
    """librdkafka's producer. Its own class takes no weak references."""


def kept_producer(settings: dict[str, Any]) -> Producer:
    """A new producer with these settings."""
    return kept_at_fork(KeptProducer(settings))
