"""Keeps a table of the hours of queues: how much was sent and ended, how fast, and what an audit finds.

    jbm-spark quality 'orders.*' --to /data/quality [--archive /data/orders]

Nothing is received. Each run tells the latest hours anew, from the messages and events alone (decision 126).
"""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_spark.call_sites import without_call_sites
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.quality.quality_hours import (
    EVENTS_KEPT_MS,
    EVERYTHING,
    HOUR_MS,
    KnownTopic,
    TopicsRead,
    Window,
    first_whole_hour,
    window_of,
)
from jbm_spark.jobs.quality.quality_result import MeasuredQueues
from jbm_spark.topic_check import TIMEOUT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jbm_kafka.ports import KafkaAdmin
    from jbm_kafka.registry.channel_group import ChannelGroup
    from jbm_spark.archiving.quality_table import QualityTable
    from jbm_spark.jobs.audit.audit_inputs import AuditSource
    from jbm_spark.reader_registration import ReaderRegistration

LATE_S = 24 * 3_600


@without_call_sites()
def run(
    spark: "SparkSession",
    queues: str,
    folder: str | os.PathLike[str],
    *,
    bootstrap: str,
    archive: str | None = None,
    late_s: float = LATE_S,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> MeasuredQueues:
    """Tell the latest hours of all queues whose names are as the pattern, such as `orders.*`, in the table of a folder.

    Args:
        archive: the folder of `jbm-spark archive` that has them. Without one what was sent lately is kept in Kafka.
        late_s: the hours of so many seconds before now are told anew, for what came late; an hour to six days.

    Raises:
        InvalidSettingError: it is no pattern.
        SparkJobError: no queue has such a name; the folder, or the archive, is not of these; Spark failed.
        JMSError: the brokers do not answer, or refuse us.
    """
    from jbm_spark.archiving.quality_table import quality_table, table_path
    from jbm_spark.call_checks import check_session
    from jbm_spark.jobs.audit.archived import check_archive_of
    from jbm_spark.jobs.audit.audit_inputs import AuditSource
    from jbm_spark.queue_pattern import queues_named
    from jbm_spark.reader_registration import ReaderRegistration

    check_session(spark)
    pattern, late_ms = checked_pattern(queues), int(late_s * 1_000)
    if not HOUR_MS <= late_ms <= EVENTS_KEPT_MS:
        raise SparkJobError(f"late_s={late_s:g}: what comes late is waited for from 1 hour to 6 days (--late 24h)")
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"measure {pattern}"):
        groups = {queue.name: core.group(queue) for queue in queues_named(core.catalog, pattern)}
        for group in groups.values() if archive is not None else ():
            check_archive_of(archive or "", group.destination)
        source = AuditSource(
            spark=spark, admin=core.admin, bootstrap=bootstrap, namespace=namespace, since_ms=0, archive=archive,
            kafka=kafka, options=options,
        )  # fmt: skip
        keeping = ReaderRegistration(bootstrap=bootstrap, namespace=namespace, kafka=kafka) if archive is None else None
        with (
            keeping or nullcontext(),
            quality_table(
                table_path(folder), cluster_id=core.admin.cluster_id(), namespace=namespace, pattern=pattern
            ) as table,
        ):
            now_ms = time.time_ns() // 1_000_000
            keep = _Keeping(keeping, core.admin, f"quality-{table.table_id[:12]}")
            before = table.oldest_open()
            windows = {name: window_of(before.get(_destination(group), {}), now_ms, late_ms)
                       for name, group in groups.items()}  # fmt: skip
            keep.from_now_on([group for name, group in groups.items() if windows[name] == EVERYTHING], {})
            topics = _topics_before(table, [*groups.values()], archive)
            rows: list[dict[str, Any]] = []
            told: dict[str, int] = {}
            failures: dict[str, str] = {}
            # A new queue is read from its beginning, and the others not with it.
            for is_new in (False, True):
                part = [group for name, group in groups.items() if (windows[name] == EVERYTHING) is is_new]
                _measure(source, part, windows, topics, now_ms, rows, told, failures)
            table.note_topics(topics.found)
            table.write(rows, now_ms)
            after = table.oldest_open()
            since = {group.topic: window_of(after.get(_destination(group), {}), now_ms, late_ms).sent_since_ms
                     for group in groups.values()}  # fmt: skip
            keep.from_now_on([*groups.values()], since)
    return MeasuredQueues(pattern=pattern, failures=failures, folder=os.fspath(folder), queues=told)


