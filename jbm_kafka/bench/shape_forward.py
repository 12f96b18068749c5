"""The shape `forward`: receive, send and commit, beside the same loop over Kafka's own client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jbm_kafka.bench.load import create_topic, fill, spread_units
from jbm_kafka.bench.measured_client import measure
from jbm_kafka.bench.numbers import Judgement, counted_rows, percentile, ratio
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

SPARE_PER_SESSION = 1_000
"""Messages besides, for what a session has prefetched and does not get to: a default prefetch."""

SHARE_OF_MANY = 4
"""One of many sessions makes a part of the commits that one alone does, or it would take as long as all others."""


@dataclass(frozen=True, slots=True)
class Forwarding:
    """One client of the shape."""

    said: str
    """The name of its row."""
    size: int
    """Messages a commit."""
    is_raw: bool = False
    retry_backoff_ms: int = 0
    """The hand-written loop's setting of that name; 0: librdkafka's default."""
    sessions: int = 1
    partition_factor: int = 1
    is_prepared: bool = False

    def measure(self, cluster: Cluster, plan: Plan, machine: QuietMachine, number: int) -> Mapping[str, Any]:
        """Fill a topic and forward all of it."""
        commits = plan.forward_commits * self.sessions // (SHARE_OF_MANY if self.sessions > 1 else 1)
        partitions = plan.partitions * self.partition_factor
        queue, target = new_name("forward"), new_name("forwarded")
        count = (commits + self.sessions) * self.size + self.sessions * SPARE_PER_SESSION
        for topic in (queue, target):
            create_topic(cluster, topic, partitions=partitions)
        # A unit for each message: how far sessions can work beside each other is then theirs, not the messages'.
        fill(cluster, queue, spread_units(count, units=count), partitions=partitions, body_bytes=plan.body_bytes)
        busy = machine.wait()
        sizes: dict[str, Any] = {"cluster": cluster, "target": target, "commits": commits, "size": self.size}
        if self.is_raw:
            said = measure("forward-raw", topic=queue, group=queue, retry_backoff_ms=self.retry_backoff_ms, **sizes)
        else:
            said = measure(
                "forward",
                queue=queue,
                sessions=self.sessions,
                namespace=new_namespace(number),
                is_prepared=self.is_prepared,
                **sizes,
            )
        took_ms = said["commit_ms"]
        return {**said, "busy_before": busy, **{f"p{p}_ms": percentile(took_ms, p) for p in (50, 99)}}


CLIENTS: Mapping[str, Forwarding] = {
    "raw-1": Forwarding("hand-written, 1 a commit, msg/s", 1, is_raw=True),
    "tuned-1": Forwarding("hand-written and tuned, 1 a commit, msg/s", 1, is_raw=True, retry_backoff_ms=2),
    "jbm-1": Forwarding("TRANSACTED, 1 a commit, msg/s", 1),
    "xa-1": Forwarding("XA: prepare and commit of 1, msg/s", 1, is_prepared=True),
    "raw-100": Forwarding("hand-written, 100 a commit, msg/s", 100, is_raw=True),
    "tuned-100": Forwarding("hand-written and tuned, 100 a commit, msg/s", 100, is_raw=True, retry_backoff_ms=2),
    "jbm-100": Forwarding("TRANSACTED, 100 a commit, msg/s", 100),
    "32": Forwarding("32 TRANSACTED sessions, 1 a commit, msg/s", 1, sessions=32),
    "jbm-1-wide": Forwarding("TRANSACTED, 1 a commit, twice the partitions, msg/s", 1, partition_factor=2),
    "32-wide": Forwarding(
        "32 TRANSACTED sessions, 1 a commit, twice the partitions, msg/s", 1, sessions=32, partition_factor=2
    ),
}


def forward(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Ours beside a hand-written loop with one transactional producer, and many sessions beside one.

    The loop as one writes it is what ours is judged by. A row beside it shows what it does when its
    author knows of `retry.backoff.ms`.
    """
    raw, machine = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s)
    names = list(CLIENTS)
    for number in plan.turns:
        first = number % len(names)
        for name in names[first:] + names[:first]:
            said = CLIENTS[name].measure(cluster, plan, machine, number)
            raw.append({"client": name, "repeat": number, **said})
            progress(
                f"forward {plan.turn_name(number)}: {name} {rate_of(said):,.0f} msg/s, "
                f"commit p50 {said['p50_ms']:.1f} ms, p99 {said['p99_ms']:.1f} ms"
            )
    counted = counted_rows(raw)
    rates = by_client(counted, rate_of)
    p50 = by_client(counted, lambda row: float(row["p50_ms"]))
    p99 = by_client(counted, lambda row: float(row["p99_ms"]))
    return ShapeResult(
        name="forward",
        rows={
            **{CLIENTS[name].said: row for name, row in rates.items()},
            "commit of 1, p50, ms": p50["jbm-1"],
            "commit of 1, p99, ms": p99["jbm-1"],
            "XA: prepare and commit of 1, p50, ms": p50["xa-1"],
            "XA: prepare and commit of 1, p99, ms": p99["xa-1"],
            "hand-written commit of 1, p50, ms": p50["raw-1"],
            "hand-written commit of 1, p99, ms": p99["raw-1"],
            "hand-written and tuned commit of 1, p50, ms": p50["tuned-1"],
            "hand-written and tuned commit of 1, p99, ms": p99["tuned-1"],
        },
        cpu_us={CLIENTS[name].said: row for name, row in by_client(counted, processor_us).items()},
        judgements=(
            Judgement("1 a commit / hand-written", ratio(rates["jbm-1"], rates["raw-1"]), "at least", 2.0),
            Judgement("100 a commit / hand-written", ratio(rates["jbm-100"], rates["raw-100"]), "at least", 1.5),
            Judgement("commit of 1, p50", p50["jbm-1"].median, "below", 6, "ms"),
            Judgement("prepare and commit of 1 / commit of 1, p50", ratio(p50["xa-1"], p50["jbm-1"]), "below", 3),
            Judgement("32 sessions / one", ratio(rates["32"], rates["jbm-1"]), "at least", 10),
            Judgement(
                "32 sessions / one, twice the partitions", ratio(rates["32-wide"], rates["jbm-1-wide"]), "at least", 10
            ),
        ),
        raw=raw,
    )
