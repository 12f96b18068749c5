"""Looks for what must never happen to a message, in what the topics, or an archive, tell.

    jbm-spark audit orders [--since 24h] [--archive FOLDER] [--html audit.html] [--json]

Nothing is received and nothing written; it may run beside live receivers.
"""

import shlex
import time
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from jbm_kafka.core.destination import Queue, Topic
from jbm_spark.call_sites import without_call_sites
from jbm_spark.jobs.audit.audit_checks import CHECKS, ENDED, FOREVER_MS, NEVER, NOT_TOLD, UNPROVEN
from jbm_spark.jobs.audit.audit_result import FAULTS, AuditResult, Finding

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from jbm_spark.jobs.audit.audit_inputs import AuditInputs

FINDINGS_MAX = 1_000
CLOCK_SKEW_MS = 1_000


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
    from jbm_spark.jobs.audit.audit_inputs import AuditSource

    check_session(spark)
    source = AuditSource(
        spark=spark,
        destination=destination,
        bootstrap=bootstrap,
        subscription=subscription,
        client_id=client_id,
        namespace=namespace,
        since_ms=since_ms,
        archive=archive,
        kafka=kafka,
        options=options,
    )
    return _result(spark, source.read(), clock_skew_ms, findings_max, namespace)


def _result(
    spark: "SparkSession", inputs: "AuditInputs", skew_ms: int, findings_max: int, namespace: str
) -> AuditResult:
    from jbm_spark.jobs.audit.audit_inputs import read_now

    frames = {name: getattr(inputs, name) for name in ("messages", "fates", "settled", "letters", "targets")}
    frames["ended"] = read_now(spark.sql(ENDED, **frames))
    frames["not_told"] = read_now(spark.sql(NOT_TOLD, **frames))
    values = {"skew_ms": skew_ms, "forever_ms": FOREVER_MS, "never": NEVER, "now_ms": time.time_ns() // 1_000_000,
              "known_from_ms": inputs.known_from_ms, "unreadable": inputs.unreadable,
              "moves_known_from_ms": inputs.moves_known_from_ms}  # fmt: skip

    def asked(query: str) -> "DataFrame":
        used = {name: value for name, value in {**frames, **values}.items() if f"{{{name}}}" in query}
        return spark.sql(query, **used)

    found = read_now(reduce(_union, [_named(asked(CHECKS[fault]), fault) for fault in FAULTS]))
    counted = {row["fault"]: row["count"] for row in found.groupBy("fault").count().collect()}
    about = inputs.messages.select("topic_id", "partition", "offset", "message_id", "unit")
    rows = found.join(about, ["topic_id", "partition", "offset"], "left")
    first = rows.orderBy("number", "topic_id", "partition", "offset").limit(findings_max).collect()
    asked_for = {"messages": "select count(*) from {messages}", "fates": "select count(*) from {fates}", **UNPROVEN}
    # One query: each by itself would cost more than it counts.
    counts = " union all ".join(
        f"select {number} as n, ({query}) as c" for number, query in enumerate(asked_for.values())
    )
    numbers = [row["c"] for row in asked(counts).orderBy("n").collect()]
    return AuditResult(
        destination=str(inputs.group),
        messages=numbers[0],
        fates=numbers[1],
        faults={fault: counted.get(fault, 0) for fault in FAULTS},
        findings=tuple(
            Finding(
                fault=row["fault"],
                topic_id=row["topic_id"],
                partition=row["partition"],
                offset=row["offset"],
                message_id=row["message_id"],
                unit_of_order=row["unit"],
                what=row["what"],
                command=_command(inputs, row["message_id"], row["partition"], namespace),
            )
            for row in first
        ),
        unproven=dict(zip(UNPROVEN, numbers[2:], strict=True)),
    )


def _named(frame: "DataFrame", fault: str) -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812

    return frame.select(F.lit(FAULTS.index(fault)).alias("number"), F.lit(fault).alias("fault"), "*")


def _union(one: "DataFrame", other: "DataFrame") -> "DataFrame":
    return one.unionByName(other)


def _command(inputs: "AuditInputs", message_id: str | None, partition: int, namespace: str) -> str:
    """What shows the message, or, where its id is not known, its partition."""
    group = inputs.group
    words = ["jbm-kafka", "explain" if message_id else "browse", group.destination.name]
    words += ["--id", message_id] if message_id else ["--partition", str(partition)]
    if group.subscription is not None:
        words += ["--subscription", group.subscription.name]
        words += ["--client-id", group.subscription.client_id] if group.subscription.client_id else []
    return shlex.join([*words, *(["--namespace", namespace] if namespace else [])])
