"""Metrics of Prometheus: what a scrape shows, and that page, dashboard and code name the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from jbm_kafka import AcknowledgeMode, Connection, Queue, Topic
from jbm_kafka.bridge.bridge_collector import BridgeCollector
from jbm_kafka.metrics import JbmCollector
from jbm_kafka.metrics.backlog_collector import SPECS
from jbm_kafka.metrics.collector import KINDS, METRICS
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.docs.page_tables import rows, section
from tests.house.sources import ROOT

ORDERS = Queue("orders")
PAGE = (ROOT / "docs" / "metrics.md").read_text()
DASHBOARD: dict[str, Any] = json.loads((ROOT / "docs" / "grafana-dashboard.json").read_text())
OF_CONNECTIONS = {
    f"{spec.exposed}{suffix}": set(spec.labels)
    for spec in METRICS
    for suffix in (("_bucket", "_sum", "_count") if spec.kind == "histogram" else ("",))
}
OF_BRIDGES = {
    f"{family.name}{'_total' if family.type == 'counter' else ''}": {"bridge"}
    for family in BridgeCollector([]).collect()
}
SERIES = {**OF_CONNECTIONS, **OF_BRIDGES, **{spec.name: set(spec.labels) for spec in SPECS}, "up": set[str]()}
LABELS_OF_ALL = {"le", "instance", "job"}


@pytest.fixture
def connection() -> Iterator[Connection]:
    with MemoryWorld() as world, world.factory().create_connection() as connection:
        yield connection


def scraped(registry: CollectorRegistry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = generate_latest(registry).decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_scrape_shows_what_the_connection_counted(connection: Connection) -> None:
    registry = CollectorRegistry()
    registry.register(JbmCollector(connection))
    with connection.create_session(AcknowledgeMode.CLIENT) as session:
        producer, consumer = session.create_producer(ORDERS), session.create_consumer(ORDERS)
        for _ in range(3):
            producer.send("a")
        for _ in range(2):
            assert consumer.receive(30.0) is not None
        session.acknowledge()
        found = scraped(registry)
    queue = (("destination", "orders"), ("subscription", ""))
    assert found["jbm_messages_sent_total", queue[:1]] == 3
    assert found["jbm_messages_acknowledged_total", queue] == 2
    assert found["jbm_messages_held", queue] == 1
    kinds = {kind: found["jbm_messages_oldest_seconds", tuple(sorted([*queue, ("kind", kind)]))] for kind in KINDS}
    assert max(kinds.values()) == found["jbm_messages_oldest_held_seconds", queue]
    latency = "jbm_send_to_acknowledge_duration_seconds"
    assert found[f"{latency}_count", queue] == found[f"{latency}_bucket", (queue[0], ("le", "+Inf"), queue[1])] > 0
    assert found["jbm_memory_budget_bytes", ()] > 0
    assert {name for name, _ in found} - {"jbm_"} == OF_CONNECTIONS.keys()


def test_each_subscription_has_a_series_whatever_slashes_its_names_have() -> None:
    """Of client `a/b` that named `c` and of client `a` that named `b/c` there was one."""
    news, registry = Topic("news"), CollectorRegistry()
    with MemoryWorld() as world, ExitStack() as stack:
        for client_id, name in (("a/b", "c"), ("a", "b/c")):
            made = stack.enter_context(world.factory(client_id=client_id).create_connection())
            made.create_session().create_durable_consumer(news, name)
        made.create_session().create_producer(news).send("x")
        registry.register(JbmCollector(made))
        found = scraped(registry)
    rows = {
        dict(labels).get("subscription"): value
        for (name, labels), value in found.items()
        if name == "jbm_messages_held"
    }
    assert rows == {"": 0, "a%2Fb/c": 1, "a/b/c": 1}


def test_no_name_of_a_temporary_destination_is_a_label(connection: Connection) -> None:
    with connection.create_session() as session:
        reply_to = session.create_temporary_queue()
        session.create_producer(reply_to).send("an answer")
        assert session.create_consumer(reply_to).receive(30.0) is not None
        registry = CollectorRegistry()
        registry.register(JbmCollector(connection))
        labels = {dict(labels).get("destination") for _, labels in scraped(registry)}
    assert labels == {None, "jbm.temporary"}


def test_a_closed_connection_has_no_metrics(connection: Connection) -> None:
    registry = CollectorRegistry()
    registry.register(JbmCollector(connection))
    connection.close()
    assert scraped(registry) == {}


def test_the_page_of_bridges_lists_theirs() -> None:
    page = (ROOT / "docs" / "bridge.md").read_text()
    assert [row[0].strip("`") for row in rows(section(page, "Watch"))] == list(OF_BRIDGES)


def test_names_are_as_prometheus_wants_them() -> None:
    assert [each.name for each in (*METRICS, *SPECS) if not re.fullmatch(r"jbm_[a-z_]+", each.name)] == []
    assert [each.name for each in METRICS if each.kind == "histogram" and not each.name.endswith("_seconds")] == []
    assert [each.name for each in METRICS if "memory" in each.name and not each.name.endswith("_bytes")] == []


def faults_of(query: str) -> list[str]:
    """What is wrong with a query: brackets, names, and labels that its metrics do not have."""
    faults = [bracket for bracket in ("()", "{}", "[]") if query.count(bracket[0]) != query.count(bracket[1])]
    names = re.findall(r"\b(?:jbm_\w+|up)\b", query)
    faults += [name for name in names if name not in SERIES] or ([] if names else [query])
    grouped = re.findall(r"(?:by|on) \(([^)]*)\)", query) + re.findall(r"label_values\(\w+, (\w+)\)", query)
    of_all = {label.strip() for each in grouped for label in each.split(",")}
    matched = {name: re.findall(r"(\w+)[=!]", inner) for name, inner in re.findall(r"(\w+)\{([^}]*)\}", query)}
    for name in names:
        faults += sorted((of_all | set(matched.get(name, ()))) - SERIES.get(name, set()) - LABELS_OF_ALL)
    return faults


def queries() -> list[str]:
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    return [*panels, *(each["definition"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query")]


def test_the_queries_of_the_dashboard_are_of_our_metrics() -> None:
    assert {query: faults for query in queries() if (faults := faults_of(query))} == {}
    named = set(re.findall(r"\bjbm_\w+", " ".join(queries())))
    wanted = {each.name for each in (*METRICS, *SPECS)}
    assert {each for each in wanted if not any(name.startswith(each) for name in named)} == set()


def test_a_fault_in_a_query_is_found() -> None:
    assert faults_of("sum(jbm_messages_hold)") == ["jbm_messages_hold"]
    assert faults_of("sum(jbm_messages_held") == ["()"]
    assert faults_of("sum by (queue) (jbm_messages_held)") == ["queue"]
    assert faults_of('jbm_messages_sent_total{subscription="a"}') == ["subscription"]
    assert faults_of("down") == ["down"]


def test_the_query_of_the_autoscaler_is_of_our_metrics() -> None:
    found = re.findall(r"query: (.*)", section(PAGE, "Scaling by the backlog (KEDA)"))
    assert [faults_of(query) for query in found] == [[]]
    dotted = Queue("shop.orders")  # whose name is written otherwise in its group's
    assert f"consumerGroup: {dotted.group_id()}\n        topic: {dotted.name}\n" in PAGE
    assert f'destination="{dotted.name}"' in found[0]
