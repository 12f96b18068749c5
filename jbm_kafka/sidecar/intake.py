"""From fetched records to references: the hottest loop of the sidecar's intake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

from jbm_kafka.codec.scan import DECIDING_HEADERS, scan
from jbm_kafka.core.reference import DEFAULT_PRIORITY, Reference
from jbm_kafka.ports import KafkaRecord


def references_by_partition(records: Sequence[KafkaRecord]) -> Mapping[int, tuple[list[Reference], int]]:
    """References and the rough size of a body by partition, in the order fetched. An empty key is no unit."""
    rows: dict[int, list[Reference]] = {}
    make, deciding = tuple.__new__, DECIDING_HEADERS  # a third of the cost of calling the named tuple
    current: int | None = None
    append: Callable[[Reference], None]
    for record in records:
        headers = record.headers()
        values = (record.offset(), record.key() or None, DEFAULT_PRIORITY, 0, 0, record)
        for header in headers or ():  # `scan`, spelled out: its call would be felt here
            if header[0] in deciding:
                priority, expiration_ms, delivery_time_ms, _ = scan(headers)
                values = (*values[:2], priority, expiration_ms, delivery_time_ms, record)
                break
        partition = record.partition()
        if partition != current:  # records come in runs
            assert partition is not None
            current, append = partition, rows.setdefault(partition, []).append
        append(make(Reference, values))
    return {partition: (references, _mean_body_bytes(references)) for partition, references in rows.items()}


def reference_of(record: KafkaRecord) -> Reference:
    """One reference, for records that come back from the held store."""
    scanned = scan(record.headers())
    return Reference(cast(int, record.offset()), record.key() or None, scanned[0], scanned[1], scanned[2], record)


def _mean_body_bytes(references: Sequence[Reference]) -> int:
    # The first tells for all: bodies of one batch are alike, and looking at each costs as much as the rest here.
    value = cast(KafkaRecord, references[0].record).value()
    return 0 if value is None else len(value)
