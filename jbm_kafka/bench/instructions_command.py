"""`jbm-kafka bench-instructions`: counts, compares with a saved result, prints a table, writes JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from jbm_kafka import compiled
from jbm_kafka.bench.bench_command import MISSED, broker_to_measure, make_folder_of
from jbm_kafka.bench.bench_report import command_line, git_commit, machine, versions
from jbm_kafka.bench.instructions import (
    FEW,
    MANY,
    MAY_GROW,
    REFERENCE,
    SHAPES,
    InstructionComparison,
    InstructionCount,
    compare,
    count_shape,
    find_valgrind,
    read_result,
)
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole


@click.command()
@click.option("--shape", "shapes", type=click.Choice(list(SHAPES)), multiple=True, help="Only this one; repeatable.")
@click.option(
    "--repeats", type=Whole(1), metavar="N", default=4, show_default=True, help="Runs of each; the least counts."
)
@click.option(
    "--against",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=REFERENCE,
    show_default="the counts of 23ac797",
    help="The saved result to compare with.",
)
@click.option(
    "--json",
    "json_path",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("bench-results/instructions.json"),
    show_default=True,
    help="Where the result is saved.",
)
@click.option("--check", is_flag=True, help=f"Exit with 1 when a shape costs over {MAY_GROW:.0%} more than there.")
@cluster_options
def bench_instructions(
    shapes: tuple[str, ...], repeats: int, against: Path, json_path: Path, check: bool, cluster: Cluster
) -> int:
    """Instructions of the processor per message, counted by valgrind, beside those of an earlier version.

    Where no cluster is named, beside a fresh local broker, started for the run and removed after it.
    """
    find_valgrind()  # said before a broker is started
    reference = read_result(against)
    make_folder_of(json_path)
    console = Console()
    with broker_to_measure(cluster) as (reached, version):
        counted = {
            name: count_shape(
                name,
                reached,
                repeats=repeats,
                progress=lambda text: console.print(f"[dim]{text}[/dim]", highlight=False),
            )
            for name in SHAPES
            if not shapes or name in shapes
        }
    rows = compare(counted, reference)
    print_comparison(rows, str(reference.get("git_commit") or against)[:12], console)
    if compiled.are_used() != reference.get("compiled_modules", True):
        console.print("one of the two was counted without its compiled modules: `make setup` compiles", highlight=False)
    json_path.write_text(json.dumps(as_json(counted, kafka=version), indent=1) + "\n", encoding="utf-8")
    console.print(f"the result is in {json_path}", highlight=False)
    return MISSED if check and not all(row.passed for row in rows) else 0


def print_comparison(rows: Sequence[InstructionComparison], reference: str, console: Console) -> None:
    """One line a shape."""
    table = Table(title="Instructions per message", title_justify="left")
    table.add_column("shape")
    for column in ("now", reference, "more"):
        table.add_column(column, justify="right")
    table.add_column(f"at most {MAY_GROW:.0%} more")
    for row in rows:
        word = "[green]met[/green]" if row.passed else "[red]missed[/red]"
        known = row.reference is not None
        before, growth = (f"{row.reference:,.0f}", f"{row.growth:+.1%}") if known else ("", "")
        table.add_row(row.shape, f"{row.per_message:,.0f}", before, growth, word if known else "not counted there")
    console.print(table)


def as_json(counted: Mapping[str, InstructionCount], *, kafka: str) -> dict[str, object]:
    """Everything that was counted, where and how."""
    return {
        "command": command_line(sys.argv),
        "git_commit": git_commit(),
        "machine": {name: value for name, value in machine().items() if name != "load_average"},
        "versions": versions(),
        "compiled_modules": compiled.are_used(),
        "kafka": kafka,
        "messages": {"many": MANY, "few": FEW},
        "shapes": {name: asdict(row) for name, row in counted.items()},
    }
