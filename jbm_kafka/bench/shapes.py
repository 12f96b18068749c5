"""The shapes: each fills topics, runs its clients so many times, and returns every raw number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

from jbm_kafka.bench.load import HELD_UNIT, create_topic, fill, spread_units
from jbm_kafka.bench.measured_client import MeasuredClient, measure
from jbm_kafka.bench.numbers import Judgement, counted_rows, paired_ratio, ratio, summary
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.quiet import QuietMachine
from jbm_kafka.bench.shape_bridge import bridge
from jbm_kafka.bench.shape_forward import forward
from jbm_kafka.bench.shape_handlers import handlers
from jbm_kafka.bench.shape_latency import latency
from jbm_kafka.bench.shape_result import (
    Progress,
    ShapeResult,
    by_client,
    new_name,
    new_namespace,
    processor_us,
    rate_of,
)
from jbm_kafka.bench.shape_subscriptions import subscriptions
from jbm_kafka.bench.shape_waiting import waiting
from jbm_kafka.cli.cluster_settings import Cluster

HELD_PATIENCE_S = 8.0
"""How long the held shape waits for a quiet machine: its delay runs, and a client that is idle leaves the group."""
HELD_ORDER = (False, True, True, False, True, False, False, True)
"""True where the unit is held, in the order of one repeat and turned round in the next: mere drift cancels out."""

CLIENTS_SAID = {
    "raw": "(a) raw consume(1000), msg/s",
    "share": "(b) ShareConsumer, msg/s",
    "share-body": "(b') ShareConsumer, only the value read, msg/s",
    "jbm": "(c) jbm AUTO, msg/s",
    "body": "(c') jbm AUTO, only the body read, msg/s",
    "bound": "(d) as (c), on one processor, msg/s",
    "client": "(e) jbm CLIENT, acknowledged by the hundred, only the body read, msg/s",
    "dups-ok": "(f) jbm DUPS_OK, only the body read, msg/s",
    "pre": "(g) jbm PRE, only the body read, msg/s",
    "selector": "(h) jbm AUTO with a selector, only the body read, msg/s",
    "flush-raw": "produce and flush, msg/s",
    "one-by-one": "PERSISTENT send, msg/s",
    "beside-flood": "PERSISTENT send beside a flood, msg/s",
    "callback-raw": "produce with a callback, msg/s",
    "callback": "send with on_completion, msg/s",
    "groups": "PERSISTENT_GROUPACK send, 100 to a group, msg/s",
    "free": "others, nothing held, one processor, msg/s",
    "held": "others beside a held unit, one processor, msg/s",
}
"""The name of each client's row."""


def backlog(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """The same backlog received by Kafka's consumer, Kafka's share consumer and an AUTO session.

    Nothing is judged by the others: one that is bound to a processor, other acknowledge modes, and a selector.
    """
    topic, count = new_name("backlog"), plan.backlog_messages
    sizes: dict[str, Any] = {"cluster": cluster, "count": count}
    create_topic(cluster, topic, partitions=plan.partitions)
    progress(f"backlog: sending {count:,} messages")
    fill(cluster, topic, spread_units(count, units=plan.units), partitions=plan.partitions, body_bytes=plan.body_bytes)
    runs: Mapping[str, Callable[[int], Mapping[str, Any]]] = {
        "raw": lambda _: measure("raw", topic=topic, partitions=plan.partitions, **sizes),
        "share": lambda number: measure("share", topic=topic, group=f"{topic}-share-{number}", **sizes),
        "share-body": lambda number: measure(
            "share", topic=topic, group=f"{topic}-share-body-{number}", is_body_only=True, **sizes
        ),
        "jbm": lambda number: measure("jbm", queue=topic, namespace=new_namespace(number), **sizes),
        "body": lambda number: measure("jbm", queue=topic, namespace=new_namespace(number), is_body_only=True, **sizes),
        "bound": lambda number: measure("jbm", queue=topic, namespace=new_namespace(number), is_bound=True, **sizes),
        **{mode: partial(_in_mode, mode, topic, sizes) for mode in ("client", "dups-ok", "pre", "selector")},
    }
    raw, machine = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s)
    names = list(runs)
    for number in plan.turns:
        first = number % len(names)  # none is always behind the same other
        for name in names[first:] + names[:first]:
            busy = machine.wait()
            said = runs[name](number)
            raw.append({"client": name, "repeat": number, "busy_before": busy, **said})
            progress(f"backlog {plan.turn_name(number)}: {name} {rate_of(said):,.0f} msg/s")
    counted = counted_rows(raw)
    rates = by_client(counted, rate_of)
    return ShapeResult(
        name="backlog",
        rows={CLIENTS_SAID[name]: row for name, row in rates.items()},
        cpu_us={CLIENTS_SAID[name]: row for name, row in by_client(counted, processor_us).items()},
        judgements=(
            Judgement("jbm / ShareConsumer (c/b)", ratio(rates["jbm"], rates["share"]), "at least", 0.5),
            Judgement("both the body only (c'/b')", ratio(rates["body"], rates["share-body"]), "at least", 0.5),
            Judgement("jbm / raw consume (c/a)", ratio(rates["jbm"], rates["raw"]), "at least", 0.3),
            Judgement("unit, id and a property read / body only", ratio(rates["jbm"], rates["body"]), "at least", 0.7),
        ),
        raw=raw,
    )


