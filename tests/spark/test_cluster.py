"""Jobs and streaming programs on a cluster whose workers have nothing of ours: all of it is shipped."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import bookstore.__main__
from jbm_spark.submit import find_program, options
from tests.spark.cluster import BARE_PYTHON, SparkCluster, spark_cluster
from tests.spark.conftest import Topics
from tests.spark.records import Record

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1200)]

COPYING = """
import sys
from jbm_spark.messages import message_stream, wait_until_done, write_stream
from jbm_spark.session import build_session

bootstrap, source, queue, checkpoint = sys.argv[1:]
spark = build_session("copying", starts_fast=True)
messages = message_stream(spark, source, bootstrap=bootstrap)
query = write_stream(messages, queue, bootstrap=bootstrap, checkpoint=checkpoint)
print(spark.sparkContext.master, wait_until_done(query))
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    without = subprocess.run([BARE_PYTHON, "-I", "-c", "import fastavro"], capture_output=True, text=True, check=False)
    assert "ModuleNotFoundError" in without.stderr
    with spark_cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return options(tmp_path_factory.mktemp("packages"))


def test_a_job_runs_on_a_cluster_to_which_everything_is_shipped(
    cluster: SparkCluster, shipped: list[str], topics: Topics, tmp_path: Path
) -> None:
    """SPARK-2"""
    rows = [{"body_text": f"order {n}", "unit_of_order": f"u{n % 5}"} for n in range(200)]
    file = tmp_path / "orders.json"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    queue = topics.create(3)
    done = cluster.submit(*shipped, find_program(), "load", str(file), queue, "--bootstrap", topics.bootstrap, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 200
    found = [(record.key(), record.value()) for record in topics.read(queue)]
    for unit in range(5):
        of_unit = [value for key, value in found if key == f"u{unit}".encode()]
        assert of_unit == [f"order {n}".encode() for n in range(unit, 200, 5)]
    assert "Registered app jbm load" in cluster.log.read_text()


@pytest.mark.slow
def test_a_streaming_program_runs_on_the_cluster_that_spark_submit_names(
    cluster: SparkCluster, shipped: list[str], topics: Topics, tmp_path: Path
) -> None:
    """It ran on local[2,3], or had no Kafka connector."""
    program = tmp_path / "copying.py"
    program.write_text(COPYING)
    source, queue = topics.create(2), topics.create(3)
    topics.write(source, [Record(key=b"u", value=b"%d" % n) for n in range(100)])
    done = cluster.submit(*shipped, str(program), topics.bootstrap, source, queue, str(tmp_path / "checkpoint"))
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{cluster.master} True\n"
    assert [record.value() for record in topics.read(queue)] == [b"%d" % n for n in range(100)]


@pytest.mark.slow
def test_the_bookstore_plays_its_day_on_the_cluster(
    cluster: SparkCluster, shipped: list[str], bootstrap: str, tmp_path: Path
) -> None:
    """Turnover, archive and audit are checked by the day itself."""
    html = tmp_path / "day.html"
    day = ["--orders", "100", "--per-second", "50", "--bootstrap", bootstrap, "--page", str(html)]
    done = cluster.submit(*shipped, bookstore.__main__.__file__, *day)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "dead letter twice" in html.read_text(encoding="utf-8")
    assert "Registered app bookstore" in cluster.log.read_text()
