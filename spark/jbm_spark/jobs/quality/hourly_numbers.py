"""The numbers of each hour, counted in the story that an audit has of each message."""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from jbm_spark.jobs.audit.audit_checks import ENDS
from jbm_spark.jobs.audit.audit_inputs import AuditInputs
from jbm_spark.jobs.audit.audit_result import FAULTS
from jbm_spark.jobs.audit.run_audit import judged
from jbm_spark.jobs.quality.quality_hours import HOUR_MS, QueueHours, Span

_FIRST = "array_min(transform(filter(fates, f -> f.fate in {}), f -> f.at_ms))"
_FAULTS = " + ".join(f"int(fault_{number} is not null)" for number in range(len(FAULTS)))
_POINT = "named_struct('at_ms', {}, 'kind', '{}', 'number', bigint({}))"
_POINTS = ", ".join(
    _POINT.format(at_ms, kind, number)
    for at_ms, kind, number in (
        ("sent_at_ms", "sent", "1"),
        ("acknowledged_ms", "acknowledged", "greatest(acknowledged_ms - sent_at_ms, 0)"),
        (_FIRST.format("('dead-lettered')"), "given_up", "1"),
        (_FIRST.format("('expired')"), "expired", "1"),
        # In the hour of its end: there a rule sees it, and there it stays, whatever becomes of the message.
        ("if(faults > 0, coalesce(ended_ms, sent_at_ms), null)", "findings", "faults"),
    )
)
_RETURNS = f"transform(filter(fates, f -> f.fate = 'returned'), f -> {_POINT.format('f.at_ms', 'returned', '1')})"


def hourly_numbers(inputs: AuditInputs, skew_ms: int) -> Mapping[str, QueueHours]:
    """Return what each queue's hours have, by the id of its group.

    A message counts once as sent, acknowledged, given up and expired, in the hour of the first time; each return counts
    as one.
    """
    told = judged(inputs, skew_ms, also=("sent_at_ms", "is_settled", "fates")).withColumns({
        "acknowledged_ms": F.expr(_FIRST.format("('acknowledged')")),
        "ended_ms": F.expr(_FIRST.format(ENDS)),
        "faults": F.expr(_FAULTS),
    })  # fmt: skip
    points = told.select(
        "queue", F.expr(f"inline(filter(concat(array({_POINTS}), {_RETURNS}), p -> p.at_ms is not null))")
    )
    counted = points.groupBy("queue", _hour("at_ms").alias("hour_ms")).agg(
        *(F.count_if(F.col("kind") == kind).alias(kind)
          for kind in ("sent", "acknowledged", "returned", "given_up", "expired")),
        F.coalesce(F.sum(F.when(F.col("kind") == "findings", F.col("number"))), F.lit(0)).alias("findings"),
        # The exact ones: an approximation would be another each time.
        F.expr("transform(percentile(number, array(0.5, 0.99)) filter (where kind = 'acknowledged'), w -> w / 1000)")
        .alias("waits"),
    )  # fmt: skip
    # Settled, and nothing tells when: it is not known of any hour whether it was open.
    spans = told.where("ended_ms is not null or not is_settled").groupBy(
        "queue", _hour("sent_at_ms").alias("sent_ms"), _hour("ended_ms").alias("ended_ms")
    )
    lasting = spans.agg(F.min("sent_at_ms").alias("oldest_ms")).where("ended_ms is null or ended_ms > sent_ms")
    return _by_queue(inputs, counted, lasting)


def _by_queue(inputs: AuditInputs, counted: DataFrame, lasting: DataFrame) -> Mapping[str, QueueHours]:
    counts: dict[str, dict[int, dict[str, object]]] = {queue: {} for queue in inputs.groups}
    for row in counted.collect():
        p50_s, p99_s = row["waits"] or (None, None)
        counts[row["queue"]][row["hour_ms"]] = {**row.asDict(), "p50_s": p50_s, "p99_s": p99_s}
    spans: dict[str, list[Span]] = {queue: [] for queue in inputs.groups}
    for row in lasting.collect():
        spans[row["queue"]].append(Span(row["sent_ms"], row["ended_ms"], row["oldest_ms"]))
    return {queue: QueueHours(counts[queue], tuple(spans[queue])) for queue in inputs.groups}


def _hour(at_ms: str) -> Column:
    return F.expr(f"{at_ms} - pmod({at_ms}, {HOUR_MS})")
