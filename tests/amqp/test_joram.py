"""The JMS conformance tests of JORAM, through Apache Qpid JMS."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.ports.provider import ServingProvider
from jbm_kafka.providers import embedded, in_memory
from tests.amqp.java_clients import JavaClients, joram_tests

TESTS = 196
LIMIT_S = 300.0


def play(java_clients: JavaClients, connect: Callable[[], ServingProvider]) -> None:
    settings = ServerSettings([Listener(port=0)], drain_s=0.0, admin_port=0)
    with Server(settings, connect) as server:
        places = {
            "url": f"amqp://127.0.0.1:{server.ports[0]}",
            "admin": f"http://127.0.0.1:{server.admin_port}",
        }
        _, output = java_clients.run("RunTests", joram_tests(), places, timeout_s=LIMIT_S)
    print(output)
    assert f"RUN {TESTS} FAILED 0 IGNORED 0 " in output


def test_joram_in_memory(java_clients: JavaClients) -> None:
    """AMQP-5."""
    installation = Installation(f"joram{secrets.token_hex(4)}", {}, None, SidecarConfig())
    play(java_clients, lambda: in_memory.connect(installation))


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_joram_on_kafka(java_clients: JavaClients, bootstrap: str, tmp_path: Path) -> None:
    """AMQP-5."""
    config = SidecarConfig(namespace=f"joram-{secrets.token_hex(4)}-")
    installation = Installation(bootstrap, {}, str(tmp_path / "state"), config)
    play(java_clients, lambda: embedded.connect(installation))
