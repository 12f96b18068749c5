"""What a sidecar finds in its process and gives to its parts: Kafka, a clock, threads, chance and its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jbm_kafka.ports import Kafka, KafkaAdmin
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.steps import Workers
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The same for every part of one sidecar."""

    kafka: Kafka
    admin: KafkaAdmin
    """One client for all who ask the cluster."""
    clock: SlewedClock
    config: SidecarConfig
    workers: Workers
    chance: Callable[[], float]
    """From 0 to 1."""
