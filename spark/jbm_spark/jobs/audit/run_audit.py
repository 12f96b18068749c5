"""Looks for what must never happen to a message, in what the topics, or an archive, tell.

    jbm-spark audit 'orders.*' [--json]
    jbm-spark audit orders [--since 24h] [--archive FOLDER] [--html audit.html] [--json]

Nothing is received and nothing written; it may run beside live receivers.
"""

import json
import shlex
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.core.destination import Queue, Topic
from jbm_kafka.core.settings.address_pattern import checked_pattern
from jbm_spark.call_sites import without_call_sites
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.audit.audit_checks import (
    CHECKS,
    FOREVER_MS,
    IN_UNIT,
    NEVER,
    OF_ORDER,
    ORDER,
    STEPS,
    UNPROVEN,
    UNREADABLE_EVENTS,
)
from jbm_spark.jobs.audit.audit_result import FAULTS, AuditedQueues, AuditResult, Finding
from jbm_spark.topic_check import TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from jbm_kafka.registry.channel_group import ChannelGroup
    from jbm_spark.jobs.audit.audit_inputs import AuditInputs, AuditSource

FINDINGS_MAX = 1_000
CLOCK_SKEW_MS = 1_000
UNITS_MAX = 500_000
"""Of so many units of a partition a task holds what came before: some 70 MB."""


