"""Lets Spark read the same topics: its dead-letter job runs in a process of its own, and its figures count too."""

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from jbm_kafka.cli.cluster_settings import Cluster, environment_of
from jbm_kafka.demo.bookstore import DEAD_LETTERS, Names
from jbm_kafka.demo.check import Figure
from jbm_kafka.demo.demo_error import DemoError
from jbm_kafka.pyspark_hint import install_hint

TIMEOUT_S = 150.0
GRACE_S = 5.0


def spark_needed() -> None:
    """Raises DemoError when the Spark part is not installed; checked before the work, not after it."""
    if importlib.util.find_spec("jbm_spark") is None:
        raise DemoError("jbm-kafka's Spark part is not installed: leave it out with --no-spark")
    if importlib.util.find_spec("pyspark") is None:
        raise DemoError(f"PySpark is not installed: {install_hint()}, or leave it out with --no-spark")


def spark_report(cluster: Cluster, names: Names) -> dict[str, Any]:
    """Return what Spark's dead-letter job says of the dead letters and of the orders' queue.

    Raises:
        DemoError: it could not be done; the job's own line says why.
    """
    command = [sys.executable, "-m", "jbm_spark.cli", "dead-letters", "--json"]
    command += ["--from", DEAD_LETTERS, "--queue", names.orders, "--top", "3"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env=environment_of(cluster, os.environ),
    )  # fmt: skip
    try:
        said, complained = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise DemoError(f"Spark's job did not end within {TIMEOUT_S:g} s") from None
    finally:
        _end(process)
    if process.returncode != 0:
        lines = complained.strip().splitlines()
        raise DemoError(f"Spark's job failed: {lines[-1] if lines else 'it said nothing'}")
    report: dict[str, Any] = json.loads(said.strip().splitlines()[-1])
    return report


def _end(process: subprocess.Popen[str]) -> None:
    """Nothing of it runs any more, neither Python nor its JVM; with a moment to remove its temporary files."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def figures(report: dict[str, Any], names: Names, *, messages: int, letters: int) -> list[Figure]:
    """Return what Spark counted, beside what it must be."""
    ours = sum(group["count"] for group in report["groups"] if group["destination"] == names.group)
    return [
        Figure("Spark: messages of the queue", report["queue"]["count"], messages),
        Figure("Spark: dead letters of the queue", ours, letters),
    ]


def show(report: dict[str, Any], names: Names, console: Console) -> None:
    """The dead letters by reason, this run's on top; others share the queue."""
    table = Table(title=f"{DEAD_LETTERS} by reason, read by Spark", title_justify="left", title_style="bold")
    for column in ("reason", "from", "letters", "attempts", "units"):
        table.add_column(column, justify="right" if column in ("letters", "attempts") else "left", overflow="fold")
    ordered = sorted(report["groups"], key=lambda group: group["destination"] != names.group)
    for group in ordered[:5]:
        texts = (group["reason"], group["destination"], group["count"], group["attempts_max"])
        cells = [Text("" if text is None else str(text)) for text in texts]
        table.add_row(*cells, Text(", ".join(group["example_units"])))
    if len(ordered) > 5:
        table.caption = f"and {len(ordered) - 5} more"
    console.print(table)
