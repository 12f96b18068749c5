"""The fixtures, as another project's tests get them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs.page import OUR_PLUGIN
from tests.house.sources import ROOT

TIMEOUT_S = 120.0


def run(folder: Path, text: str, *, broker: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """pytest over one file, in a process of its own."""
    (folder / "test_theirs.py").write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JBM_TEST_BROKER": broker, **more}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir=.", *OUR_PLUGIN]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


WORLDS = """
from jbm_kafka import Queue

URLS = []


def test_one(jbm_memory):
    URLS.append(jbm_memory.url)
    with jbm_memory.factory().create_context() as jms:
        jms.create_producer().send(Queue("orders"), "a")


def test_two(jbm_memory):
    assert jbm_memory.url not in URLS
    with jbm_memory.factory().create_context() as jms:
        assert jms.create_consumer(Queue("orders")).receive_nowait() is None
"""


def test_each_test_has_a_world_of_its_own(tmp_path: Path) -> None:
    done = run(tmp_path, WORLDS)
    assert "2 passed" in done.stdout, done.stdout


WORKERS = """
from jbm_kafka import Worker

worker = Worker("localhost:9092")
sent = []


@worker.handler("orders")
def ship(body: str) -> None:
    sent.append(body)


def test_one(jbm_memory, jbm_worker):
    assert jbm_worker(worker) is worker
    jbm_memory.send("orders", "a")
    jbm_memory.drain()
    assert sent == ["a"]


def test_two(jbm_memory, jbm_worker):
    assert worker.connection is None
    jbm_worker(worker)
    jbm_memory.drain(worker)
    assert sent == ["a"]
"""


def test_a_worker_of_the_application_runs_in_the_world_of_each_test(tmp_path: Path) -> None:
    done = run(tmp_path, WORKERS)
    assert "2 passed" in done.stdout, done.stdout


LEFT_OPEN = """
from jbm_kafka import Queue


def test_it(jbm_memory):
    connection = jbm_memory.factory().create_connection()
    connection.start()
    connection.create_session().create_consumer(Queue("orders"))


def test_nothing_runs_any_more():
    import threading

    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("jbm-group")] == []
"""


def test_a_connection_left_open_is_ended_with_its_test(tmp_path: Path) -> None:
    done = run(tmp_path, LEFT_OPEN)
    assert "2 passed" in done.stdout, done.stdout


BROKER = """
from jbm_kafka.devbroker import answers


def test_it(jbm_broker):
    assert answers(jbm_broker)
"""


def test_the_broker_is_the_one_that_was_named(tmp_path: Path, shared_broker: str) -> None:
    done = run(tmp_path, BROKER, broker=shared_broker)
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(
    ("broker", "says"),
    [
        ("nonsense", "JBM_TEST_BROKER=nonsense: it must be testcontainers, local or HOST:PORT"),
        ("127.0.0.1:1", "JBM_TEST_BROKER=127.0.0.1:1: nothing answers there"),
    ],
)
def test_a_broker_that_is_not_there_is_told_in_one_line(tmp_path: Path, broker: str, says: str) -> None:
    done = run(tmp_path, BROKER, broker=broker)
    assert done.returncode == 1
    assert says in done.stdout.splitlines(), done.stdout


def test_a_broker_that_does_not_start_was_told_twice_as_two_exceptions(tmp_path: Path) -> None:
    done = run(tmp_path, BROKER, broker="local", JAVA_HOME="/nowhere")
    assert done.returncode == 1
    told, _, _ = done.stdout.partition("short test summary info")  # which has it again, where CI is set
    assert told.count("no broker to test with: /nowhere/bin/java does not run (") == 1, done.stdout
    assert "exception" not in done.stdout


def test_the_plugin_loads_nothing_until_a_fixture_is_asked_for() -> None:
    """pytest imports it in every project of the environment."""
    program = "import sys, jbm_kafka.testing.pytest_plugin; print(sorted(m for m in sys.modules if 'jbm_kafka' in m))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=TIMEOUT_S
    )
    loaded = ["jbm_kafka", "jbm_kafka.compiled", "jbm_kafka.testing", "jbm_kafka.testing.pytest_plugin"]
    assert set(eval(done.stdout)) - {"jbm_kafka.supported"} == set(loaded)


def test_the_package_names_the_plugin_for_pytest() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"jbm_kafka": "jbm_kafka.testing.pytest_plugin"}
