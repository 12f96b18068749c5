"""Bridges from and to a server of AMQP that speaks TLS and knows its users: a sidecar of ours, and Apache Artemis."""

from __future__ import annotations

import logging
import secrets
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jbm_kafka import Queue
from jbm_kafka.amqp.access import Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.bridge import Bridge
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.support.artemis import GUEST, PASSWORD, USER, ArtemisServer
from tests.support.secured import Certificates, make_certificates
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(180)

SOON_S = 30.0
FILE = """
cluster = "here"
clusters.here.bootstrap = "{here}"
[clusters.server]
bootstrap = "amqps://127.0.0.1:{port}"
login = {{user = "{user}", password = "{password}"}}
tls = {{ca = "{authority}"}}
[bridges.there]
source.destination = "orders"
target = {{cluster = "server", destination = "{address}", duplicate_property = "_AMQ_DUPL_ID"}}
[bridges.back]
source = {{cluster = "server", destination = "{address}"}}
target.destination = "back"
"""
MakeFile = Callable[..., Path]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module", params=["sidecar", pytest.param("artemis", marks=pytest.mark.thorough)])
def port(
    request: pytest.FixtureRequest, certificates: Certificates, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[int]:
    """Where it speaks TLS, and lets in USER, who may all, and GUEST, who may only receive."""
    with sidecar(certificates) if request.param == "sidecar" else artemis(certificates, tmp_path_factory) as found:
        yield found


@contextmanager
def sidecar(certificates: Certificates) -> Iterator[int]:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificates.server)
    verifier = Verifier.of_password(PASSWORD)
    users = {USER: User(verifier, {"send": ["#"], "receive": ["#"]}), GUEST: User(verifier, {"receive": ["#"]})}
    settings = ServerSettings([Listener(port=0, tls=tls)], Access(users), drain_s=0.0)
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made.ports[0]


@contextmanager
def artemis(certificates: Certificates, folders: pytest.TempPathFactory) -> Iterator[int]:
    made = ArtemisServer(folders.mktemp("artemis"), certificate=certificates.server)
    try:
        made.start()
        yield made.port
    finally:
        made.kill()


@pytest.fixture
def file(world: MemoryWorld, port: int, certificates: Certificates, tmp_path: Path) -> MakeFile:
    """Writes a configuration with bridges there and back over a queue of the server's."""
    address = f"orders-{secrets.token_hex(4)}"

    def write(*, user: str = USER, password: str = PASSWORD, authority: Path = certificates.authority) -> Path:
        path = tmp_path / "jbm-kafka.toml"
        said = {"user": user, "password": password, "authority": authority, "address": address}
        path.write_text(FILE.format(here=world.url, port=port, **said))
        path.chmod(0o600)
        return path

    return write


@contextmanager
def running(path: Path, name: str) -> Iterator[Bridge]:
    bridge = Bridge.from_config(name, path)
    bridge.start()
    try:
        yield bridge
    finally:
        bridge.stop()


def test_a_message_goes_there_and_back_over_tls(world: MemoryWorld, file: MakeFile) -> None:
    """BRIDGE-2, BRIDGE-3: by the login and the authority of the file."""
    path = file()
    with world.factory().create_context() as jms, running(path, "there") as there, running(path, "back") as back:
        jms.create_producer().send(Queue("orders"), "2 books", unit_of_order="joe")
        found = jms.create_consumer(Queue("back")).receive(SOON_S)
        assert found is not None, (there.health(), back.health())
        assert (found.body, found.unit_of_order) == ("2 books", "joe")


@pytest.mark.parametrize("name", ["there", "back"])
@pytest.mark.parametrize("fault", ["password", "authority"])
def test_who_is_not_let_in_is_told_so_in_one_line_and_tries_again(
    world: MemoryWorld, file: MakeFile, port: int, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    name: str, fault: str,
) -> None:  # fmt: skip
    """BRIDGE-8: nothing is lost, and once the file is right it goes."""
    at = f"127.0.0.1:{port}"
    if fault == "password":
        path, says = file(password="wrong"), f"at {at} does not let user 'shop' in: there is no such user, or the"
    else:
        other = make_certificates(tmp_path / "other").authority
        path, says = file(authority=other), f"the certificate of {at} is not trusted: "
    with world.factory().create_context() as jms:
        jms.create_producer().send(Queue("orders"), "1")
        with caplog.at_level(logging.INFO), running(path, name) as bridge:
            wait_until(lambda: bridge.statistics().failures >= 3, about="it tries again", timeout_s=SOON_S)
            health = bridge.health()
        assert (health.is_alive, health.is_ready) == (True, False)
        [reason] = health.reasons
        assert says in reason
        assert "\n" not in reason
        told = [each.getMessage() for each in caplog.records if each.name.startswith("jbm_kafka.bridge")]
        assert told == [f"bridge {name}: nothing goes on, and it is tried again: {reason.partition(': ')[2]}"]
        path = file()
        with running(path, "there"), running(path, "back") as back:
            found = jms.create_consumer(Queue("back")).receive(SOON_S)
            assert found is not None, back.health()
            assert found.delivery_count == 1


def test_a_right_that_is_missing_is_waited_for(world: MemoryWorld, file: MakeFile) -> None:
    """BRIDGE-3, BRIDGE-8: the message stays, and is no dead letter."""
    path = file(user=GUEST)
    with world.factory().create_context() as jms:
        jms.create_producer().send(Queue("orders"), "1")
        with running(path, "there") as bridge:
            wait_until(lambda: bridge.statistics().failures >= 2, about="it tries again", timeout_s=SOON_S)
            [reason] = bridge.health().reasons
        assert "guest" in reason
        assert bridge.statistics().refused == 0
        found = jms.create_consumer(Queue("orders")).receive(SOON_S)
        assert found is not None
        assert found.delivery_count == 1
