"""The names of large bodies in everything that Kafka keeps: logs, dead letters, parked records, prepared branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from jbm_kafka.codec.branch_records import branches_in, decode_sends
from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.codec.large_body import named_body
from jbm_kafka.core.channel.branch import BranchState
from jbm_kafka.core.channel.entries import Parked
from jbm_kafka.core.destination import CHANGELOG_SUFFIX
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports import KafkaAdmin, KafkaRecord, LogReader

STEP_BYTES = 16 * 2**20
"""About so much of a topic is in memory at a time."""
STEP_FIRST = 100
"""Offsets of each partition in the first step: they may be of 1 MiB each."""
READ_TIMEOUT_S = 30.0
_BRANCHES = "jbm.branches"


def names_in_kafka(admin: KafkaAdmin, reader: LogReader) -> set[str]:
    """The names of all bodies that any record of the cluster names, also of one whose transaction is open.

    Raises:
        KafkaClientError: a topic cannot be read; whatever it names must count as needed.
        CorruptRecordError: what a branch of a transaction sends cannot be read.
    """
    topics = admin.describe(sorted(name for name in admin.topic_names() if not name.startswith("__")))
    names: set[str] = set()
    for topic, found in sorted(topics.items()):
        records = _records(topic, found.partitions, admin, reader)
        if topic.endswith(CHANGELOG_SUFFIX):
            names.update(_parked_names(records))
        elif topic == _BRANCHES or topic.endswith(f".{_BRANCHES}"):
            names.update(_branch_names(records))
        else:
            names.update(_names(record.headers() for record in records))
    return names


def _records(topic: str, partitions: int, admin: KafkaAdmin, reader: LogReader) -> Iterator[KafkaRecord]:
    """All records from the log's begin to its end as it is now, aborted and uncommitted ones too."""
    numbers = range(partitions)
    ends = admin.end_positions(topic, numbers, stable=False)
    positions = dict(admin.begin_positions(topic, numbers))
    step = STEP_FIRST
    while any(positions[each] < ends[each] for each in numbers):
        ranges = {each: (positions[each], min(positions[each] + step, ends[each])) for each in numbers}
        found = reader.read(topic, ranges, timeout_s=READ_TIMEOUT_S, committed_only=False)
        yield from found
        positions = {each: end for each, (_, end) in ranges.items()}
        read_bytes = sum(len(each.value() or b"") for each in found) + 200 * len(found)
        step = max(1, min(step * 4, step * STEP_BYTES // max(read_bytes, 1)))


def _names(headers: Iterable[object]) -> Iterator[str]:
    return (name for each in headers if (name := named_body(each)) is not None)  # type: ignore[arg-type]


def _parked_names(records: Iterable[KafkaRecord]) -> Iterator[str]:
    """Yield the names in records that are not in the log any more, because they held up much of it."""
    for record in records:
        if b"|parked|" in (record.key() or b"") and record.value() is not None:
            _, entry = decode_entry(record.key(), record.value())
            if isinstance(entry, Parked):
                yield from _names([entry.headers])


def _branch_names(records: Iterable[KafkaRecord]) -> Iterator[str]:
    """Yield the names in what branches of transactions will send when they are decided."""
    values: dict[bytes, bytes] = {}
    for record in records:
        key, value = record.key() or b"", record.value()
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
    yield from _names_sent(values)


def _names_sent(values: Mapping[bytes, bytes]) -> Iterator[str]:
    for found in branches_in(values):
        try:
            sends = decode_sends(found.branch, found.record, values)
        except CorruptRecordError:
            if found.record.state is BranchState.PREPARED:
                raise
            continue  # it was carried out, and its records are being deleted
        yield from _names(each.headers for each in sends)
