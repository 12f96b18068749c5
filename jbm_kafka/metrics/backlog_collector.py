"""The metrics of what queues and subscriptions hold, from topics alone: for everybody who follows a namespace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from jbm_kafka.core.channel.backlog import Backlog, Backlogs
from jbm_kafka.core.channel.held_in_order import HeldKind
from jbm_kafka.metrics.collector import BY_KIND, BY_SOURCE


class BacklogSpec(NamedTuple):
    """One metric: its name and labels, and the values that it has of one backlog, or of all."""

    name: str
    labels: tuple[str, ...]
    text: str


def _of(name: str, text: str, labels: tuple[str, ...] = BY_SOURCE) -> BacklogSpec:
    return BacklogSpec(f"jbm_{name}", labels, text)


HELD = _of(
    "backlog_messages", "Messages that are not settled, by kind; where they are too many to be counted, none.", BY_KIND
)
HELD_AT_MOST = _of("backlog_held", "Messages that are not settled; where they were not counted, at most.")
COUNTED = _of("backlog_counted", "1 where the messages were counted, 0 where they are too many.")
OLDEST = _of("backlog_oldest_seconds", "How long the oldest message of each kind has been there.", BY_KIND)
OLDEST_HELD = _of("backlog_oldest_held_seconds", "How long the oldest message has been there; 0 where nothing is held.")
UNCOMMITTED = _of("backlog_uncommitted_records", "Records behind open transactions of Kafka.")
LOG = _of("backlog_log_records", "Records that the log must keep for it, from its oldest held message on.")
PARKED = _of("backlog_parked", "Held messages that stand in the changelog, and not in the log.")
RECEIVERS = _of("backlog_receivers", "Processes that receive.")
RECEIVING_PAUSED = _of("backlog_receiving_paused", "1 where an operator has paused receiving.")
SENDING_PAUSED = _of("backlog_sending_paused", "1 where an operator has paused sending.")
PREPARED = _of("prepared_branches", "Prepared branches that wait for their transaction managers.", ())
OLDEST_PREPARED = _of("prepared_branch_oldest_seconds", "How long the oldest of them has waited.", ())
LOOKED = _of("backlog_look_timestamp_seconds", "When it was looked last, in seconds since the epoch.", ())
UNREADABLE = _of("backlog_unreadable", "Queues and subscriptions that could not be looked into.", ())
BY_QUERY = ("destination", "query")
QUERY_RECORDS = _of("spark_query_behind_records", "Records that a query or archive of Spark has not read.", BY_QUERY)
QUERY_AGE = _of("spark_query_behind_seconds", "How long the oldest of them has been there.", BY_QUERY)

SPECS = (
    *(HELD, HELD_AT_MOST, COUNTED, OLDEST, OLDEST_HELD, UNCOMMITTED, LOG, PARKED, RECEIVERS),
    *(RECEIVING_PAUSED, SENDING_PAUSED, PREPARED, OLDEST_PREPARED, LOOKED, UNREADABLE, QUERY_RECORDS, QUERY_AGE),
)
"""Rules and dashboards name them: a name stays. All are gauges. `jbm-kafka docs metrics` shows them."""


class BacklogCollector(Collector):
    """Gives a Prometheus registry what `latest` tells; it waits for nobody."""

    def __init__(self, latest: Callable[[], Backlogs | None], now_ms: Callable[[], int]) -> None:
        """`now_ms`: the time by which ages are told, in milliseconds since the epoch."""
        self._latest = latest
        self._now_ms = now_ms

    def describe(self) -> Iterable[Metric]:
        """The metrics without values."""
        return list(_families().values())

    def collect(self) -> Iterator[Metric]:
        """The metrics as of the latest look; none before the first."""
        found = self._latest()
        if found is None:
            return
        families, now_ms = _families(), self._now_ms()
        for each in found.backlogs:
            _add(families, each, now_ms)
        families[PREPARED].add_metric([], found.prepared)
        families[OLDEST_PREPARED].add_metric([], _age_s(found.oldest_prepared_at_ms, now_ms))
        families[LOOKED].add_metric([], found.looked_at_ms / 1_000)
        families[UNREADABLE].add_metric([], len(found.unreadable))
        for lag in found.queries:
            families[QUERY_RECORDS].add_metric([lag.destination, lag.query], lag.records)
            families[QUERY_AGE].add_metric([lag.destination, lag.query], _age_s(lag.oldest_at_ms, now_ms))
        yield from families.values()


def _families() -> dict[BacklogSpec, GaugeMetricFamily]:
    return {spec: GaugeMetricFamily(spec.name, spec.text, labels=spec.labels) for spec in SPECS}


def _add(families: dict[BacklogSpec, GaugeMetricFamily], backlog: Backlog, now_ms: int) -> None:
    source = [backlog.destination, backlog.subscription]
    if backlog.is_counted:
        for kind in HeldKind:
            # Kinds without a message too: a rule over a series that comes and goes fires late, and resolves never.
            families[HELD].add_metric([*source, kind.value], backlog.counts.get(kind, 0))
            families[OLDEST].add_metric([*source, kind.value], _age_s(backlog.oldest_at_ms.get(kind), now_ms))
    values: dict[BacklogSpec, float] = {
        HELD_AT_MOST: backlog.held,
        COUNTED: backlog.is_counted,
        OLDEST_HELD: _age_s(backlog.oldest_held_at_ms, now_ms),
        UNCOMMITTED: backlog.uncommitted,
        LOG: backlog.log_records,
        PARKED: backlog.parked,
        RECEIVERS: backlog.receivers,
        RECEIVING_PAUSED: backlog.is_receiving_paused,
        SENDING_PAUSED: backlog.is_sending_paused,
    }
    for spec, value in values.items():
        families[spec].add_metric(source, value)


def _age_s(at_ms: int | None, now_ms: int) -> float:
    return 0.0 if at_ms is None else max(now_ms - at_ms, 0) / 1_000
