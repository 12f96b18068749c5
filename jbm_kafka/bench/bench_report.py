"""The findings of a run, as a table for people and as JSON for everything else."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import confluent_kafka
from rich.console import Console
from rich.table import Table

from jbm_kafka import compiled
from jbm_kafka.bench.numbers import Judgement
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.shape_result import ShapeResult

PROPERTY_OPTION = "--kafka-property"
PACKAGES = ("jbm-kafka", "confluent-kafka", "fastavro", "rocksdict", "pyroaring")


def print_tables(results: Sequence[ShapeResult], console: Console) -> None:
    """Figures first, then what they are judged by."""
    figures = Table(title="Measured", title_justify="left")
    for column in ("shape", "what"):
        figures.add_column(column)
    for column in ("median", "least", "greatest", "spread", "CPU us each"):
        figures.add_column(column, justify="right")
    judged = Table(title="Targets", title_justify="left")
    judged.add_column("figure")
    for column in ("value", "target"):
        judged.add_column(column, justify="right")
    judged.add_column("")
    for result in results:
        for what, row in result.rows.items():
            numbers = [_number(value) for value in (row.median, row.low, row.high)]
            figures.add_row(result.name, what, *numbers, f"{row.spread:.0%}", _cost(result, what))
        for judgement in result.judgements:
            word = "[green]met[/green]" if judgement.passed else "[red]missed[/red]"
            judged.add_row(judgement.name, _valued(judgement), _target(judgement), word)
    console.print(figures)
    console.print(judged)


def command_line(arguments: Sequence[str]) -> str:
    """The command as it was given, without the values of Kafka's properties: some are secrets."""
    words = ["jbm-kafka"]
    for word in arguments[1:]:
        is_property = words[-1] == PROPERTY_OPTION or word.startswith(f"{PROPERTY_OPTION}=")
        name = word.removeprefix(f"{PROPERTY_OPTION}=").partition("=")[0]
        option = f"{PROPERTY_OPTION}=" if word.startswith(f"{PROPERTY_OPTION}=") else ""
        words.append(f"{option}{name}=..." if is_property else word)
    return " ".join(words)


def as_json(results: Sequence[ShapeResult], plan: Plan, *, kafka: str, is_own_broker: bool) -> dict[str, object]:
    """Everything: where and how it was measured, every raw number, and the verdicts."""
    return {
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": command_line(sys.argv),
        "git_commit": git_commit(),
        "machine": machine(),
        "versions": versions(),
        "compiled_modules": compiled.are_used(),
        "kafka": {"version": kafka, "is_own_broker": is_own_broker},
        "plan": asdict(plan),
        "shapes": {result.name: _shape(result) for result in results},
    }


def machine() -> Mapping[str, object]:
    """Return what it was measured on."""
    try:
        load = os.getloadavg()
        memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        load, memory_bytes = (0.0, 0.0, 0.0), 0
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": memory_bytes,
        "load_average": load,
    }


def versions() -> Mapping[str, str]:
    """Return the versions of Python and of what does the work."""
    found = {"python": platform.python_version(), "librdkafka": confluent_kafka.libversion()[0]}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "?"
    return found


def git_commit() -> str | None:
    """The commit that was measured, with `-dirty` when the tree had changes; None outside of a repository."""
    folder = Path(__file__).parent
    try:
        said = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude", "*"],
            cwd=folder, capture_output=True, text=True, check=True,
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return None
    return said.stdout.strip()


def _shape(result: ShapeResult) -> Mapping[str, Any]:
    return {
        "figures": {what: {**asdict(row), "spread": row.spread} for what, row in result.rows.items()},
        "cpu_us_per_message": {what: asdict(row) for what, row in result.cpu_us.items()},
        "judgements": [{**asdict(judgement), "passed": judgement.passed} for judgement in result.judgements],
        "raw": list(result.raw),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def _cost(result: ShapeResult, what: str) -> str:
    cost = result.cpu_us.get(what)
    return "" if cost is None else f"{cost.median:.1f}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"


def _valued(judgement: Judgement) -> str:
    return f"{judgement.value:.2f} {judgement.unit}".rstrip()


def _target(judgement: Judgement) -> str:
    return f"{judgement.bound} {judgement.target:g} {judgement.unit}".rstrip()
