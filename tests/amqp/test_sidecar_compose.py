"""docker/sidecar-compose.yaml: two sidecars behind a balancer, where a Docker engine answers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from proton import ConnectionException, Message
from proton.utils import BlockingConnection

from jbm_kafka.amqp.server_settings import Listener
from jbm_kafka.cli.cluster_settings import SettingsFault
from jbm_kafka.cli.sidecar_file import read_sidecar_file
from jbm_kafka.devbroker.ports import free_port
from tests.house.sources import ROOT
from tests.support.container import build_image, build_images
from tests.support.waiting import wait_until

TIMEOUT_S = 600


def test_the_images_file_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = ROOT / "docker" / "jbm-kafka.toml"
    with pytest.raises(SettingsFault, match="users: there are none"):
        read_sidecar_file(file)  # nobody's but who runs it says who comes in
    monkeypatch.setenv("JBM_USERS", '{"anonymous": {"send": ["#"]}}')
    assert read_sidecar_file(file).server.listeners == [Listener("0.0.0.0", 5672)]


@pytest.fixture
def compose(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The beginning of a command about it, while it runs."""
    for words in (["version"], ["compose", "version"]):
        if subprocess.run(["docker", *words], check=False, capture_output=True).returncode:
            pytest.skip(f"no Docker engine answers, or it has no compose: docker {' '.join(words)} fails")
    monkeypatch.setenv("JBM_BROKER_IMAGE", build_image())
    monkeypatch.setenv("JBM_AMQP_PORT", str(free_port()))
    build_images()
    command = ["docker", "compose", "--file", str(ROOT / "docker" / "sidecar-compose.yaml")]
    try:
        subprocess.run([*command, "up", "--detach", "--wait"], check=True, timeout=TIMEOUT_S)
        yield command
    finally:
        subprocess.run([*command, "down", "--volumes"], check=True, timeout=TIMEOUT_S)


@pytest.mark.thorough
@pytest.mark.timeout(3 * TIMEOUT_S)
def test_clients_go_on_when_one_of_two_sidecars_is_killed(compose: list[str]) -> None:
    def connected() -> Any:
        try:
            return BlockingConnection(f"127.0.0.1:{os.environ['JBM_AMQP_PORT']}", timeout=60)
        except ConnectionException:
            return None

    first = wait_until(connected, about="a sidecar behind the balancer", timeout_s=TIMEOUT_S)
    sender = first.create_sender("orders")
    for number in range(10):
        sender.send(Message(body=number, durable=True, group_id="joe"))
    subprocess.run([*compose, "kill", "sidecar-1"], check=True, timeout=TIMEOUT_S)
    second = wait_until(connected, about="the other one", timeout_s=TIMEOUT_S)
    receiver = second.create_receiver("orders", credit=1)
    for number in range(10):
        assert receiver.receive(timeout=60).body == number
        receiver.accept()
