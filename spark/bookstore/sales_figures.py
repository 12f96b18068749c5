"""The figures of a day, from the topics: turnover, how long orders took, and whose they were. SQL, and a plot each."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from pyspark.sql import SparkSession

from bookstore.store_queues import Store
from jbm_kafka import Queue
from jbm_spark import plots
from jbm_spark.messages import messages
from jbm_spark.views import create_views

_TURNOVER = """
    WITH told AS (
        SELECT from_json(body_text, 'hour timestamp, title string, cents bigint') AS t, kafka.offset AS place
        FROM {messages}
    )
    SELECT date_format(t.hour, 'yyyy-MM-dd HH:mm') AS hour, t.title, max_by(t.cents, place) AS cents
    FROM told GROUP BY 1, 2 ORDER BY 1, 2
"""
_TIMED = """
    WITH done AS (
        SELECT partition, explode(sequence(offset, last_offset)) AS offset, at_ms
        FROM shop_events WHERE fate = 'acknowledged'
    )
    SELECT m.timestamp, m.unit_of_order, d.at_ms - unix_millis(m.timestamp) AS ms
    FROM shop_messages m JOIN done d ON d.partition = m.kafka.partition AND d.offset = m.kafka.offset
"""
_PERCENTILES = """
    SELECT count(*) AS messages, percentile(ms, array(0.5, 0.9, 0.99, 1.0)) AS ms FROM {timed}
"""
_OVER_TIME = """
    SELECT window(timestamp, '5 seconds').start AS hour, percentile(ms, 0.5) AS p50_ms, percentile(ms, 0.99) AS p99_ms
    FROM {timed} GROUP BY 1 ORDER BY 1
"""
_UNITS = """
    WITH failed AS (
        SELECT unit_of_order, count_if(fate = 'returned') AS returned, count_if(fate = 'dead-lettered') AS given_up
        FROM shop_events WHERE unit_of_order IS NOT NULL GROUP BY 1
    ), timed AS (SELECT unit_of_order, max(ms) AS slowest_ms FROM {timed} GROUP BY 1)
    SELECT m.unit_of_order AS unit, count(*) AS messages, coalesce(first(f.returned), 0) AS returned,
           coalesce(first(f.given_up), 0) AS given_up, first(t.slowest_ms) AS slowest_ms
    FROM shop_messages m LEFT JOIN failed f USING (unit_of_order) LEFT JOIN timed t USING (unit_of_order)
    GROUP BY 1 ORDER BY messages DESC, unit LIMIT 10
"""


@dataclass(frozen=True, slots=True)
class Turnover:
    """The turnover of one title in one hour."""

    hour: str
    """In UTC: `2026-11-20 09:00`."""
    title: str
    cents: int


@dataclass(frozen=True, slots=True)
class Unit:
    """One customer, as a queue saw him."""

    name: str
    messages: int
    returned: int
    given_up: int
    slowest_ms: int | None
    """From send to acknowledgement; None: nothing was acknowledged."""


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """How long the messages of a queue took, and its ten busiest units."""

    queue: str
    acknowledged: int
    percentiles_ms: tuple[float, ...]
    """Within which half of the messages, 90 of 100, 99 of 100 and all were acknowledged."""
    over_time: Figure
    units: tuple[Unit, ...]


def turnover_of(spark: SparkSession, store: Store, cluster: Mapping[str, Any]) -> list[Turnover]:
    """Return what the turnover's topic said last of each hour and title."""
    rows = spark.sql(_TURNOVER, messages=messages(spark, store.turnover, **cluster)).collect()
    return [Turnover(row["hour"], row["title"], row["cents"]) for row in rows]


def queue_figures(spark: SparkSession, queue: Queue, store: Store, cluster: Mapping[str, Any]) -> QueueFigures:
    """From the queue's messages and what became of them."""
    create_views(spark, queue, dead_letters=store.dead_letters, prefix="shop_", **cluster)
    timed = spark.sql(_TIMED).localCheckpoint()  # cached, it would be planned with all that it is made of in each query
    [(count, percentiles)] = spark.sql(_PERCENTILES, timed=timed).collect()
    units = spark.sql(_UNITS, timed=timed).collect()
    over_time = plots.latency(spark.sql(_OVER_TIME, timed=timed))
    return QueueFigures(queue.name, count, tuple(percentiles or ()), over_time, tuple(Unit(*row) for row in units))


def turnover_plot(told: Sequence[Turnover]) -> Figure:
    """A bar for each hour, the titles upon each other."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    axes.set_prop_cycle(color=[mpl.colormaps["tab20"](number) for number in range(20)])  # the default are ten
    hours = sorted({each.hour for each in told})
    below = [0.0] * len(hours)
    for title in sorted({each.title for each in told}):
        cents = {each.hour: each.cents for each in told if each.title == title}
        euros = [cents.get(hour, 0) / 100 for hour in hours]
        axes.bar([hour[-5:] for hour in hours], euros, bottom=below, label=title)
        below = [one + other for one, other in zip(below, euros, strict=True)]
    axes.set_title("turnover by hour and title, EUR")
    legend = figure.legend(loc="outside right upper", fontsize="small")
    for text in legend.get_texts():
        text.set_parse_math(False)  # a title may have two dollars
    return figure


def svg(figure: Figure, name: str) -> str:
    """For a page: text stays text, what is black has the page's colour, and what is white is the page. Ids are no other
    figure's, if no other has that name."""
    sink = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "svg.id": name}):
        figure.savefig(sink, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    text = sink.getvalue()
    return text[text.index("<svg") :].replace("#000000", "currentColor").replace("#ffffff", "var(--page)")