def _measure(
    source: "AuditSource", groups: "Sequence[ChannelGroup]", windows: Mapping[str, Window], topics: TopicsRead,
    now_ms: int, rows: list[dict[str, Any]], told: dict[str, int], failures: dict[str, str],
) -> None:  # fmt: skip
    """Add the rows of these queues, the number of each one's, and why others failed."""
    from jbm_spark.fault_by_halves import AtFault, by_halves
    from jbm_spark.jobs.audit.run_audit import CLOCK_SKEW_MS, one_line_failures
    from jbm_spark.jobs.quality.hourly_numbers import hourly_numbers

    def measured(part: "Sequence[ChannelGroup]") -> dict[str, list[dict[str, Any]]]:
        since_ms = min(windows[group.destination.name].sent_since_ms for group in part)
        with one_line_failures():
            inputs = replace(source, since_ms=since_ms).read(part)
            read_ms = time.time_ns() // 1_000_000
            assert inputs.gone is not None
            gone = {row["queue"]: row["until_ms"] for row in inputs.gone.collect()}
            numbers = hourly_numbers(inputs, CLOCK_SKEW_MS)
        found = {}
        for group in part:
            queue, name = group.group_id, group.destination.name
            whole_ms = first_whole_hour(gone.get(queue), inputs.known_from_ms[queue], now_ms)
            whole_ms = max(whole_ms, topics.whole_from(_destination(group), inputs.topic_ids[queue], read_ms))
            first_ms = max(windows[name].first_ms, whole_ms, 0)
            found[name] = numbers[queue].rows(_destination(group), first_ms, now_ms)
        return found

    for done in by_halves(groups, measured):
        if isinstance(done, AtFault):
            failures[done.item.destination.name] = done.why
            continue
        for name, of_queue in done.items():
            rows += of_queue
            told[name] = len(of_queue)


def _topics_before(table: "QualityTable", groups: "Sequence[ChannelGroup]", archive: str | None) -> TopicsRead:
    """Return what is known of the topics before anything is read."""
    from jbm_spark.jobs.audit.archived import archived_bounds

    topics = [group.topic for group in groups]
    archived = () if archive is None else (topic_id for _, topic_id, *_ in archived_bounds(archive, topics))
    return TopicsRead({name: KnownTopic(*each) for name, each in table.topics().items()}, {*archived})


class _Keeping:
    """Has Kafka keep what a later run reads, where no archive does."""

    def __init__(self, registration: "ReaderRegistration | None", admin: "KafkaAdmin", name: str) -> None:
        self._registration, self._admin, self._name = registration, admin, name

    def from_now_on(self, groups: "Sequence[ChannelGroup]", sent_since_ms: Mapping[str, int]) -> None:
        """Keep what was sent since then, by topic; of one without a time, all."""
        if self._registration is None or not groups:
            return
        readers = {}
        for topic, found in self._admin.describe([group.topic for group in groups]).items():
            since_ms = sent_since_ms.get(topic, 0)
            parts = [*range(found.partitions)]
            positions = self._admin.positions_since(topic, parts, since_ms) if since_ms else {}
            readers[f"{self._name}/{topic}"] = (topic, found.topic_id, positions)
        self._registration.renew_all(readers)


def _destination(group: "ChannelGroup") -> str:
    return str(group.destination)
