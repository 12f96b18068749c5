"""The ids of messages of which only the offsets are known, read from their log again (decision 50)."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import closing

from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.ports import Kafka, Unreachable

TRY_S = 5.0
CLOSING_TRY_S = 1.0
SPAN = 1_000
"""Records read at once: what lies between messages that are asked for is read with them, and kept in memory."""


def ids_in_log(
    kafka: Kafka,
    topic: str,
    partition: int,
    offsets: Collection[int],
    *,
    timeout_s: float,
    is_closing: Callable[[], bool] = lambda: False,
) -> Mapping[int, str]:
    """The id of each, by offset; what is not in the log any more is missing.

    From when it `is_closing` a broker that does not answer is not waited for.

    Raises:
        KafkaClientError: they cannot be read in time.
    """
    deadline_s = time.monotonic() + timeout_s
    wanted, found = sorted(set(offsets)), dict[int, str]()
    begin = 0
    with closing(kafka.log_reader()) as reader:
        while begin < len(wanted):
            end = begin
            while end < len(wanted) and wanted[end] < wanted[begin] + SPAN:
                end += 1
            try_s = min(CLOSING_TRY_S if is_closing() else TRY_S, deadline_s - time.monotonic())
            try:
                records = reader.read(
                    topic, {partition: (wanted[begin], wanted[end - 1] + 1)}, timeout_s=max(try_s, 0.1)
                )
            except Unreachable:
                if is_closing() or time.monotonic() >= deadline_s:
                    raise
                continue
            for record in records:
                offset = record.offset() or 0
                found[offset] = message_id_of(record.headers(), topic, partition, offset)
            begin = end
    return {offset: found[offset] for offset in wanted if offset in found}