def _in_mode(client: str, topic: str, sizes: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    return measure(client, queue=topic, namespace=new_namespace(number), **sizes)


def send(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Sends that are waited for beside `produce` and `flush`, and sends with a callback beside raw ones."""
    counts = {
        "flush-raw": plan.sends,
        "one-by-one": plan.sends,
        "beside-flood": plan.sends_beside_flood,
        "callback-raw": plan.sends_with_callback,
        "callback": plan.sends_with_callback,
        "groups": plan.sends_with_callback,
    }
    raw, machine = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s)
    names = list(counts)
    for number in plan.turns:
        first = number % len(names)
        for name in names[first:] + names[:first]:
            topic = new_name("send")
            create_topic(cluster, topic, partitions=plan.partitions)
            busy = machine.wait()
            sizes: dict[str, Any] = {"count": counts[name], "units": plan.units, "body_bytes": plan.body_bytes}
            said = measure(name, cluster=cluster, topic=topic, **sizes)
            raw.append({"client": name, "repeat": number, "busy_before": busy, **said})
            progress(f"send {plan.turn_name(number)}: {name} {rate_of(said):,.0f} msg/s")
    counted = counted_rows(raw)
    rates = by_client(counted, rate_of)
    beside = [row for row in counted if row["client"] == "beside-flood"]
    return ShapeResult(
        name="send",
        rows={
            **{CLIENTS_SAID[name]: row for name, row in rates.items()},
            **{
                f"p{percent} of a PERSISTENT send beside a flood, ms": summary(
                    [row[f"p{percent}_ms"] for row in beside]
                )
                for percent in (50, 99)
            },
        },
        cpu_us={CLIENTS_SAID[name]: row for name, row in by_client(counted, processor_us).items()},
        judgements=(
            Judgement(
                "PERSISTENT send / produce and flush", ratio(rates["one-by-one"], rates["flush-raw"]), "at least", 0.5
            ),
            Judgement(
                "on_completion / produce with a callback",
                ratio(rates["callback"], rates["callback-raw"]),
                "at least",
                0.25,
            ),
        ),
        raw=raw,
    )


def held(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Return what a held unit with many messages behind it costs the other units.

    With and without are both bound to one processor, or the chance of where their threads run hides what is looked for.
    """
    raw, machine = list[Mapping[str, Any]](), QuietMachine(min(plan.quiet_patience_s, HELD_PATIENCE_S))
    for number in plan.turns:
        order = HELD_ORDER if number >= 0 else HELD_ORDER[:2]
        for is_held in order if number % 2 == 0 else [not is_held for is_held in order]:
            said = _held_run(cluster, plan, machine, is_held=is_held)
            raw.append({"client": "held" if is_held else "free", "repeat": number, **said})
            word = "with" if is_held else "without"
            progress(f"held {plan.turn_name(number)}: {word} the held unit {rate_of(said):,.0f} msg/s")
    counted = counted_rows(raw)
    rates = by_client(counted, rate_of)
    pairs = [_seconds(counted, number) for number in dict.fromkeys(row["repeat"] for row in counted)]
    cost = (1 - paired_ratio(pairs)) * 100
    return ShapeResult(
        name="held",
        rows={CLIENTS_SAID[name]: rates[name] for name in ("free", "held")},
        cpu_us={CLIENTS_SAID[name]: row for name, row in by_client(counted, processor_us).items()},
        judgements=(Judgement("cost of a held unit to the others", cost, "below", 10, "%"),),
        raw=raw,
    )


def _held_run(cluster: Cluster, plan: Plan, machine: QuietMachine, *, is_held: bool) -> Mapping[str, Any]:
    topic = new_name("held")
    sizes = {"partitions": plan.partitions, "body_bytes": plan.body_bytes}
    create_topic(cluster, topic, partitions=plan.partitions)
    if is_held:
        fill(cluster, topic, chain(repeat(HELD_UNIT, plan.held_behind + 1)), **sizes)
    options: dict[str, Any] = {"others": plan.held_others, "delay_ms": plan.held_delay_ms, "is_held": is_held}
    with MeasuredClient("held", is_bound=True, cluster=cluster, queue=topic, namespace="", **options) as receiver:
        receiver.wait_ready()
        fill(cluster, topic, spread_units(plan.held_others, units=plan.units), **sizes)
        busy = machine.wait()
        receiver.go_on()
        return {**receiver.result(), "busy_before": busy}


SHAPES: Mapping[str, Callable[[Cluster, Plan, Progress], ShapeResult]] = {
    "backlog": backlog,
    "latency": latency,
    "send": send,
    "forward": forward,
    "bridge": bridge,
    "handlers": handlers,
    "held": held,
    "subscriptions": subscriptions,
    "waiting": waiting,
}


def _seconds(raw: Sequence[Mapping[str, Any]], number: int) -> tuple[list[float], list[float]]:
    """Return what the runs of one repeat took without the held unit, and with it."""
    rows = [row for row in raw if row["repeat"] == number]
    free, beside = ([float(row["seconds"]) for row in rows if row["client"] == name] for name in ("free", "held"))
    return free, beside
