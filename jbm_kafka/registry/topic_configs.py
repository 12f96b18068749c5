"""How the Kafka topics that we make are configured; docs/topics.md has the table."""

from __future__ import annotations

from collections.abc import Mapping

MARGIN_BYTES = 128 * 1024
"""Room for what we add to a record, above what its source takes (docs/topics.md)."""
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""The broker's default."""

KEPT_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
"""The configuration by which a destination's topic is told to be one that we made, whichever version did."""
DESTINATION_CONFIG: Mapping[str, str] = {**KEPT_CONFIG, "segment.bytes": str(16 * 2**20)}
"""Only closed segments are freed."""
CHANGELOG_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(7 * 24 * 3_600_000),
    "retention.ms": "-1",
}
"""A new owner without local state reads all of it, and only closed segments are compacted."""
EVENTS_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3_600_000)}
REGISTRY_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(2**20),
    "min.cleanable.dirty.ratio": "0.1",
}
"""Every start reads all of it."""
LEDGER_CONFIG: Mapping[str, str] = {**REGISTRY_CONFIG, "segment.bytes": str(4 * 2**20)}
"""Compacted early, for all that is there is read where an offset is missing."""
COMMANDS_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(3_600_000)}
TEMPORARY_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(3_600_000),
    "segment.ms": str(600_000),
    "segment.bytes": str(32 * 2**20),
}
SYSTEM_PARTITIONS = 16
