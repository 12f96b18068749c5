"""Which topics end in dead letters: found by their last records, so that hundreds of queues are looked into quickly."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.admin.dead_letters.letters import letter_of
from jbm_kafka.ports import KafkaAdmin, LogReader

TAIL = 8
"""Offsets read at the end of each partition: a letter is written by a transaction, whose end is a record as well."""
READ_TIMEOUT_S = 5.0


def queues_that_end_in_letters(topics: Sequence[str], *, admin: KafkaAdmin, reader: LogReader) -> list[str]:
    """Those of the topics in whose last records a dead letter or an expired message is; it may be settled since.

    Raises:
        KafkaClientError: no answer.
    """
    described = admin.describe(topics)
    return [
        topic for topic in topics if topic in described and _ends_so(topic, described[topic].partitions, admin, reader)
    ]


def _ends_so(topic: str, partitions: int, admin: KafkaAdmin, reader: LogReader) -> bool:
    places = list(range(partitions))
    ends = admin.end_positions(topic, places, stable=True)
    begins = admin.begin_positions(topic, places)
    tails = {p: (max(begins[p], ends[p] - TAIL), ends[p]) for p in places if ends[p] > begins[p]}
    return bool(tails) and any(
        letter_of(r).reason is not None for r in reader.read(topic, tails, timeout_s=READ_TIMEOUT_S)
    )
