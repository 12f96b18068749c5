"""The statistics of a connection as metrics of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from operator import attrgetter
from typing import Literal, NamedTuple, Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.statistics import BOUNDS_S, Health, Histogram, Statistics

BY_SOURCE = ("destination", "subscription")
BY_DESTINATION = ("destination",)
BY_KIND = (*BY_SOURCE, "kind")
KINDS = ("deliverable", "delayed", "blocked", "in_hand")
"""Of the kinds of `HeldKind` those that a receiving process tells apart."""
Labels = tuple[str, ...]


class Watched(Protocol):
    """A connection, or a server that has many."""

    def statistics(self) -> Statistics:
        """Return what was counted so far; raises IllegalStateError when it is closed."""

    def health(self, timeout: float | None, /) -> Health:
        """How it fares."""


class MetricSpec(NamedTuple):
    """One metric: its name, and where its value stands in the statistics."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: Labels
    field: str
    """A row of `destinations` has the field where there are labels, `{kind}` for each of KINDS; else the statistics."""
    text: str

    @property
    def exposed(self) -> str:
        """The name in queries; of a histogram without `_bucket`, `_sum` and `_count`."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


METRICS = (
    MetricSpec("jbm_messages_sent", "counter", BY_DESTINATION, "sent", "Messages that this connection sent."),
    MetricSpec(
        "jbm_messages_handed_over",
        "counter",
        BY_SOURCE,
        "handed_over",
        "Messages that receivers were given, each time.",
    ),
    MetricSpec("jbm_messages_acknowledged", "counter", BY_SOURCE, "acknowledged", "Messages that receivers settled."),
    MetricSpec(
        "jbm_messages_returned",
        "counter",
        BY_SOURCE,
        "returned",
        "Messages that came back after an application had them.",
    ),
    MetricSpec(
        "jbm_messages_given_up", "counter", BY_SOURCE, "given_up", "Messages that became dead letters, or were dropped."
    ),
    MetricSpec(
        "jbm_messages_expired", "counter", BY_SOURCE, "expired", "Messages that left because their time was up."
    ),
    MetricSpec("jbm_messages_held", "gauge", BY_SOURCE, "held", "Messages that are not settled."),
    MetricSpec(
        "jbm_messages_deliverable",
        "gauge",
        BY_SOURCE,
        "deliverable",
        "Of the held, those that a receiver could have now.",
    ),
    MetricSpec("jbm_messages_delayed", "gauge", BY_SOURCE, "delayed", "Of the held, those that wait for a time."),
    MetricSpec(
        "jbm_messages_blocked",
        "gauge",
        BY_SOURCE,
        "blocked",
        "Of the held, those that wait for an earlier one of their unit, a selector, or an operator.",
    ),
    MetricSpec(
        "jbm_messages_unacknowledged", "gauge", BY_SOURCE, "unacknowledged", "Of the held, those that receivers have."
    ),
    MetricSpec(
        "jbm_messages_oldest_held_seconds",
        "gauge",
        BY_SOURCE,
        "oldest_held_s",
        "How long the oldest message has been there; 0 where nothing is held.",
    ),
    MetricSpec(
        "jbm_messages_oldest_seconds",
        "gauge",
        BY_KIND,
        "oldest_{kind}_s",
        "How long the oldest message of each kind has been there.",
    ),
    MetricSpec("jbm_log_records", "gauge", BY_DESTINATION, "log_records", "Records that the log keeps."),
    MetricSpec(
        "jbm_log_records_deletable", "gauge", BY_DESTINATION, "log_deletable", "Of them, those that nobody needs."
    ),
    MetricSpec(
        "jbm_log_records_for_receivers",
        "gauge",
        BY_DESTINATION,
        "log_for_receivers",
        "Of them, those from the oldest on that a queue or subscription has not settled.",
    ),
    MetricSpec(
        "jbm_log_records_for_branches",
        "gauge",
        BY_DESTINATION,
        "log_for_branches",
        "Of them, those from the oldest on that a prepared branch of a transaction has.",
    ),
    MetricSpec(
        "jbm_log_records_for_readers",
        "gauge",
        BY_DESTINATION,
        "log_for_readers",
        "Of them, those from the oldest on that a registered reader or a dead letter without its body needs.",
    ),
    MetricSpec(
        "jbm_log_records_for_groups",
        "gauge",
        BY_DESTINATION,
        "log_for_groups",
        "Of them, those from the oldest on that a consumer group of another program needs.",
    ),
    MetricSpec(
        "jbm_handler_duration_seconds",
        "histogram",
        BY_DESTINATION,
        "handler_seconds",
        "Time in handlers and listeners.",
    ),
    MetricSpec(
        "jbm_handler_timeouts",
        "counter",
        BY_DESTINATION,
        "handler_timeouts",
        "Handlers that ran for longer than their timeout_s.",
    ),
    MetricSpec("jbm_handlers_overdue", "gauge", BY_DESTINATION, "handlers_overdue", "Of them, those that run still."),
    MetricSpec(
        "jbm_handler_pauses",
        "counter",
        BY_DESTINATION,
        "handler_pauses",
        "Pauses of handlers that failed too often in a row (pause_on).",
    ),
    MetricSpec("jbm_handlers_paused", "gauge", BY_DESTINATION, "handlers_paused", "Handlers in such a pause."),
    MetricSpec(
        "jbm_send_to_acknowledge_duration_seconds",
        "histogram",
        BY_SOURCE,
        "send_to_acknowledge_seconds",
        "From the sending of a message to its acknowledgement; one of those that are acknowledged together.",
    ),
    MetricSpec("jbm_checkpoint_duration_seconds", "histogram", (), "checkpoint_seconds", "Time to record something."),
    MetricSpec(
        "jbm_checkpoint_failures", "counter", (), "checkpoint_failures", "Checkpoints that failed and were tried again."
    ),
    MetricSpec("jbm_reconnects", "counter", (), "reconnects", "Connections to brokers that receivers lost."),
    MetricSpec("jbm_rebalances", "counter", (), "rebalances", "How often partitions came or went."),
    MetricSpec(
        "jbm_memory_used_bytes", "gauge", (), "memory_used_bytes", "What messages take that are read and not settled."
    ),
    MetricSpec("jbm_memory_budget_bytes", "gauge", (), "memory_budget_bytes", "The setting memory_budget_bytes."),
    MetricSpec("jbm_clients", "gauge", (), "clients", "AMQP clients that are connected to this sidecar."),
    MetricSpec("jbm_client_links", "gauge", (), "client_links", "What they send and receive by."),
    MetricSpec(
        "jbm_clients_refused",
        "counter",
        (),
        "clients_refused",
        "AMQP clients that were turned away: too many, too slow in line, or with a wrong password.",
    ),
    MetricSpec("jbm_store_waiting", "gauge", (), "store_waiting", "Sends that wait in the store beside the sender."),
    MetricSpec("jbm_store_bytes", "gauge", (), "store_bytes", "What they take there."),
    MetricSpec("jbm_store_oldest_seconds", "gauge", (), "store_oldest_seconds", "How long the oldest of them waits."),
    MetricSpec("jbm_store_dead_letters", "gauge", (), "store_set_aside", "Sends that were set aside in that store."),
    MetricSpec(
        "jbm_store_full_ratio",
        "gauge",
        (),
        "store_full_ratio",
        "How near that store is to refusing sends, by its limits or its disk; 1: it does.",
    ),
)
"""Dashboards name them: a name stays. `jbm-kafka docs metrics` shows them."""


class JbmCollector(Collector):
    """Gives a Prometheus registry the metrics of a connection, which are counted anyway.

    Register one for a process and cluster: connections that share their settings share what is counted of receivers.
    After the connection is closed there are no metrics of it.
    """

    def __init__(self, connection: Watched) -> None:
        self._connection = connection

    def describe(self) -> Iterable[Metric]:
        """The metrics without values: registering asks nobody."""
        return [_family(spec) for spec in METRICS]

    def collect(self) -> Iterator[Metric]:
        """The metrics as of now; see `Connection.statistics`."""
        try:
            statistics = self._connection.statistics()
        except IllegalStateError:
            return
        for spec in METRICS:
            family = _family(spec)
            for labels, value in _values(spec, statistics):
                _add(family, labels, value)
            yield family


def _values(spec: MetricSpec, statistics: Statistics) -> Iterator[tuple[list[str], float | Histogram]]:
    if spec.labels == BY_KIND:
        for row, kind in product(statistics.destinations, KINDS):
            yield [row.destination, row.subscription, kind], getattr(row, spec.field.format(kind=kind))
        return
    read = attrgetter(spec.field)
    if not spec.labels:
        yield [], read(statistics)
        return
    for row in statistics.destinations:
        if spec.labels == BY_SOURCE:
            yield [row.destination, row.subscription], read(row)
        elif not row.subscription:  # what a connection counts by itself stands in these rows
            yield [row.destination], read(row)


def _family(spec: MetricSpec) -> Metric:
    if spec.kind == "counter":
        return CounterMetricFamily(spec.name, spec.text, labels=spec.labels)
    if spec.kind == "gauge":
        return GaugeMetricFamily(spec.name, spec.text, labels=spec.labels)
    return HistogramMetricFamily(spec.name, spec.text, labels=spec.labels)


def _add(family: Metric, labels: list[str], value: float | Histogram) -> None:
    if isinstance(family, HistogramMetricFamily):
        assert isinstance(value, Histogram), family.name
        buckets, below = [], 0
        for bound, count in zip([*map(str, BOUNDS_S), "+Inf"], value.counts, strict=True):
            below += count
            buckets.append((bound, below))
        family.add_metric(labels, buckets, value.sum_s)
    elif isinstance(family, CounterMetricFamily | GaugeMetricFamily):
        assert not isinstance(value, Histogram), family.name
        family.add_metric(labels, value)
