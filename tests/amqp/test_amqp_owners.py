"""Whose a client id, a durable subscription and a message are."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from proton import ConnectionException, Endpoint, Message, Terminus
from proton.reactor import LinkOption
from proton.utils import BlockingConnection

from jbm_kafka import Connection, ConnectionFactory, Queue, TextMessage, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.amqp.access import ACTIONS, ANONYMOUS, Access, Action, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.incoming import verify_user
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.cli.main import main
from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.codec.registry_records import encode_owner, owner_key, owner_of
from jbm_kafka.codec.scan import Header
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError, JMSSecurityError
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory

WAIT_S = 20.0
PASSWORD = "secret"
EVERYTHING: dict[Action, list[str]] = {each: ["#"] for each in ACTIONS if each != "forward"}
ANYBODY = User(Verifier.of_password(PASSWORD), EVERYTHING)
USERS = {
    "alice": replace(ANYBODY, client_ids=["alice-*", "shared"]),
    "mallory": replace(ANYBODY, client_ids=["*"]),
    "bob": ANYBODY,
    ANONYMOUS: User(rights=EVERYTHING, client_ids=["*"]),
}
PRICES = Topic("prices")


@pytest.fixture(scope="module")
def world() -> str:
    return f"owners{secrets.token_hex(4)}"


@pytest.fixture(scope="module")
def url(world: str) -> Iterator[str]:
    settings = ServerSettings([Listener(port=0)], Access(USERS), drain_s=0.0)
    installation = Installation(world, {}, None, SidecarConfig())
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        yield f"amqp://127.0.0.1:{server.ports[0]}"


@pytest.fixture
def client_id() -> str:
    return f"alice-{secrets.token_hex(4)}"


class NullSource(LinkOption):
    """As Qpid JMS asks for a durable subscription, to end it."""

    def apply(self, link: Any) -> None:
        link.source.type = Terminus.UNSPECIFIED


def connected(url: str, user: str, client_id: str) -> Connection:
    return ConnectionFactory(url, client_id=client_id).create_connection(user, PASSWORD)


def subscribe_and_leave(url: str, user: str, client_id: str, *, is_shared: bool = False) -> None:
    with connected(url, user, client_id) as connection:
        session = connection.create_session()
        make = session.create_shared_durable_consumer if is_shared else session.create_durable_consumer
        make(PRICES, "audit").close()


def test_a_client_id_is_for_the_users_whose_patterns_have_it(url: str) -> None:
    """AMQP-11: whoever knew one could take a colleague's subscription, also without sole-connection-for-container."""
    connected(url, "alice", "alice-1").close()
    connected(url, "bob", "anything").close()
    with pytest.raises(
        JMSSecurityError, match=r"client id 'alice-1': user 'bob' may not have it; it is another user's"
    ):
        connected(url, "bob", "alice-1")
    for sole in ([], ["sole-connection-for-container"]):
        asked: Any = {"container_id": "alice-1", "desired_capabilities": sole}
        with pytest.raises(ConnectionException, match="unauthorized-access"):
            BlockingConnection(url, timeout=WAIT_S, user="bob", password=PASSWORD, **asked)
    with pytest.raises(JMSSecurityError, match=r"client id 'bob-1'.*use one of alice-\*, shared"):
        connected(url, "alice", "bob-1")


def test_a_client_without_a_client_id_comes_in_under_the_uuid_of_its_library() -> None:
    """Of AMQP-11: clients of Proton, whose container id is one, were refused where the user has client ids."""
    Access(USERS).check_client_id("alice", str(uuid4()))
    with pytest.raises(JMSSecurityError):
        Access(USERS).check_client_id("alice", f"{uuid4()}-audit")


def test_only_a_star_stands_for_other_text_in_client_ids() -> None:
    """Of AMQP-11: a question mark and brackets did, too."""
    access = Access({"alice": replace(ANYBODY, client_ids=["a?c", "x[1]*"])})
    for own in ("a?c", "x[1]", "x[1].y"):
        access.check_client_id("alice", own)
    for other in ("abc", "x1", "ya?c", "a?cy"):
        with pytest.raises(JMSSecurityError):
            access.check_client_id("alice", other)


