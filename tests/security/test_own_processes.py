"""`jbm-kafka demo` and `bench` on a cluster with TLS and passwords, in a namespace: their processes get in too."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jbm_kafka.bench.load import create_topic, fill, spread_units
from jbm_kafka.bench.measured_client import measure
from jbm_kafka.bench.plan import Plan
from jbm_kafka.bench.quiet import QuietMachine
from jbm_kafka.bench.shape_forward import CLIENTS
from jbm_kafka.bench.shape_result import new_name, new_namespace
from jbm_kafka.bench.shapes import SHAPES
from jbm_kafka.cli.cluster_settings import Cluster
from tests.support.secured import ALICE, PASSWORD, SecuredBroker
from tests.support.topics import delete_topics_beginning_with

pytestmark = pytest.mark.thorough

NAMESPACE = "acme"
TINY = Plan(
    repeats=1, warm_ups=0, partitions=2, units=10, backlog_messages=1_000, latency_rates=(1_000,), latency_s=0.2,
    latency_warm_up_s=0.1, sends=20, sends_beside_flood=10, sends_with_callback=200, forward_commits=4, held_behind=200,
    held_others=1_000, quiet_patience_s=0,
)  # fmt: skip


@pytest.fixture
def cluster(secured: SecuredBroker) -> Cluster:
    return Cluster(secured.sasl, NAMESPACE, secured.as_user(ALICE))


@pytest.fixture
def environment(cluster: Cluster, tmp_path: Path) -> dict[str, str]:
    """With a config file that names the cluster; a user of this machine sees no password in what runs."""
    path = tmp_path / "jbm.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in cluster.kafka.items()]
    head = [f'bootstrap = "{cluster.bootstrap}"', f'namespace = "{cluster.namespace}"', "[kafka]"]
    path.write_text("\n".join([*head, *lines]), encoding="utf-8")
    path.chmod(0o600)
    ours = {name: value for name, value in os.environ.items() if not name.startswith("JBM_KAFKA_")}
    return {**ours, "JBM_CONFIG": str(path), "TMPDIR": str(tmp_path), "COLUMNS": "150"}


def run(environment: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "jbm_kafka.cli.main", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_the_bookstore_is_played_and_proved_in_a_namespace(environment: dict[str, str], secured: SecuredBroker) -> None:
    """It took an address at most, and its workers knew none of the rest."""
    done = run(environment, "demo", "--customers", "8", "--no-spark")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all figures are right" in done.stdout
    assert PASSWORD not in done.stdout + done.stderr
    listed = run(environment, "list", "--json")
    rows = [row for row in json.loads(listed.stdout) if row["name"].startswith("bookstore.")]
    assert {row["kind"] for row in rows} == {"queue", "topic"}
    delete_topics_beginning_with(secured.open, "bookstore.")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["latency", "send"])
def test_a_benchmark_measures_there(cluster: Cluster, name: str) -> None:
    result = SHAPES[name](cluster, TINY, lambda _: None)
    assert all(row.median > 0 for row in result.rows.values())


@pytest.mark.slow
def test_each_kind_of_receiver_is_measured_there(cluster: Cluster) -> None:
    topic, count = new_name("backlog"), TINY.backlog_messages
    create_topic(cluster, topic, partitions=TINY.partitions)
    fill(cluster, topic, spread_units(count, units=TINY.units), partitions=TINY.partitions, body_bytes=TINY.body_bytes)
    receivers: dict[str, dict[str, Any]] = {
        "raw": {"topic": topic, "partitions": TINY.partitions},
        "share": {"topic": topic, "group": f"{topic}-share"},
        "jbm": {"queue": topic, "namespace": new_namespace(0)},
    }
    for name, where in receivers.items():
        assert measure(name, cluster=cluster, count=count, **where)["messages"] == count, name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["raw-1", "jbm-1"])
def test_forwarding_is_measured_there_by_both_kinds_of_client(cluster: Cluster, name: str) -> None:
    said = CLIENTS[name].measure(cluster, TINY, QuietMachine(0), 0)
    assert said["messages"] == TINY.forward_commits


def test_a_wrong_password_is_one_line(environment: dict[str, str], tmp_path: Path) -> None:
    wrong = {**environment, "JBM_KAFKA_SASL_PASSWORD": "guessed"}
    for command in (("demo", "--no-spark"), ("bench", "--json", str(tmp_path / "bench.json"))):
        done = run(wrong, *command)
        assert (done.returncode, done.stdout) == (1, "")
        assert "does not let us in" in done.stderr
        assert done.stderr.count("\n") == 1
