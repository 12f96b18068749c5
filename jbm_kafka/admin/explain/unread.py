"""Messages that were asked about, and that no look at what is held shows: they are read where they lie in the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from jbm_kafka.admin.explain.explanation import ExplainedMessage, Reason
from jbm_kafka.admin.explain.held_units import HeldMessageRow, row_of
from jbm_kafka.ports import Kafka, KafkaAdmin

RECORDS_MAX = 20_000
"""Records looked at, of each partition."""
READ_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Unseen:
    """Looks for them in one topic."""

    kafka: Kafka
    admin: KafkaAdmin
    topic: str
    wants: Callable[[HeldMessageRow], bool]
    now_ms: int

    def within(
        self,
        ranges: Mapping[int, tuple[int, int]],
        why: Mapping[int, Sequence[Reason]],
        *,
        committed_only: bool,
    ) -> Iterable[ExplainedMessage]:
        """Of each partition the first that is wanted, with the others behind it, and why it is not seen.

        Args:
            ranges: by partition the first offset, and the one behind the last.
        """
        log_begins = self.admin.begin_positions(self.topic, list(ranges)) if ranges else {}
        for partition, (first, end) in ranges.items():
            begin = max(first, log_begins[partition])
            rows = self._rows(partition, begin, min(end, begin + RECORDS_MAX), committed_only=committed_only)
            if rows:
                rows[0].behind = len(rows) - 1
                yield message_of(rows[0], tuple(why[partition]))

    def _rows(self, partition: int, begin: int, end: int, *, committed_only: bool) -> list[HeldMessageRow]:
        if begin >= end:
            return []
        reader = self.kafka.log_reader()
        try:
            records = reader.read(
                self.topic, {partition: (begin, end)}, timeout_s=READ_TIMEOUT_S, committed_only=committed_only
            )
            rows = (row_of(record, None, self.now_ms) for record in records)
            return [row for row in rows if self.wants(row)]
        finally:
            reader.close()


def message_of(row: HeldMessageRow, why: tuple[Reason, ...]) -> ExplainedMessage:
    """The message of a row, with what keeps it."""
    return ExplainedMessage(
        partition=row.partition,
        offset=row.offset,
        message_id=row.message_id,
        unit=row.unit,
        sent_at_ms=row.sent_at_ms,
        attempts=row.attempts,
        behind=row.behind,
        reasons=why,
    )
