"""The AMQP server over memory://, with qpid-proton's own blocking client."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection, LinkDetached

from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.server_settings import Limits, Listener, ServerSettings
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory

TIMEOUT_S = 20


@pytest.fixture
def server() -> Iterator[Server]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings([Listener(port=0)], limits=Limits(message_bytes=8 * 2**20), drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    connection = BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)
    yield connection
    connection.close()


def test_a_released_message_comes_again_uncounted(client: Any) -> None:
    client.create_sender("orders").send(Message(body="one", durable=True))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "one"
    receiver.release(delivered=False)
    again = receiver.receive(timeout=TIMEOUT_S)
    assert (again.body, again.delivery_count) == ("one", 0)
    receiver.accept()


def test_a_failed_message_comes_again_counted(client: Any) -> None:
    client.create_sender("orders").send(Message(body="one", durable=True))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).delivery_count == 0
    receiver.fetcher.unsettled[0].local.failed = True  # proton's client leaves delivery-failed out otherwise
    receiver.release(delivered=True)
    again = receiver.receive(timeout=TIMEOUT_S)
    assert again.delivery_count == 1
    receiver.accept()


def test_a_message_larger_than_the_frame_is_carried(client: Any) -> None:
    body = secrets.token_bytes(700_000)
    client.create_sender("orders").send(Message(body=body, durable=True))
    receiver = client.create_receiver("orders", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == body
    receiver.accept()


def test_a_message_over_the_limit_costs_its_link_alone(client: Any) -> None:
    with pytest.raises(LinkDetached, match="message-size-exceeded"):
        client.create_sender("orders").send(Message(body=b"x" * (9 * 2**20)))
    client.create_sender("orders", name="another").send(Message(body="small"))


def test_garbage_costs_its_connection_alone(server: Server, client: Any) -> None:
    for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"AMQP\x00\x01\x00\x00" + b"\xff" * 64, secrets.token_bytes(4_096)):
        with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=TIMEOUT_S) as other:
            other.sendall(garbage)
            other.settimeout(TIMEOUT_S)
            while True:
                try:
                    if not other.recv(4_096):
                        break
                except ConnectionResetError:
                    break
    client.create_sender("orders").send(Message(body="still served"))
