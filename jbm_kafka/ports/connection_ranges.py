"""How small and how large the numbers of a connection factory may be."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS

_DAY_MS = 86_400_000


class Range(NamedTuple):
    """A whole number from `least` to `most`."""

    least: int
    most: int
    unit: str


RANGES: Mapping[str, Range] = MappingProxyType(
    {
        "session_timeout_ms": Range(100, 3_600_000, "milliseconds"),
        "revoke_drain_ms": Range(0, 3_600_000, "milliseconds"),
        "membership_idle_ms": Range(100, _DAY_MS, "milliseconds"),
        "receiver_idle_ms": Range(100, _DAY_MS, "milliseconds"),
        "checkpoint_interval_ms": Range(1, 60_000, "milliseconds"),
        "record_timeout_ms": Range(RECORD_TIMEOUT_MS, 120_000, "milliseconds"),
        "commit_timeout_ms": Range(5_000, 600_000, "milliseconds"),
        "memory_budget_bytes": Range(2**24, 2**40, "bytes"),
        "prefetch": Range(1, 1_000_000, "messages"),
        "store_bytes_max": Range(2**20, 2**50, "bytes"),
        "store_age_max_ms": Range(0, 2**42, "milliseconds"),
    }
)
"""Ranges by the name of the argument."""
