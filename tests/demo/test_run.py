"""The demo end to end with few customers: it passes twice in a row, notices what is wrong, leaves nobody behind."""

import os
import re
import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from jbm_kafka.demo.worker import LEAVE_S
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.devbroker.asking_again import wait_until
from tests.demo.conftest import Start
from tests.support.topics import admin_client

CUSTOMERS = ("--customers", "20")


def _workers_of(demo_pid: int) -> list[int]:
    """Process ids of the demo's children, from /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if parent == demo_pid:
            found.append(int(folder.name))
    return found


def _is_alive(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_it_passes_twice_in_a_row_and_finds_what_is_then_broken_by_hand(start_demo: Start, bootstrap: str) -> None:
    first = start_demo(*CUSTOMERS, "--no-spark")
    said = first.communicate()[0]
    assert first.returncode == 0, said
    assert "killed with SIGKILL" in said
    assert "all figures are right" in said
    run = re.search(r"run (\d{8}-\d{9})", said)
    assert run is not None

    second = start_demo(*CUSTOMERS, "--no-spark")
    said = second.communicate()[0]
    assert second.returncode == 0, said

    # An order more that nobody processed, as if it had been lost.
    producer = Producer({"bootstrap.servers": bootstrap})
    line = b'{"kind": "order", "order": "B-99999", "customer": "C-0001", "items": []}'
    producer.produce(f"bookstore.{run.group(1)}.orders", key=b"C-0001", value=line)
    producer.flush()
    third = start_demo(*CUSTOMERS, "--no-spark", "--check", run.group(1))
    said = third.communicate()[0]
    assert third.returncode == 1, said
    assert re.search(r"the figures are wrong: sent, each once: (\d+), not \d+; left in the queue: 1, not 0\n$", said)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGTERM, marks=pytest.mark.slow),
        signal.SIGKILL,
    ],
)
def test_an_interrupted_demo_leaves_no_worker_behind(start_demo: Start, number: signal.Signals) -> None:
    demo = start_demo("--no-spark")
    assert demo.stdout is not None
    for line in demo.stdout:
        if "workers compete" in line:
            break
    workers = _workers_of(demo.pid)
    assert len(workers) >= 3
    os.kill(demo.pid, number)
    said = demo.communicate()[0]
    assert wait_until(lambda: not any(map(_is_alive, workers)), timeout_s=LEAVE_S)
    if number != signal.SIGKILL:
        assert demo.returncode == 1
        assert said.rstrip().endswith("jbm-kafka: interrupted")


@pytest.mark.thorough
@pytest.mark.timeout(600)  # a demo and a start of Kafka on a machine that many share
@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, id="interrupted", marks=pytest.mark.slow), pytest.param(None, id="to its end")],
)
def test_a_broker_that_it_started_is_stopped_and_its_topics_are_kept(
    start_demo_alone: Start, own_broker: LocalBroker, number: signal.Signals | None
) -> None:
    demo = start_demo_alone(*CUSTOMERS, "--no-spark")
    assert demo.stdout is not None
    said = []
    for line in demo.stdout:
        if number is not None and "workers compete" in line:
            os.kill(demo.pid, number)
        said.append(line)
    assert demo.wait() == (0 if number is None else 1), "".join(said)
    assert not own_broker.is_running
    if number is None:
        assert said[-1] == "the local Kafka is stopped, its topics are kept: jbm-kafka broker start\n"
    assert own_broker.start()
    admin = admin_client(own_broker.bootstrap)
    # A broker that has just come up may not have read yet what it has.
    assert wait_until(
        lambda: any(topic.startswith("bookstore.") for topic in admin.list_topics(timeout=10).topics), timeout_s=30
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ("--bootstrap", "127.0.0.1:1"),
            "jbm-kafka: no Kafka answers at 127.0.0.1:1; leave --bootstrap out to use a local broker\n",
        ),
        (
            ("--bootstrap", "nonsense"),
            "jbm-kafka: --bootstrap is 'nonsense': the port is missing; write 'host:port', as in 'nonsense:9092'\n",
        ),
        (("--check", "never"), "jbm-kafka: there is no run 'never' at "),
        (("--kafka-property", "sasl.password=secret"), "sasl.password: it would not be used"),
    ],
)
def test_what_cannot_be_played_is_told_in_one_line(start_demo: Start, options: tuple[str, ...], line: str) -> None:
    demo = start_demo("--no-spark", *options)
    said = demo.communicate()[0]
    assert demo.returncode in (1, 2)
    assert line in said
    assert "Traceback" not in said
