"""Which AMQP clients make queues and topics, by sending to them or receiving from them first, and how many."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection, LinkDetached, SendException

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.amqp.access import Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory

TIMEOUT_S = 20
VERIFIER = Verifier.of_password("secret")
USERS = {
    "maker": User(VERIFIER, {"send": ["orders.#"], "receive": ["#"]}),
    "other": User(VERIFIER, {"send": ["#"], "receive": ["#"], "browse": ["#"], "create": []}),
    "admin": User(VERIFIER, {"send": ["orders.#"], "receive": ["#"], "create": ["#"]}),
}


@pytest.fixture
def world() -> str:
    return f"amqp{secrets.token_hex(4)}"


@pytest.fixture
def server(world: str) -> Iterator[Server]:
    limits = Limits(topics_made_per_hour=3)
    settings = ServerSettings([Listener(port=0)], Access(USERS, plain_without_tls=True), limits, drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(Installation(world, {}, None, SidecarConfig()))) as made:
        yield made


def client(server: Server, user: str) -> Any:
    url = f"127.0.0.1:{server.ports[0]}"
    return BlockingConnection(url, timeout=TIMEOUT_S, user=user, password="secret", allowed_mechs="SCRAM-SHA-256")


NOT_CREATE = r"unauthorized-access.*does not exist, and user '(maker|other)' may not create it; add a pattern"


def test_who_has_no_right_of_his_own_to_create_creates_what_he_may_send_to(server: Server) -> None:
    """AMQP-11."""
    maker = client(server, "maker")
    maker.create_sender("orders.new").send(Message(body="one"))
    for address in ("payments", "topic://prices"):
        with pytest.raises(LinkDetached, match=NOT_CREATE):
            maker.create_receiver(address)
    client(server, "admin").create_receiver("payments")
    maker.create_receiver("payments", name="there now")
    maker.close()


def test_who_may_create_nothing_uses_what_is_there(server: Server, world: str) -> None:
    """AMQP-11: also of names that only their messages say."""
    with ConnectionFactory(f"memory://{world}").create_context() as context:
        context.create_producer().send(Queue("orders"), "one")
    other = client(server, "other")
    other.create_sender("orders").send(Message(body="two"))
    other.create_sender(None).send(Message(address="orders", body="three"))
    for make in (other.create_sender, other.create_receiver):
        with pytest.raises(LinkDetached, match=NOT_CREATE):
            make("payments")
    with pytest.raises(SendException):
        other.create_sender(None, name="relay").send(Message(address="payments"))
    other.create_receiver(None, dynamic=True)
    other.close()


def test_more_topics_in_an_hour_than_a_user_may_make_are_refused_him_alone(server: Server) -> None:
    """AMQP-10."""
    maker = client(server, "maker")
    for number in range(3):
        maker.create_sender(f"orders.{number}", name=f"sender {number}")
    with pytest.raises(LinkDetached, match=r"resource-limit-exceeded.*user 'maker' has made 3 in an hour"):
        maker.create_sender("orders.3")
    maker.create_sender("orders.0", name="again")
    client(server, "admin").create_receiver("orders.3")
    maker.create_sender("orders.3", name="there now")
    maker.close()
