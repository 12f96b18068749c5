"""A client of Spark Connect, which has no JVM of its own, and a server that has nothing of ours but the jars."""

import subprocess
import sys
from pathlib import Path

import pytest

from jbm_spark import submit
from tests.spark.cluster import connect_server
from tests.spark.conftest import Topics
from tests.spark.records import Record


@pytest.mark.thorough
@pytest.mark.timeout(1200)
def test_a_client_of_spark_connect_reads_and_writes_a_queue(
    packages: tuple[Path, Path], topics: Topics, tmp_path: Path
) -> None:
    """SPARK-2: it was refused by a check of the session's type."""
    source, queue = topics.create(), topics.create(2)
    orders = [("joe", 10), ("ann", 20), ("joe", 30)]
    topics.write(
        source,
        [
            Record(
                key=unit.encode(), value=b"order %d" % qty, headers=(("jms.int.qty", b"%d" % qty), ("JBMBody", b"text"))
            )
            for unit, qty in orders
        ],
    )
    with connect_server(tmp_path, "--jars", submit.jars_option()) as server:
        arguments = [server, topics.bootstrap, source, queue, str(packages[0]), str(tmp_path / "checkpoint")]
        command = [sys.executable, "-m", "tests.spark.connect_client", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1000)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == [
        "LAST_WIN",
        "[('ann', 'order 20'), ('joe', 'order 30')]",
        "True [('ann', 1), ('joe', 2)]",
    ]
    for told, line in zip(
        (
            "write_stream() does not work over Spark Connect, for it runs our code in the driver: run the program",
            "queue:nowhere: there is no Kafka topic 'nowhere'",
            f"write to queue:{queue}: priority is '10': it is an int from 0 to 9",
            "this session was stopped: make another",
        ),
        lines[3:],
        strict=True,
    ):
        assert line.startswith(told)
    assert sorted((record.key(), record.value()) for record in topics.read(queue)) == [
        (b"ann", b"ORDER 20"),
        (b"joe", b"ORDER 30"),
    ]
