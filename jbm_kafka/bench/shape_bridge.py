"""The shape `bridge`: a bridge within a cluster, and sends into a store beside the sender."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jbm_kafka.bench.load import create_topic, fill, spread_units
from jbm_kafka.bench.measured_client import measure
from jbm_kafka.bench.numbers import Judgement, counted_rows
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.quiet import QuietMachine
from jbm_kafka.bench.shape_result import (
    Progress,
    ShapeResult,
    by_client,
    new_name,
    new_namespace,
    processor_us,
    rate_of,
)
from jbm_kafka.cli.cluster_settings import Cluster

SAID = {
    "bridge": "bridge within a cluster, msg/s",
    "store": "send into a store without fsync, msg/s",
    "store-fsync": "send into a store with fsync, msg/s",
}
"""The name of each client's row."""
FSYNC_SHARE = 20
"""Sends that wait for the disk are so many times fewer."""


def bridge(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Each by the clock, and by the processor time of its process."""
    raw, machine = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s)
    stored: dict[str, Any] = {"cluster": cluster, "units": plan.units, "body_bytes": plan.body_bytes}
    for number in plan.turns:
        queue, target = new_name("bridge"), new_name("bridged")
        for topic in (queue, target):
            create_topic(cluster, topic, partitions=plan.partitions)
        units = spread_units(plan.bridged, units=plan.units)
        fill(cluster, queue, units, partitions=plan.partitions, body_bytes=plan.body_bytes)
        sizes: dict[str, Any] = {"count": plan.bridged, "namespace": new_namespace(number)}
        for name in SAID:
            busy = machine.wait()
            if name == "bridge":
                said = measure("bridge", cluster=cluster, queue=queue, target=target, **sizes)
            else:
                is_synced = name == "store-fsync"
                count = plan.bridged // FSYNC_SHARE if is_synced else plan.bridged
                said = measure("store", count=count, fsync=is_synced, **stored)
            raw.append({"client": name, "repeat": number, "busy_before": busy, **said})
            progress(f"bridge {plan.turn_name(number)}: {name} {rate_of(said):,.0f} msg/s")
    counted = counted_rows(raw)
    rates = by_client(counted, rate_of)
    return ShapeResult(
        name="bridge",
        rows={SAID[name]: row for name, row in rates.items()},
        cpu_us={SAID[name]: row for name, row in by_client(counted, processor_us).items()},
        judgements=(
            Judgement("bridge within a cluster", rates["bridge"].median, "at least", 10_000, "msg/s"),
            Judgement("send into a store without fsync", rates["store"].median, "at least", 20_000, "msg/s"),
        ),
        raw=raw,
    )
