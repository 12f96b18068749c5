"""Messages that were asked about and that a transaction hides: they are read where they lie in the log."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.admin.explain.held_units import HeldMessageRow, row_of
from jbm_kafka.ports import Kafka

RECORDS_MAX = 20_000
"""Records looked at, of each partition."""
READ_TIMEOUT_S = 10.0


def first_unread(
    kafka: Kafka,
    topic: str,
    partition: int,
    begin: int,
    end: int,
    is_requested: Callable[[HeldMessageRow], bool],
    now_ms: int,
) -> HeldMessageRow | None:
    """The first requested message from the offset `begin` on, and how many are behind it; `end`: of the log."""
    reader = kafka.log_reader()
    try:
        ranges = {partition: (begin, min(end, begin + RECORDS_MAX))}
        records = reader.read(topic, ranges, timeout_s=READ_TIMEOUT_S, committed_only=False)
        rows = [row for record in records if is_requested(row := row_of(record, None, now_ms))]
    finally:
        reader.close()
    if not rows:
        return None
    rows[0].behind = len(rows) - 1
    return rows[0]
