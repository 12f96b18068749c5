"""The shape `latency`: how old messages are when they are received, at steady rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from jbm_kafka.bench.load import create_topic
from jbm_kafka.bench.measured_client import MeasuredClient, measure
from jbm_kafka.bench.numbers import Judgement, Summary, counted_rows, percentile, summary
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.shape_result import Progress, ShapeResult, new_name, new_namespace
from jbm_kafka.cli.cluster_settings import Cluster

TARGETS_MS: Mapping[int, tuple[float, float]] = {1_000: (15, 60), 5_000: (5, 20)}
"""Median and 99th percentile at most, by messages a second; at another rate they are shown without a target."""


CLIENTS = ("jbm", "raw")


def latency(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Every rate in every repeat, by ours and by Kafka's own clients, in turns at going first."""
    raw: list[Mapping[str, Any]] = []
    for number in plan.turns:
        for rate in plan.latency_rates:
            for client in CLIENTS if number % 2 else reversed(CLIENTS):
                row = _measured(cluster, plan, client, number, rate)
                raw.append(row)
                said = ", ".join(f"p{percent} {row[f'p{percent}_ms']:.1f} ms" for percent in (50, 99))
                progress(f"latency {plan.turn_name(number)}: {client} {rate:,} msg/s: {said}")
    rows: dict[str, Summary] = {}
    judgements: list[Judgement] = []
    for rate in plan.latency_rates:
        for percent, target_ms in zip((50, 99), TARGETS_MS.get(rate, (None, None)), strict=True):
            name = f"p{percent} at {rate:,} msg/s"
            ours, beside = (_of_client(raw, client, rate, percent) for client in CLIENTS)
            rows[f"{name}, ms"] = found = summary(ours)
            rows[f"{name}, Kafka's own clients, ms"] = summary(beside)
            rows[f"{name}, jbm / Kafka's own"] = summary([one / other for one, other in zip(ours, beside, strict=True)])
            if target_ms is not None:
                judgements.append(Judgement(name, found.median, "below", target_ms, "ms"))
    return ShapeResult(name="latency", rows=rows, judgements=judgements, raw=raw)


def _of_client(raw: Sequence[Mapping[str, Any]], client: str, rate: int, percent: int) -> list[float]:
    """Return what it took in each repeat that counts, in milliseconds."""
    counted = counted_rows(raw)
    return [row[f"p{percent}_ms"] for row in counted if (row["client"], row["rate"]) == (client, rate)]


def _measured(cluster: Cluster, plan: Plan, client: str, number: int, rate: int) -> Mapping[str, Any]:
    """One sender and one receiver on a topic of their own."""
    topic, skipped = new_name("latency"), round(rate * plan.latency_warm_up_s)
    create_topic(cluster, topic, partitions=plan.partitions)
    total = skipped + round(rate * plan.latency_s)
    place: dict[str, Any] = {"cluster": cluster, "queue": topic, "count": total}
    load: dict[str, Any] = {"rate": rate, "units": plan.units, "body_bytes": plan.body_bytes}
    if client == "raw":
        with MeasuredClient("latency-raw", skip=skipped, partitions=plan.partitions, **place) as receiver:
            return _row(client, number, rate, receiver, partial(measure, "send-raw", **load, **place))
    place["namespace"] = new_namespace(number)
    with MeasuredClient("latency", skip=skipped, **place) as receiver:
        return _row(client, number, rate, receiver, partial(measure, "send", **load, **place))


def _row(
    client: str, number: int, rate: int, receiver: MeasuredClient, send: Callable[[], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Return what both said, when the receiver is ready and all is sent."""
    receiver.wait_ready()
    sent = send()
    ages = receiver.result()["latencies_ms"]
    figures = {f"p{percent:g}_ms": percentile(ages, percent) for percent in (50, 90, 99, 99.9, 100)}
    return {"client": client, "repeat": number, "rate": rate, **figures, "sent": sent, "latencies_ms": ages}
