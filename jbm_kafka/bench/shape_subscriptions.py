"""The shape `subscriptions`: what many subscriptions of one topic cost one process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jbm_kafka.bench.load import create_topic
from jbm_kafka.bench.measured_client import measure
from jbm_kafka.bench.numbers import Summary, counted_rows
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.quiet import QuietMachine
from jbm_kafka.bench.shape_result import Progress, ShapeResult, by_client, new_name, new_namespace, rate_of
from jbm_kafka.cli.cluster_settings import Cluster

LEAST_MB = 0.01
"""The memory that is shown where nothing more is used than before."""

FIGURES: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "copies received by {}, msg/s": rate_of,
    "memory of each of {}, MB": lambda row: max((row["busy"]["mb"] - row["idle"]["mb"]) / row["count"], LEAST_MB),
    "threads with {}": lambda row: row["busy"]["threads"],
    "making {}, s": lambda row: row["made_s"],
    "until each of {} receives after a restart, s": lambda row: row["again_s"],
}
"""Figures by name, for so many subscriptions. None has a target."""


def subscriptions(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """As many copies in all, whatever the number of subscriptions; each number on a topic of its own."""
    raw, machine = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s)
    for number in plan.turns:
        for count in plan.subscriptions:
            topic, each = new_name("subscriptions"), plan.subscribed_copies // count
            create_topic(cluster, topic, partitions=plan.partitions)
            busy = machine.wait()
            said = measure(
                "subscribed", cluster=cluster, topic=topic, subscriptions=count, count=each,
                namespace=new_namespace(number), partitions=plan.partitions,
                load={"units": plan.units, "bytes": plan.body_bytes},
            )  # fmt: skip
            row = {"client": f"{count} subscriptions", "repeat": number, "busy_before": busy, "count": count, **said}
            raw.append(row)
            figures = ", ".join(f"{name.format(count)} {figure(row):,.2f}" for name, figure in FIGURES.items())
            progress(f"subscriptions {plan.turn_name(number)}: {figures}")
    rows: dict[str, Summary] = {}
    for name, figure in FIGURES.items():
        rows |= {name.format(client): row for client, row in by_client(counted_rows(raw), figure).items()}
    return ShapeResult(name="subscriptions", rows=rows, judgements=(), raw=raw)