@without_call_sites()
def run(
    spark: "SparkSession",
    destination: "str | Queue | Topic",
    *,
    bootstrap: str,
    subscription: str | None = None,
    client_id: str = "",
    since_ms: int = 0,
    archive: str | None = None,
    clock_skew_ms: int = CLOCK_SKEW_MS,
    findings_max: int = FINDINGS_MAX,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> AuditResult:
    """Audit a queue, or a durable subscription of a topic: docs/spark-audit.md.

    Args:
        since_ms: only messages that were sent since then, ms since 1970.
        archive: a folder of `jbm-spark archive`, for what Kafka does not have any more.
        clock_skew_ms: how far clocks of the processes may be apart; what is earlier by less is no fault.
        findings_max: so many findings the result has at most; all are counted.

    Raises:
        InvalidDestinationError: no such queue, topic or subscription.
        SparkJobError: it could not be done.
        JMSError: the brokers do not answer, or refuse us.
    """
    from jbm_spark.call_checks import check_session
    from jbm_spark.jobs.audit.audit_inputs import AuditSource, audited

    check_session(spark)
    with audited(destination, bootstrap=bootstrap, subscription=subscription, client_id=client_id, namespace=namespace,
                 archive=archive, kafka=kafka) as (admin, group):  # fmt: skip
        source = AuditSource(
            spark=spark, admin=admin, bootstrap=bootstrap, namespace=namespace, since_ms=since_ms, archive=archive,
            kafka=kafka, options=options,
        )  # fmt: skip
        return audited_of(source, [group], clock_skew_ms, findings_max)[group.group_id]


@without_call_sites()
def run_queues(
    spark: "SparkSession",
    pattern: str,
    *,
    bootstrap: str,
    since_ms: int = 0,
    archive: str | None = None,
    clock_skew_ms: int = CLOCK_SKEW_MS,
    findings_max: int = FINDINGS_MAX,
    namespace: str = "",
    kafka: Mapping[str, object] | None = None,
    options: Mapping[str, str] | None = None,
) -> AuditedQueues:
    """Audit all queues whose names are as the pattern, such as `orders.*`, or `#` for all, in one read.

    A queue that cannot be audited is in `failures` with the reason, and the others are audited. The other arguments are
    those of `run`; `archive` is one of many queues, of these among them.

    Raises:
        InvalidSettingError: it is no pattern.
        SparkJobError: no queue has such a name; the archive is not of these; Spark failed.
        JMSError: the brokers do not answer, or refuse us.
    """
    from jbm_spark.call_checks import check_session
    from jbm_spark.fault_by_halves import AtFault, by_halves
    from jbm_spark.jobs.audit.archived import check_archive_of
    from jbm_spark.jobs.audit.audit_inputs import AuditSource
    from jbm_spark.queue_pattern import queues_named

    check_session(spark)
    pattern = checked_pattern(pattern)
    core = AdminCore(bootstrap, kafka, namespace, TIMEOUT_S)
    with closing(core), core.asking(f"audit {pattern}"):
        queues = queues_named(core.catalog, pattern)
        for queue in queues if archive is not None else ():
            check_archive_of(archive or "", queue)
        groups = {queue.name: core.group(queue) for queue in queues}
        source = AuditSource(
            spark=spark, admin=core.admin, bootstrap=bootstrap, namespace=namespace, since_ms=since_ms,
            archive=archive, kafka=kafka, options=options,
        )  # fmt: skip
        found: dict[str, AuditResult] = {}
        failures: dict[str, str] = {}

        def audit(part: "Sequence[ChannelGroup]") -> "Mapping[str, AuditResult]":
            with one_line_failures():
                return audited_of(source, part, clock_skew_ms, findings_max)

        for done in by_halves([*groups.values()], audit):
            if isinstance(done, AtFault):
                failures[done.item.destination.name] = done.why
            else:
                found |= done
    audited = {name: found[group.group_id] for name, group in groups.items() if group.group_id in found}
    return AuditedQueues(pattern=pattern, failures=failures, queues=audited)


@contextmanager
def one_line_failures() -> Iterator[None]:
    """Make what Spark raises, and what the brokers tell of one topic, one line; that nobody answers is no topic's."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from jbm_spark.causes import cause_line
    from jbm_spark.log_positions import OF_ONE_TOPIC

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkJobError(cause_line(error)) from error
    except OF_ONE_TOPIC as error:
        raise SparkJobError(str(error)) from error


def audited_of(
    source: "AuditSource",
    groups: "Sequence[ChannelGroup]",
    skew_ms: int,
    findings_max: int,
    *,
    units_max: int = UNITS_MAX,
) -> "Mapping[str, AuditResult]":
    """Return the result of each queue, by the id of its group. `findings_max`: of all of them."""
    from jbm_spark.jobs.audit.audit_inputs import read_again
    from jbm_spark.session_setting import planned_for

    def read_and_judged() -> "Mapping[str, AuditResult] | None":
        inputs = source.read(groups, is_read_once=True)
        with planned_for(source.spark, inputs.size):
            rows = judged(inputs, skew_ms, units_max=units_max if inputs.is_in_order else None)
            return _results(inputs, rows, findings_max, source.namespace)

    found = read_again(read_and_judged)
    if found is None:  # what a task cannot hold Spark sorts, on disks if need be
        inputs = source.read(groups)
        found = _results(inputs, judged(inputs, skew_ms), findings_max, source.namespace)
    return found or {}


def _results(
    inputs: "AuditInputs", judged_rows: "DataFrame", findings_max: int, namespace: str
) -> "Mapping[str, AuditResult] | None":
    """None: a partition has too many units for a task."""
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.columns import unit_name

    told = [f"fault_{number}" for number in range(len(FAULTS))]
    unproven = [f"unproven_{number}" for number in range(len(UNPROVEN))]
    # One row for all messages of a queue in which nothing was found, and one for each of the others.
    unit = unit_name(F.col("key")).alias("unit")
    finding = F.struct("topic_id", "partition", "offset", "message_id", unit, *told)
    rows = judged_rows.groupBy(
        "queue", F.when(F.coalesce(*told).isNotNull(), finding).alias("finding")
    ).agg(
        F.count("*").alias("messages"),
        F.sum("fates_count").alias("fates"),
        F.bool_and("is_told").alias("is_told"),
        *(F.count_if(name).alias(name) for name in unproven),
    )  # fmt: skip
    # Kept as the counting goes by: to look for the findings again would take as long as to count them.
    rows = rows.localCheckpoint(eager=False)
    counted = rows.groupBy("queue").agg(
        F.sum("messages").alias("messages"),
        F.sum("fates").alias("fates"),
        F.bool_and("is_told").alias("is_told"),
        *(F.count(f"finding.{name}").alias(fault) for name, fault in zip(told, FAULTS, strict=True)),
        *(F.sum(name).alias(what) for name, what in zip(unproven, UNPROVEN, strict=True)),
    )
    by_queue = {row["queue"]: row.asDict() for row in counted.collect()}
    if not all(row["is_told"] for row in by_queue.values()):
        return None
    found: dict[str, list[Finding]] = {}
    if any(row[fault] for row in by_queue.values() for fault in FAULTS):
        for row in _found(rows.select("queue", "finding.*")).limit(findings_max).collect():
            group = inputs.groups[row["queue"]]
            one = Finding(
                fault=FAULTS[row["number"]],
                topic_id=row["topic_id"],
                partition=row["partition"],
                offset=row["offset"],
                message_id=row["message_id"],
                unit_of_order=row["unit"],
                what=row["what"],
                command=_command(group, row["message_id"], row["partition"], namespace),
            )
            found.setdefault(row["queue"], []).append(one)
    done = {}
    for queue, group in inputs.groups.items():
        numbers = by_queue.get(queue, {})
        of_queue = {what: numbers.get(what, 0) for what in UNPROVEN}
        done[queue] = AuditResult(
            destination=str(group),
            messages=numbers.get("messages", 0),
            fates=numbers.get("fates", 0),
            faults={fault: numbers.get(fault, 0) for fault in FAULTS},
            findings=tuple(found.get(queue, ())),
            unproven={**of_queue, UNREADABLE_EVENTS: inputs.unreadable.get(queue, 0)},
        )
    return done


def judged(
    inputs: "AuditInputs", skew_ms: int, *, units_max: int | None = None, also: "Sequence[str]" = ()
) -> "DataFrame":
    """The story with a column for each fault, one for each thing that could not be told, and the number of fates.

    Args:
        units_max: the story comes by partitions, in the order of their logs, and a task holds so many units of one.
            Where `is_told` is false there were more. None: in any order, and all is told.
        also: columns of the story that the result has, too.
    """
    from pyspark.sql import functions as F  # noqa: N812

    from jbm_spark.jobs.audit.partition_walk import with_unit_order

    values = {
        "skew_ms": skew_ms,
        "forever_ms": FOREVER_MS,
        "never": NEVER,
        "now_ms": time.time_ns() // 1_000_000,
        "known_from_ms": _one_of("queue", inputs.known_from_ms),
        "kept_from_ms": _one_of("f.target", inputs.kept_from_ms),
        "moves_known_from_ms": _bigint(inputs.moves_known_from_ms),
    }
    frame = inputs.story
    for step in STEPS:
        frame = frame.withColumns({name: F.expr(sql.format(**values)) for name, sql in step.items()})

    def fault(name: str, guard: str) -> "Column":
        return F.expr(f"case when {guard} then {CHECKS[name].format(**values)} end").alias(
            f"fault_{FAULTS.index(name)}"
        )

    in_unit = [F.expr(sql).alias(name) for name, sql in IN_UNIT.items()]
    about = ["queue", "topic_id", "partition", "message_id", "fates_count", *also]
    others = [fault(name, "not is_plain") for name in FAULTS if name != OF_ORDER]
    unproven = [F.expr(f"not is_plain and ({sql.format(**values)})").alias(f"unproven_{number}")
                for number, sql in enumerate(UNPROVEN.values())]  # fmt: skip
    frame = frame.select("offset", "key", *in_unit, *about, "is_unordered", "is_acknowledged", "first_seq",
                         "first_given_ms", *others, *unproven)  # fmt: skip
    if units_max is not None:
        frame = with_unit_order(frame, [*IN_UNIT], units_max)
    else:
        frame = frame.withColumns({"is_told": F.lit(True), **{name: F.expr(sql) for name, sql in ORDER.items()}})
    numbered = [f"unproven_{number}" for number in range(len(UNPROVEN))]
    return frame.select(
        "offset", "key", *about, "is_told", *numbered,
        *(fault(name, "true") if name == OF_ORDER else f"fault_{number}" for number, name in enumerate(FAULTS)),
    )  # fmt: skip


def _found(judged: "DataFrame") -> "DataFrame":
    """A row for each fault of a message, in order."""
    from pyspark.sql import functions as F  # noqa: N812

    each = F.array(*(F.struct(F.lit(number).alias("number"), F.col(f"fault_{number}").alias("what"))
                     for number in range(len(FAULTS))))  # fmt: skip
    rows = judged.withColumn("each", F.explode(F.filter(each, lambda one: one["what"].isNotNull())))
    return rows.select("*", "each.number", "each.what").orderBy("number", "queue", "topic_id", "partition", "offset")


def _one_of(key: str, known: Mapping[str, int]) -> str:
    """As SQL what is known of the key: a number, where it is the same of all of them."""
    numbers = set(known.values())
    if key == "queue" and len(numbers) == 1:
        return _bigint(numbers.pop())
    told = json.dumps(known).replace("\\", "\\\\").replace("'", "\\'")
    return f"try_element_at(from_json('{told}', 'map<string,bigint>'), {key})"


def _bigint(number: int) -> str:
    # The least of them is no literal of SQL: it reads a minus and a number that is too great.
    return f"cast('{number}' as bigint)"


def _command(group: "ChannelGroup", message_id: str | None, partition: int, namespace: str) -> str:
    """Return what shows the message, or, where its id is not known, its partition."""
    words = ["jbm-kafka", "explain" if message_id else "browse", group.destination.name]
    words += ["--id", message_id] if message_id else ["--partition", str(partition)]
    if group.subscription is not None:
        words += ["--subscription", group.subscription.name]
        words += ["--client-id", group.subscription.client_id] if group.subscription.client_id else []
    return shlex.join([*words, *(["--namespace", namespace] if namespace else [])])
