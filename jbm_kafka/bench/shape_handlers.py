"""The shape `handlers`: many messages at once in one process, and on all processors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

from jbm_kafka.bench.dramatiq_client import is_installed
from jbm_kafka.bench.load import create_topic, fill, spread_units
from jbm_kafka.bench.measured_client import MeasuredClient, measure
from jbm_kafka.bench.numbers import Judgement, counted_rows, ratio
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.quiet import QuietMachine
from jbm_kafka.bench.shape_result import Progress, ShapeResult, by_client, new_name, new_namespace, rate_of
from jbm_kafka.cli.cluster_settings import Cluster

BURN_MS = 1.0
BURNT_PART = 5
"""One in so many messages goes to the handler that uses the processor, or it would take as long as all others."""

CLIENTS_SAID = {
    "pool-1": "pool of 64 threads by hand, 1 ms, msg/s",
    "threads-1": "handler with 64 threads, 1 ms, msg/s",
    "pool-10": "pool of 64 threads by hand, 10 ms, msg/s",
    "threads-10": "handler with 256 threads, 10 ms, msg/s",
    "coroutines-10": "handler with 500 coroutines, 10 ms, msg/s",
    "dramatiq-1": "Dramatiq over Redis with 64 threads, 1 ms, msg/s",
    "dramatiq-10": "Dramatiq over Redis with 64 threads, 10 ms, msg/s",
    "burn-1": "handler that burns 1 ms, 1 process, msg/s",
    "burn-2": "handler that burns 1 ms, 2 processes, msg/s",
}


def handlers(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Handlers of a Worker beside a pool of threads that one writes by hand; all check the order of each unit."""
    topic, count = new_name("handlers"), plan.handled
    create_topic(cluster, topic, partitions=plan.partitions)
    fill(cluster, topic, spread_units(count, units=plan.units), partitions=plan.partitions, body_bytes=plan.body_bytes)
    sizes: dict[str, Any] = {"cluster": cluster, "queue": topic, "count": count}
    runs: dict[str, Callable[..., Mapping[str, Any]]] = {
        "pool-1": partial(measure, "pool", sleep_ms=1, **sizes),
        "threads-1": partial(measure, "worker", sleep_ms=1, concurrency=64, is_async=False, **sizes),
        "pool-10": partial(measure, "pool", sleep_ms=10, **sizes),
        "threads-10": partial(measure, "worker", sleep_ms=10, concurrency=256, is_async=False, **sizes),
        "coroutines-10": partial(measure, "worker", sleep_ms=10, concurrency=500, is_async=True, **sizes),
        "burn-1": partial(_burn, cluster, plan, processes=1),
        "burn-2": partial(_burn, cluster, plan, processes=2),
    }
    if is_installed():
        for wait_ms in (1, 10):
            options = {"count": count, "sleep_ms": wait_ms, "body_bytes": plan.body_bytes}
            runs[f"dramatiq-{wait_ms}"] = partial(_of_others, cluster, options)
    raw, machine, names = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s), list(runs)
    for number in plan.turns:
        first = number % len(names)
        for name in names[first:] + names[:first]:
            busy = machine.wait()
            said = runs[name](namespace=new_namespace(number))
            raw.append({"client": name, "repeat": number, "busy_before": busy, **said})
            progress(f"handlers {plan.turn_name(number)}: {name} {rate_of(said):,.0f} msg/s")
    rates = by_client(counted_rows(raw), rate_of)
    return ShapeResult(
        name="handlers",
        rows={CLIENTS_SAID[name]: row for name, row in rates.items()},
        judgements=(
            Judgement("handler / pool by hand, 1 ms", ratio(rates["threads-1"], rates["pool-1"]), "at least", 2.0),
            Judgement("handler / pool by hand, 10 ms", ratio(rates["threads-10"], rates["pool-10"]), "at least", 2.0),
            Judgement("coroutines of 10 ms", rates["coroutines-10"].median, "at least", 10_000, "msg/s"),
            Judgement("2 processes / 1", ratio(rates["burn-2"], rates["burn-1"]), "at least", 1.5),
        ),
        raw=raw,
    )


def _of_others(cluster: Cluster, options: Mapping[str, Any], *, namespace: str) -> Mapping[str, Any]:
    """Without a queue of ours, so without a namespace."""
    return measure("dramatiq", cluster=cluster, **options)


def _burn(cluster: Cluster, plan: Plan, *, namespace: str, processes: int) -> Mapping[str, Any]:
    """Processes that share a queue, and have done so before it is filled: from the first message to the last."""
    queue = new_name("burnt")
    create_topic(cluster, queue, partitions=plan.partitions)
    options: dict[str, Any] = {"queue": queue, "namespace": namespace, "burn_ms": BURN_MS}
    with ExitStack() as stack:
        clients = [stack.enter_context(MeasuredClient("burn", cluster=cluster, **options)) for _ in range(processes)]
        for client in clients:
            client.wait_ready()
        units = spread_units(plan.handled // BURNT_PART, units=plan.units)
        fill(cluster, queue, units, partitions=plan.partitions, body_bytes=plan.body_bytes)
        said = [client.result() for client in clients]
    return {
        "messages": sum(each["messages"] for each in said),
        "cpu_seconds": sum(each["cpu_seconds"] for each in said),
        "seconds": max(each["ended_s"] for each in said) - min(each["began_s"] for each in said),
    }
