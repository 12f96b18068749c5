"""The shape `waiting`: very many messages that nobody may have yet in one process; what they cost the others."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jbm_kafka.bench.load import Kind, create_topic, fill, fill_with, spread_units
from jbm_kafka.bench.measured_client import MeasuredClient
from jbm_kafka.bench.numbers import Judgement, Summary, counted_rows, paired_ratio, summary
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.quiet import QuietMachine
from jbm_kafka.bench.shape_result import Progress, ShapeResult, new_name, new_namespace, processor_us, rate_of
from jbm_kafka.bench.waiting_client import CHOSEN, CHOSEN_BY_NOBODY, CHOSEN_LATER
from jbm_kafka.cli.cluster_settings import Cluster

DELAYED, DELAYED_UNITS, BLOCKED, UNCHOSEN = "delayed", "delayed units", "blocked", "unchosen"
RETURNED = "returned"
DELAY_MS = 24 * 3_600_000
"""Longer than any run."""
MEMORY_MB = 700
SPEED = 0.9
CHOSEN_ONE_OF = 10_000
HALVES = (False, True, True, False)
"""True where messages wait, in the order of one repeat: mere drift cancels out."""


@dataclass(slots=True)
class _Found:
    rows: dict[str, Summary] = field(default_factory=dict)
    cpu_us: dict[str, Summary] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)


def waiting(cluster: Cluster, plan: Plan, progress: Progress) -> ShapeResult:
    """Each kind alone, and all on queues of their own; memory, and the others' speed beside what the same has without.

    Each process is bound to one processor, as in the shape `held`.
    """
    raw, machine = list[Mapping[str, Any]](), QuietMachine(plan.quiet_patience_s)
    sets = [*((kind,) for kind in plan.waiting_kinds), plan.waiting_kinds]
    for number in plan.turns:
        for kinds in sets if len(plan.waiting_kinds) > 1 else sets[:1]:
            for waits in HALVES if number >= 0 else HALVES[:2]:
                said = _run(cluster, plan, machine, kinds, waits=waits)
                client = f"{' and '.join(kinds)}, {'waiting' if waits else 'without'}"
                raw.append({"client": client, "kinds": kinds, "waits": waits, "repeat": number, **said})
                speeds = ", ".join(f"{row['messages'] / row['seconds']:,.0f}" for row in said["queues"])
                progress(f"waiting {plan.turn_name(number)}: {client}: {speeds} msg/s, {said['most_mb']:,.0f} MB")
    found, counted = _Found(), counted_rows(raw)
    for kinds in dict.fromkeys(row["kinds"] for row in counted):
        _judge(" and ".join(kinds), [row for row in counted if row["kinds"] == kinds], found)
    return ShapeResult(name="waiting", rows=found.rows, judgements=found.judgements, raw=raw, cpu_us=found.cpu_us)


def _judge(name: str, mine: Sequence[Mapping[str, Any]], found: _Found) -> None:
    beside = [row for row in mine if row["waits"]]
    rows = found.rows
    rows[f"{name}: most memory, MB"] = most = summary([row["most_mb"] for row in beside])
    rows[f"{name}: memory when all is read, MB"] = summary([row["absorbed_mb"] for row in beside])
    rows[f"{name}: reading what waits, s"] = summary([row["absorbed_seconds"] for row in beside])
    later_s = [seconds for row in beside for seconds in row["later_seconds"]]
    if later_s:
        rows[f"{name}: until a selector that comes later has what it chooses, s"] = summary(later_s)
    for waits in (False, True):
        queues = [queue for row in mine if row["waits"] == waits for queue in row["queues"]]
        what = f"{name}: others, {'beside them' if waits else 'nothing waits'}, msg/s"
        rows[what] = summary([rate_of(queue) for queue in queues])
        found.cpu_us[what] = summary([processor_us(queue) for queue in queues])
    numbers = dict.fromkeys(row["repeat"] for row in mine)
    pairs = [_seconds(mine, number, "seconds") for number in numbers]
    cpu_pairs = [_seconds(mine, number, "cpu_seconds") for number in numbers]
    by_cpu = f"{name}: others beside them / without, by processor time"
    found.judgements.append(Judgement(f"{name}: most memory", most.high, "below", MEMORY_MB, "MB"))
    found.judgements.append(Judgement(f"{name}: others beside them / without", paired_ratio(pairs), "at least", SPEED))
    found.judgements.append(Judgement(by_cpu, paired_ratio(cpu_pairs), "at least", SPEED))


def _seconds(mine: Sequence[Mapping[str, Any]], number: int, clock: str) -> tuple[list[float], list[float]]:
    """Return what the others took by this clock in one repeat without what waits, and beside it."""
    rows = [row for row in mine if row["repeat"] == number]
    free, beside = (
        [queue[clock] for row in rows if row["waits"] == waits for queue in row["queues"]] for waits in (False, True)
    )
    return free, beside


def _run(
    cluster: Cluster, plan: Plan, machine: QuietMachine, kinds: Sequence[str], *, waits: bool
) -> Mapping[str, Any]:
    sizes = {"partitions": plan.partitions, "body_bytes": plan.body_bytes}
    queues: list[Mapping[str, Any]] = []
    for kind in kinds:
        topic = new_name(f"waiting-{kind.replace(' ', '-')}")
        create_topic(cluster, topic, partitions=plan.partitions)
        count = plan.waiting_messages[kind]
        if waits:
            fill_with(cluster, topic, _what_waits(kind, count, units=plan.units), **sizes)
        chosen = -(-count // CHOSEN_ONE_OF) if waits and kind == UNCHOSEN else 0
        returned = count if waits and kind == RETURNED else 0
        queues.append({"name": topic, "is_selecting": kind == UNCHOSEN, "chosen": chosen, "returned": returned})
    options: dict[str, Any] = {"queues": queues, "others": plan.waiting_others, "namespace": new_namespace(0)}
    with MeasuredClient("waiting", is_bound=True, cluster=cluster, **options) as receiver:
        receiver.wait_ready()
        busy = 0.0
        for queue in queues:
            others = (f"other-{unit}" for unit in spread_units(plan.waiting_others, units=plan.units))
            fill(cluster, queue["name"], others, **sizes)
            busy = max(busy, machine.wait())
            receiver.go_on()
            receiver.wait_ready()
        return {**receiver.result(), "busy_before": busy}


def _what_waits(kind: str, count: int, *, units: int) -> Iterator[tuple[str | None, Kind]]:
    """So many messages of one kind of waiting; of those that wait for a selector one in 10,000 is for the first, and
    one for the one that comes later."""
    at_once, later = Kind(), Kind(delivery_time_ms=int(time.time() * 1000) + DELAY_MS)
    if kind == DELAYED:
        return ((None, later) for _ in range(count))
    if kind in (DELAYED_UNITS, RETURNED):
        return ((f"order-{number}", later if kind == DELAYED_UNITS else at_once) for number in range(count))
    if kind == BLOCKED:
        return (
            (unit, later if number < units else at_once) for number, unit in enumerate(spread_units(count, units=units))
        )
    chosen = {0: Kind(CHOSEN), 1: Kind(CHOSEN_LATER)}
    unchosen = Kind(CHOSEN_BY_NOBODY)
    return ((None, chosen.get(number % CHOSEN_ONE_OF, unchosen)) for number in range(count))