@pytest.mark.parametrize("is_shared", [False, True], ids=["unshared", "shared"])
def test_a_durable_subscription_is_the_users_that_made_it(url: str, client_id: str, is_shared: bool) -> None:
    """AMQP-11: another user got what it held, made it anew with a selector, or ended it."""
    subscribe_and_leave(url, "alice", client_id, is_shared=is_shared)
    with connected(url, "alice", client_id) as connection:
        connection.create_session().create_producer(PRICES).send("kept")
    with connected(url, "mallory", client_id) as connection:
        session = connection.create_session()
        make = session.create_shared_durable_consumer if is_shared else session.create_durable_consumer
        with pytest.raises(JMSError, match="another user's"):
            make(PRICES, "audit")
        with pytest.raises(JMSError, match="another user's"):
            make(PRICES, "audit", selector="x = 1")
        with pytest.raises(JMSError, match="another user's"):
            session.unsubscribe("audit")
    with connected(url, "alice", client_id) as connection:
        session = connection.create_session()
        make = session.create_shared_durable_consumer if is_shared else session.create_durable_consumer
        consumer = make(PRICES, "audit")
        assert consumer.receive_body(str, WAIT_S) == "kept"
        consumer.close()
        session.unsubscribe("audit")
    subscribe_and_leave(url, "mallory", client_id, is_shared=is_shared)  # of the name there is none any more


def test_who_asked_for_a_subscription_does_not_end_the_one_that_another_made_of_its_name(
    url: str, world: str, client_id: str
) -> None:
    """Of AMQP-11: his link stayed open, and its close ended the other's subscription, with what it held."""
    subscribe_and_leave(url, "mallory", client_id)
    mallory: Any = BlockingConnection(url, timeout=WAIT_S, user="mallory", password=PASSWORD, container_id=client_id)
    held = mallory.container.create_receiver(mallory.conn, None, name="audit", options=[NullSource()])
    mallory.wait(lambda: held.state & Endpoint.REMOTE_ACTIVE)
    with Admin(f"memory://{world}") as admin:
        admin.unsubscribe("audit", client_id=client_id)
    subscribe_and_leave(url, "alice", client_id)
    held.close()
    mallory.wait(lambda: held.state & Endpoint.REMOTE_CLOSED)
    assert "another user's" in str(held.remote_condition)
    mallory.close()
    subscribe_and_leave(url, "alice", client_id)


def test_nobody_in_particular_owns_nothing_and_takes_nothing(url: str, client_id: str) -> None:
    """AMQP-11: what he made is the next user's."""
    with ConnectionFactory(url, client_id=client_id).create_connection() as anonymous:
        anonymous.create_session().create_durable_consumer(PRICES, "audit").close()
    subscribe_and_leave(url, "alice", client_id)
    with (
        ConnectionFactory(url, client_id=client_id).create_connection() as anonymous,
        pytest.raises(JMSError, match="another user's"),
    ):
        anonymous.create_session().create_durable_consumer(PRICES, "audit")


def test_a_program_with_kafkas_credentials_is_not_bound_and_what_it_made_is_the_next_users(
    url: str, world: str, client_id: str
) -> None:
    """Of AMQP-11."""
    with ConnectionFactory(f"memory://{world}", client_id=client_id).create_connection() as connection:
        connection.create_session().create_durable_consumer(PRICES, "audit").close()
    subscribe_and_leave(url, "alice", client_id)
    with ConnectionFactory(f"memory://{world}", client_id=client_id).create_connection() as connection:
        connection.create_session().create_durable_consumer(PRICES, "audit").close()


