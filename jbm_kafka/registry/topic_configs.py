"""How the Kafka topics that we make are configured; docs/topics.md has the table."""

from __future__ import annotations

from collections.abc import Mapping

MARGIN_BYTES = 128 * 1024
"""Room for what we add to a record, above what its source takes (docs/topics.md)."""
DEFAULT_MAX_MESSAGE_BYTES = 1_048_588
"""The broker's default."""

DESTINATION_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
CHANGELOG_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(32 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": str(7 * 24 * 3_600_000),
    "retention.ms": "-1",
}
EVENTS_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(7 * 24 * 3_600_000)}
REGISTRY_CONFIG: Mapping[str, str] = {"cleanup.policy": "compact"}
COMMANDS_CONFIG: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": str(3_600_000)}
TEMPORARY_CONFIG: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "retention.ms": str(3_600_000),
    "segment.ms": str(600_000),
    "segment.bytes": str(32 * 2**20),
}
SYSTEM_PARTITIONS = 16
