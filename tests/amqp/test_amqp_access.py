"""Who may come in by AMQP, how he proves it, and what he may do then."""

from __future__ import annotations

import secrets
import ssl
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from proton import ConnectionException, Message, SSLDomain
from proton.utils import BlockingConnection, LinkDetached, SendException

from jbm_kafka.amqp.access import Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.sasl import SaslServer
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp_wire.sasl_frames import HEADER
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.amqp.java_clients import JavaClients
from tests.support.secured import Certificates, make_certificates

TIMEOUT_S = 20
PASSWORD = "päss, =word"
ASCII = "pass, =word"
"""Qpid JMS refuses to prove any other by SCRAM."""
USERS = {
    "shop": User(Verifier.of_password(PASSWORD), {"send": ["orders.#"], "receive": ["orders.#"]}),
    "java": User(Verifier.of_password(ASCII), {"send": ["orders.#"], "receive": ["orders.#"]}),
    "carol": User(rights={"browse": ["orders.#"]}),
}


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def ports(certificates: Certificates) -> Iterator[Sequence[int]]:
    """Of a listener without TLS and of one with it."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.authority))
    tls.load_cert_chain(certificates.server)
    tls.verify_mode = ssl.CERT_OPTIONAL
    listeners = [Listener(port=0), Listener(port=0, tls=tls)]
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings(listeners, Access(USERS), drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made.ports


def connected(port: int, certificates: Certificates | None = None, **options: Any) -> Any:
    """A client; with certificates it is one of TLS."""
    scheme, domain = "amqp", None
    if certificates is not None:
        scheme, domain = "amqps", SSLDomain(SSLDomain.MODE_CLIENT)
        domain.set_trusted_ca_db(str(certificates.authority))
        if options.pop("shows_certificate", False):
            domain.set_credentials(str(certificates.certificate), str(certificates.key), None)
    return BlockingConnection(f"{scheme}://localhost:{port}", timeout=TIMEOUT_S, ssl_domain=domain, **options)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "PLAIN"])
def test_a_user_with_a_password_may_what_his_patterns_say(
    ports: Sequence[int], certificates: Certificates, mechanism: str
) -> None:
    """AMQP-11."""
    client = connected(ports[1], certificates, user="shop", password=PASSWORD, allowed_mechs=mechanism)
    client.create_sender("orders.new").send(Message(body="one"))
    receiver = client.create_receiver("orders.new", credit=1)
    assert receiver.receive(timeout=TIMEOUT_S).body == "one"
    receiver.accept()
    for refused in (client.create_sender, client.create_receiver):
        with pytest.raises(LinkDetached, match=r"unauthorized-access.*user 'shop' may not"):
            refused("payments")
    with pytest.raises(SendException):
        client.create_sender(None).send(Message(address="payments"))
    client.close()


@pytest.mark.parametrize(
    ("options", "listener"),
    [
        ({"user": "shop", "password": "wrong"}, 1),
        ({"user": "nobody", "password": PASSWORD}, 1),
        ({"user": "shop", "password": PASSWORD, "allowed_mechs": "PLAIN", "allow_insecure_mechs": True}, 0),
        ({"allowed_mechs": "ANONYMOUS"}, 1),
        ({"sasl_enabled": False}, 0),
    ],
)
def test_who_proves_nothing_does_not_come_in(
    ports: Sequence[int], certificates: Certificates, options: dict[str, Any], listener: int
) -> None:
    """AMQP-11."""
    with pytest.raises(ConnectionException):
        connected(ports[listener], certificates if listener else None, **options)


def test_a_certificate_says_who_a_client_is(ports: Sequence[int], certificates: Certificates) -> None:
    """AMQP-11."""
    client = connected(ports[1], certificates, shows_certificate=True, allowed_mechs="EXTERNAL")
    client.close()


def test_qpid_jms_gets_the_security_exceptions_of_jms(
    ports: Sequence[int], certificates: Certificates, java_clients: JavaClients, tmp_path: Path
) -> None:
    """AMQP-11."""
    store = tmp_path / "carol.p12"
    command: list[str | Path] = ["openssl", "pkcs12", "-export", "-out", store, "-passout", "pass:store"]
    subprocess.run([*command, "-in", certificates.certificate, "-inkey", certificates.key], check=True)
    places = {
        "tls": f"amqps://localhost:{ports[1]}?transport.trustAll=true",
        "password": ASCII,
        "store": str(store),
    }
    client = connected(ports[1], certificates, user="java", password=ASCII)
    client.create_sender("orders.browsed").send(Message(body="one"))
    client.close()
    code, output = java_clients.run("RunTests", ["AccessTest"], places, timeout_s=120)
    print(output)
    assert code == 0


def test_a_wrong_verifier_is_refused_and_never_told() -> None:
    for wrong in (PASSWORD, "SCRAM-SHA-256$0:c2FsdA==$eA==:eA==", 17):
        with pytest.raises(InvalidSettingError, match=r"users\.shop\.password .*sidecar user") as caught:
            Verifier.of_text("users.shop.password", wrong)
        assert PASSWORD not in str(caught.value)
    made = Verifier.of_password(PASSWORD)
    assert Verifier.of_text("x", str(made)) == made
    assert made.fits(PASSWORD)
    assert not made.fits(PASSWORD + " ")


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n",
        HEADER + struct.pack(">IBBH", 2**31, 2, 1, 0),
        HEADER + struct.pack(">IBBH", 4, 2, 1, 0),
        HEADER + struct.pack(">IBBH", 9, 2, 1, 0) + b"\x40",
        HEADER + struct.pack(">IBBH", 16, 2, 1, 0) + b"\x00\x53\x44\x45" + bytes(4),
        HEADER + struct.pack(">IBBH", 12, 2, 0, 0) + b"\x00\x53\x41\x45",
    ],
)
def test_what_is_no_sasl_frame_ends_the_conversation(garbage: bytes) -> None:
    with pytest.raises(ValueError, match=r"it begins|a frame of|a SASL frame|SASL frame 0x"):
        SaslServer(Access(USERS), is_encrypted=True, certificate_user=None).receive(garbage)
