"""The shape `latency`: how old messages are when they are received, at steady rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jbm_kafka.bench.load import create_topic
from jbm_kafka.bench.numbers import Judgement, Summary, counted_rows, percentile, summary
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.shape_result import Progress, ShapeResult, new_name, new_namespace
from jbm_kafka.bench.worker import Worker, measure
from jbm_kafka.cli.cluster_settings import Cluster

TARGETS_MS: Mapping[int, tuple[float, float]] = {1_000: (15, 60), 5_000: (5, 20)}
"""Median and 99th percentile at most, by messages a second; at another rate they are told and not judged."""


def latency(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Every rate in every repeat."""
    raw: list[Mapping[str, Any]] = []
    for number in plan.turns:
        for rate in plan.latency_rates:
            row = _measured(cluster, plan, number, rate)
            raw.append(row)
            said = ", ".join(f"p{percent} {row[f'p{percent}_ms']:.1f} ms" for percent in (50, 99))
            progress(f"latency {plan.turn_name(number)}: {rate:,} msg/s: {said}")
    rows: dict[str, Summary] = {}
    judgements: list[Judgement] = []
    for rate in plan.latency_rates:
        counted = [row for row in counted_rows(raw) if row["rate"] == rate]
        for percent, target_ms in zip((50, 99), TARGETS_MS.get(rate, (None, None)), strict=True):
            name, found = f"p{percent} at {rate:,} msg/s", summary([row[f"p{percent}_ms"] for row in counted])
            rows[f"{name}, ms"] = found
            if target_ms is not None:
                judgements.append(Judgement(name, found.median, "below", target_ms, "ms"))
    return ShapeResult(name="latency", rows=rows, judgements=judgements, raw=raw)


def _measured(cluster: Cluster, plan: Plan, number: int, rate: int) -> Mapping[str, Any]:
    """One sender and one receiver on a topic of their own."""
    topic, skipped = new_name("latency"), plan.latency_warm_up
    create_topic(cluster, topic, partitions=plan.partitions)
    total = skipped + round(rate * plan.latency_s)
    place: dict[str, Any] = {
        "cluster": cluster, "queue": topic, "namespace": new_namespace(number), "count": total,
    }  # fmt: skip
    with Worker("latency", skip=skipped, **place) as receiver:
        receiver.wait_ready()
        sent = measure("send", rate=rate, units=plan.units, body_bytes=plan.body_bytes, **place)
        ages = receiver.result()["latencies_ms"]
    row = {f"p{percent:g}_ms": percentile(ages, percent) for percent in (50, 90, 99, 99.9, 100)}
    return {"client": "jbm", "repeat": number, "rate": rate, **row, "sent": sent, "latencies_ms": ages}
