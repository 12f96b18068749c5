"""Plots of the queries of docs/spark-events.md, for a notebook: each takes their rows and gives a figure.

The rows are collected: give what a query has counted, not messages.
"""

from typing import TYPE_CHECKING, Any

from jbm_spark.errors import SparkJobError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

_RED, _BLUE, _GREY = "#c0392b", "#2c6fbb", "#9aa5b1"
ROWS_MAX = 10_000
"""More than a plot can show."""


def latency(by_hour: "DataFrame") -> "Figure":
    """From send to acknowledgement over time: columns `hour`, `p50_ms`, `p99_ms`.

    Raises:
        SparkJobError: matplotlib is not installed, or a column is missing.
    """
    hours, median, late = _columns(by_hour, "hour", "p50_ms", "p99_ms")
    figure, axes = _figure("from send to acknowledgement", "ms")
    axes.plot(hours, late, color=_RED, marker="o", label="99 of 100 within")
    axes.plot(hours, median, color=_BLUE, marker="o", label="half of them within")
    axes.set_yscale("log")
    axes.legend()
    figure.autofmt_xdate()
    return figure


def waiting_units(units: "DataFrame") -> "Figure":
    """The units that wait, and whether their first message may be received: columns `unit_of_order`, `head`, `waiting`.

    Raises:
        As `latency`.
    """
    names, heads, waiting = _columns(units, "unit_of_order", "head", "waiting")
    figure, axes = _figure("messages that wait", "")
    colours = [_BLUE if head == "ready" else _RED for head in heads]
    axes.barh([str(name) for name in names], waiting, color=colours)
    axes.invert_yaxis()
    axes.set_xlabel("red: the first one is delayed or on hold, and the others wait for it")
    return figure


def busiest_partition(by_count: "DataFrame") -> "Figure":
    """Return what more partitions would bring: columns `partitions`, `busiest_share`, from 0 to 1.

    Raises:
        As `latency`.
    """
    counts, shares = _columns(by_count, "partitions", "busiest_share")
    figure, axes = _figure("share of the busiest partition", "")
    places = list(range(len(counts)))
    axes.bar(places, shares, color=_BLUE, label="as units are")
    axes.plot(places, [1 / count for count in counts], color=_GREY, marker="o", label="if they were even")
    axes.set_xticks(places, [str(count) for count in counts])
    axes.set_xlabel("partitions")
    axes.legend()
    return figure


def reconciliation(outcomes: "DataFrame") -> "Figure":
    """Return what became of the rows of an outside table: columns `outcome`, `orders`.

    Raises:
        As `latency`.
    """
    names, counts = _columns(outcomes, "outcome", "orders")
    figure, axes = _figure("outside table against the queue", "")
    bars = axes.bar([str(name) for name in names], counts, color=[_BLUE if name == "done" else _RED for name in names])
    axes.bar_label(bars)
    return figure


def _columns(frame: "DataFrame", *names: str) -> list[list[Any]]:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise SparkJobError(f"the plot needs a column {missing[0]}; there are {', '.join(frame.columns)}")
    rows = frame.select(*names).limit(ROWS_MAX).collect()
    return [[row[name] for row in rows] for name in names]


def _figure(title: str, unit: str) -> "tuple[Figure, Axes]":
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError:
        raise SparkJobError("plots need matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title)
    axes.set_ylabel(unit)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
