"""Names that a sidecar's or a provisioning file had before there was one file: they go on working, and one line says
the new ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jbm_kafka.core.jms_errors import InvalidSettingError

_TABLES: Mapping[str, tuple[str, ...]] = {
    "amqp": (
        *("listeners", "limits", "forwarding", "drain_s", "verify_user_id", "counts_released", "plain_without_tls"),
        *("metrics_port", "backlog_metrics", "admin_port"),
    ),
    "connection": (
        *("state_dir", "memory_budget_bytes", "auto_create", "persist_delivery_count_before_delivery"),
        *("session_timeout_ms", "revoke_drain_ms", "checkpoint_interval_ms", "record_timeout_ms", "commit_timeout_ms"),
        "large_body_bytes",
    ),
    "destinations": (
        *("queues", "topics", "letters", "roles", "partitions", "events_partitions", "max_message_bytes"),
        *("replication", "min_isr"),
    ),
}
TABLE_OF: Mapping[str, str] = {name: table for table, names in _TABLES.items() for name in names}
"""The table in which each old name stands now."""


def with_new_names(content: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """Returns the content with each old name in its table, and the old names that it had.

    Raises:
        InvalidSettingError: a value is given by both names.
    """
    renamed = {name: value for name, value in content.items() if name not in TABLE_OF}
    old = [name for name in content if name in TABLE_OF]
    for name in old:
        table = renamed.get(TABLE_OF[name], {})
        if not isinstance(table, Mapping):
            continue  # which is told as such
        if name in table:
            raise InvalidSettingError(f"{where}, {name}: [{TABLE_OF[name]}] has it, too; leave {name} out above")
        renamed[TABLE_OF[name]] = {**table, name: content[name]}
    return renamed, old


def renaming(old: list[str], where: str) -> str:
    """Returns the line that says the new names."""
    tables: dict[str, list[str]] = {}
    for name in old:
        tables.setdefault(TABLE_OF[name], []).append(name)
    places = "; ".join(f"below [{table}] stand {', '.join(names)}" for table, names in tables.items())
    return f"{where}: written as earlier versions had it, and read as such; now {places}"
