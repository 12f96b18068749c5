"""docker/images.Dockerfile and docker/compose.yaml, where an engine answers: built, started, used and stopped."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from uuid import uuid4

import pytest
from proton import Message
from proton.utils import BlockingConnection

from jbm_kafka.devbroker.ports import free_port
from tests.deploying.composed import Composed, composed
from tests.house.sources import ROOT
from tests.support.container import build_image, build_images
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1800)]

SERVICES = ("worker", "console", "sidecar", "exporter")
MINE_AT_MOST = 200_000_000
"""Bytes that an image may have beyond the one it is built on. Its environment is 110 MB."""


def inspected(image: str) -> dict[str, object]:
    command = ["docker", "image", "inspect", image]
    [found] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)
    return dict(found)


@pytest.fixture(scope="module")
def images() -> list[str]:
    if subprocess.run(["docker", "version"], check=False, capture_output=True).returncode:
        assert os.environ.get("JBM_TEST_BROKER") != "testcontainers", "no Docker engine answers"
        pytest.skip("no Docker engine answers")
    return build_images()


@pytest.fixture(scope="module")
def ports() -> dict[str, str]:
    names = ("JBM_BROKER_PORT", "JBM_CONSOLE_PORT", "JBM_AMQP_PORT", "JBM_EXPORTER_PORT")
    return {name: str(free_port()) for name in names}


@pytest.fixture(scope="module")
def running(images: list[str], ports: dict[str, str]) -> Iterator[Composed]:
    assert images == [f"jbm-kafka-{name}" for name in ("worker", "sidecar", "console", "exporter")]
    variables = {**ports, "JBM_BROKER_IMAGE": build_image()}
    with composed(ROOT / "docker" / "compose.yaml", f"jbm-{uuid4().hex[:8]}", variables) as services:
        for name in SERVICES:
            services.wait_until_healthy(name)
        yield services


def test_they_are_small_and_run_as_nobody_else(images: list[str]) -> None:
    base = subprocess.run([str(ROOT / "docker" / "build.sh"), "base"], check=True, capture_output=True, text=True)
    below = inspected(base.stdout.split()[-1])["Size"]
    for image in images:
        told = inspected(image)
        config = told["Config"]
        assert isinstance(config, dict)
        assert (config["User"], list(config["Volumes"])) == ("1000:1000", ["/var/lib/jbm-kafka"])
        assert isinstance(told["Size"], int)
        assert isinstance(below, int)
        if os.environ.get("JBM_IMAGE_BASE") == "local":
            assert told["Size"] - below < MINE_AT_MOST, image


@pytest.mark.parametrize("name", SERVICES)
def test_each_is_confined(running: Composed, name: str) -> None:
    assert running.execute(name, "id", "-u").stdout == "1000\n"
    for folder, is_writable in (("/", False), ("/tmp", False), ("/opt/jbm-kafka", False), ("/var/lib/jbm-kafka", True)):
        done = running.execute(name, "touch", f"{folder}/probe")
        assert (done.returncode == 0) == is_writable, f"{folder}: {done.stderr}"
    status = running.execute(name, "cat", "/proc/1/status").stdout
    assert "CapEff:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status


def test_a_message_goes_through_worker_sidecar_console_and_exporter(running: Composed, ports: dict[str, str]) -> None:
    send = ("jbm-kafka", "send", "orders", "--text", "2 books")  # refused until the worker has made the queue
    wait_until(lambda: running.execute("worker", *send).returncode == 0, about="the queue", timeout_s=60, look_s=0.5)
    wait_until(lambda: "ships 2 books" in running.log("worker"), about="the worker has it", timeout_s=60, look_s=0.5)
    client = BlockingConnection(f"127.0.0.1:{ports['JBM_AMQP_PORT']}", timeout=60)
    client.create_sender("orders").send(Message(body="an oak", durable=True))
    client.create_sender("parcels").send(Message(body="a parcel", durable=True))
    client.close()
    wait_until(
        lambda: "ships an oak" in running.log("worker"), about="the worker has that of AMQP", timeout_s=60, look_s=0.5
    )
    told = 'jbm_backlog_held{destination="parcels",subscription=""} 1.0'
    at = f"http://127.0.0.1:{ports['JBM_EXPORTER_PORT']}/metrics"
    wait_until(lambda: told in read(at), about="the exporter tells of the parcel", timeout_s=60)
    assert "password" in read(f"http://127.0.0.1:{ports['JBM_CONSOLE_PORT']}/login")


def test_a_probe_sees_a_program_that_answers_no_more(running: Composed) -> None:
    """The very command of HEALTHCHECK: it fails where nothing answers."""
    check = json.loads(running.told("exporter", "{{json .Config.Healthcheck.Test}}"))[1:]
    assert running.execute("exporter", *check).returncode == 0
    assert (
        running.execute("exporter", "env", f"HEALTH_URL=http://127.0.0.1:{free_port()}/healthz", *check).returncode == 1
    )


def test_each_stops_in_order(running: Composed) -> None:
    """Last, for the others want them to run."""
    for name in SERVICES:
        code, took_s = running.stop(name)
        assert (name, code, took_s < 30) == (name, 0, True)


def read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return str(answer.read().decode())