def test_an_operator_sees_whose_it_is_and_releases_it(
    url: str, world: str, client_id: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of AMQP-11."""
    subscribe_and_leave(url, "alice", client_id)
    with Admin(f"memory://{world}") as admin:
        assert {each.owner for each in admin.subscriptions() if each.client_id == client_id} == {"alice"}
        assert main(["subscriptions", "release", "audit", "--client-id", client_id, "--help"]) == 0
        assert "next AMQP user" in capsys.readouterr().out
        assert admin.release_subscription("audit", client_id=client_id).owner == "alice"
        assert {each.owner for each in admin.subscriptions() if each.client_id == client_id} == {""}
        with pytest.raises(InvalidDestinationError, match="nothing-here"):
            admin.release_subscription("nothing-here")
    subscribe_and_leave(url, "mallory", client_id)


def test_an_owner_of_an_ended_subscription_of_the_name_is_nobody() -> None:
    """Of AMQP-11: an older process ends one and knows nothing of owners."""
    values = {owner_key("g"): encode_owner("one", "alice"), owner_key("h"): b"\xff"}
    assert owner_of(values, "g", "one") == "alice"
    assert owner_of(values, "g", "two") == ""
    assert owner_of(values, "h", "one") == ""
    assert owner_of(values, "i", "one") == ""


def test_a_user_id_is_the_senders_own_where_that_is_wanted() -> None:
    """Of AMQP-11."""
    said: list[Header] = [("jms.string.JMSXUserID", b"bob"), ("a", b"1"), ("amqp.user-id", b"\xff")]
    with pytest.raises(JMSSecurityError, match=r"user-id b'bob' is not the sender's, 'alice'"):
        verify_user(said, "alice", "check")
    verify_user(said, "alice", "set")
    assert said == [("a", b"1"), ("jms.string.JMSXUserID", b"alice")]
    verify_user(said, "alice", "check")
    with pytest.raises(JMSSecurityError):
        verify_user(said, ANONYMOUS, "check")
    verify_user(said, ANONYMOUS, "set")
    assert said == [("a", b"1")]


@pytest.mark.parametrize(
    "claimed",
    [
        Message(body="x", user_id=b"bob"),
        Message(body="x", user_id=b"\xff"),
        Message(body="x", properties={"JMSXUserID": "bob"}),
        Message(body="x", properties={"JMSXUserID": 7}),
    ],
    ids=["field", "bytes", "property", "number"],
)
def test_no_form_of_a_users_id_passes_for_anothers(claimed: Message) -> None:
    """Of AMQP-11: a message came from whom its sender named, for the headers were looked for by another name."""
    headers = decode_transfer(claimed.encode(), now_ms=0).headers
    with pytest.raises(JMSSecurityError, match="is not the sender's, 'alice'"):
        verify_user(headers, "alice", "check")
    verify_user(headers, "alice", "set")
    assert [value for name, value in headers if "user" in name.lower()] == [b"alice"]
    verify_user(decode_transfer(Message(body="x", user_id=b"alice").encode(), now_ms=0).headers, "alice", "check")


@pytest.mark.parametrize(("how", "shown"), [("off", "bob"), ("set", "alice")])
def test_the_user_id_that_receivers_see(how: str, shown: str | None) -> None:
    """Of AMQP-11."""
    settings = ServerSettings([Listener(port=0)], Access(USERS), drain_s=0.0, verify_user_id=how)  # type: ignore[arg-type]
    installation = Installation(f"owners{secrets.token_hex(4)}", {}, None, SidecarConfig())
    with Server(settings, lambda: in_memory.connect(installation)) as server:
        factory = ConnectionFactory(f"amqp://127.0.0.1:{server.ports[0]}")
        with factory.create_connection("alice", PASSWORD) as connection:
            session = connection.create_session()
            session.create_producer(Queue("orders")).send("hello", properties={"JMSXUserID": "bob"})
            message = session.create_consumer(Queue("orders")).receive(timeout=WAIT_S)
    assert isinstance(message, TextMessage)
    assert message.properties.get("JMSXUserID") == shown
