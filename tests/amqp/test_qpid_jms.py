"""Apache Qpid JMS against the server: what JORAM's suite has no tests for (java/Qpid*Test.java)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka import AddressSettings
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.ports.provider import ServingProvider
from jbm_kafka.providers import embedded, in_memory
from tests.amqp.java_clients import JavaClients
from tests.support.topics import create_topic

PREFIX = f"qpid{secrets.token_hex(4)}."
ADDRESSES = {
    "#": AddressSettings(partitions=2),
    "*.delayed": AddressSettings(redelivery_delay_ms=1_500),
    "*.twice": AddressSettings(max_delivery_attempts=2, dead_letter_address=f"{PREFIX}letters"),
    "*.one": AddressSettings(partitions=1),
}


def play(java_clients: JavaClients, connect: Callable[[], ServingProvider], *, large: int) -> None:
    """`large`: bytes of what is a large message there."""
    with Server(ServerSettings([Listener(port=0)], drain_s=0.0), connect) as server:
        places = {"url": f"amqp://127.0.0.1:{server.ports[0]}", "prefix": PREFIX, "large": str(large)}
        code, output = java_clients.run("RunTests", ["QpidTest", "QpidLifeTest"], places, timeout_s=200)
    print(output)
    assert code == 0


def test_qpid_jms_in_memory(java_clients: JavaClients) -> None:
    """REDELIVER-2, REDELIVER-3, UNIT-1, UNIT-2, SEND-6, SEND-7, TOPIC-3, AMQP-1."""
    installation = Installation(PREFIX, {}, None, SidecarConfig(address_settings=ADDRESSES))
    play(java_clients, lambda: in_memory.connect(installation), large=900_000)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_jakarta_qpid_jms_in_memory(tmp_path: Path) -> None:
    """REDELIVER-2, REDELIVER-3, UNIT-1, UNIT-2, SEND-6, SEND-7, TOPIC-3, AMQP-1."""
    installation = Installation(f"{PREFIX}jakarta", {}, None, SidecarConfig(address_settings=ADDRESSES))
    play(JavaClients(tmp_path, are_jakarta=True), lambda: in_memory.connect(installation), large=900_000)


@pytest.mark.thorough
@pytest.mark.timeout(300)
def test_qpid_jms_on_kafka(java_clients: JavaClients, bootstrap: str, tmp_path: Path) -> None:
    """REDELIVER-2, REDELIVER-3, UNIT-1, UNIT-2, SEND-6, SEND-7, TOPIC-3, AMQP-1."""
    create_topic(bootstrap, f"{PREFIX}large", config={"max.message.bytes": str(8 * 2**20)})
    config = SidecarConfig(namespace="qpid", address_settings=ADDRESSES)
    installation = Installation(bootstrap, {}, str(tmp_path / "state"), config)
    play(java_clients, lambda: embedded.connect(installation), large=5 * 2**20)
