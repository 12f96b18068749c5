"""Who comes in by AMQP while others hold sockets, fill their share, or guess passwords. Clients here are sockets."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from types import FrameType

import pytest

from jbm_kafka.amqp.access import ANONYMOUS, Access, User
from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.fault_log import EACH_MAX, LINE_MAX
from jbm_kafka.amqp.scram import Verifier
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp.shares import Whose
from jbm_kafka.amqp_wire.sasl_frames import AMQP_HEADER, HEADER, INIT, framed
from jbm_kafka.codec.amqp.values import binary, list_of, string, symbol
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.waiting import wait_until

TIMEOUT_S = 20
REFUSED = b"\x00\x53\x44\xc0\x03\x01\x50\x01"
"""The outcome of who is not let in."""
LIMITS = Limits(
    open_timeout_s=1.0,
    connections=6,
    connections_per_user=2,
    connections_per_address=3,
    handshakes=4,
    handshakes_per_address=2,
)
USERS = {
    "alice": User(Verifier.of_password("right"), {"send": ["orders"]}),
    "bob": User(Verifier.of_password("right"), {"send": ["orders"]}),
    ANONYMOUS: User(rights={"send": ["orders"]}),
}


@pytest.fixture
def server() -> Iterator[Server]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    access = Access(USERS, plain_without_tls=True)
    settings = ServerSettings([Listener(port=0)], access, LIMITS, drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    """What closes their sockets."""
    with ExitStack() as opened:
        yield opened


def came(server: Server, clients: ExitStack, sends: bytes, address: str = "127.0.0.1") -> socket.socket:
    made = socket.create_connection(("127.0.0.1", server.ports[0]), TIMEOUT_S, source_address=(address, 0))
    made.sendall(sends)
    return clients.enter_context(made)


def client_of(user: str, password: str = "right") -> bytes:
    """All that a client sends until it is in."""
    said = f"\0{user}\0{password}".encode()
    init = framed(INIT, symbol("ANONYMOUS")) if user == ANONYMOUS else framed(INIT, symbol("PLAIN"), binary(said))
    opens = b"\x00\x53\x10" + list_of([string("me")])
    return HEADER + init + AMQP_HEADER + struct.pack(">IBBH", len(opens) + 8, 2, 0, 0) + opens


def heard(client: socket.socket, what: bytes) -> bytes:
    """All that it is sent until these bytes, or the end."""
    got = b""
    while what not in got:
        part = client.recv(65_536)
        if not part:
            break
        got += part
    return got


def is_in(client: socket.socket) -> bool:
    return b"product" in heard(client, b"product")


def test_silent_sockets_keep_nobody_of_another_address_out(server: Server, clients: ExitStack) -> None:
    """AMQP-10."""
    for _ in range(20):
        came(server, clients, b"", "127.0.0.2")
    assert is_in(came(server, clients, client_of("alice"), "127.0.0.3"))
    assert is_in(came(server, clients, client_of(ANONYMOUS), "127.0.0.3"))


def test_who_comes_behind_silent_sockets_of_its_own_address_waits_for_its_turn(
    server: Server, clients: ExitStack
) -> None:
    """AMQP-10."""
    for _ in range(4):
        came(server, clients, b"")
    assert is_in(came(server, clients, client_of("alice")))


def test_a_user_and_an_address_of_nobody_in_particular_fill_their_share_alone(
    server: Server, clients: ExitStack
) -> None:
    """AMQP-10: who is one too many is told so; the rest is for others, of the same address, too."""
    assert all(is_in(came(server, clients, client_of(ANONYMOUS))) for _ in range(3))
    text = b"3 of address '127.0.0.1' may be connected"
    for _ in range(5):  # who stays when it is refused holds no turn
        assert text in heard(came(server, clients, client_of(ANONYMOUS)), text)
    first, _ = [came(server, clients, client_of("alice")) for _ in range(2)]
    wait_until(lambda: len(server.wires) == 5, about="all of them", timeout_s=TIMEOUT_S)
    text = b"2 of user 'alice' may be connected"
    assert text in heard(came(server, clients, client_of("alice"), "127.0.0.2"), text)
    assert is_in(came(server, clients, client_of("bob")))
    text = b"6 of all clients may be connected"
    assert text in heard(came(server, clients, client_of("bob")), text)
    first.close()
    wait_until(lambda: len(server.wires) == 5, about="one less", timeout_s=TIMEOUT_S)
    assert is_in(came(server, clients, client_of("alice")))
    assert server.refused == 7


def test_more_clients_than_turns_come_in_one_after_the_other(server: Server, clients: ExitStack) -> None:
    """AMQP-10: they connect first, all of them, and say who they are later."""
    came_in = [came(server, clients, b"", "127.0.0.2") for _ in range(3)]
    for each in came_in:
        each.sendall(client_of(ANONYMOUS))
    assert all(is_in(each) for each in came_in)


def test_a_right_password_waits_for_no_wrong_one(server: Server, clients: ExitStack) -> None:
    """AMQP-10: he who guesses waits for his answer, and nobody is locked out, of the same address and user neither."""
    for _ in range(10):
        server.door.delays.failed(server.loop.time(), Whose("user", "alice"))
    guesses = [came(server, clients, client_of("alice", f"wrong {number}")) for number in range(3)]
    wait_until(lambda: server.refused == 3, about="they are refused", timeout_s=TIMEOUT_S)
    assert is_in(came(server, clients, client_of("alice")))
    for each in guesses:
        each.setblocking(False)
        assert REFUSED not in each.recv(65_536), "it has heard of it already"


def test_who_goes_before_he_hears_that_his_guess_was_wrong_has_a_turn_less(server: Server, clients: ExitStack) -> None:
    """AMQP-10."""
    for _ in range(10):
        server.door.delays.failed(server.loop.time(), Whose("user", "alice"))
    for number in range(2):
        came(server, clients, client_of("alice", f"wrong {number}"), "127.0.0.2").close()
    wait_until(lambda: server.refused == 2 and not server.door.newcomers, about="they are gone", timeout_s=TIMEOUT_S)
    waits = came(server, clients, client_of("alice", "wrong"), "127.0.0.2")
    assert is_in(came(server, clients, client_of("alice"), "127.0.0.3"))
    assert server.refused == 2, "the third guess has its turn only when the first two were answered"
    waits.close()


def test_passwords_are_checked_beside_the_loop() -> None:
    """AMQP-10: a hash of one takes milliseconds."""
    threads: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is Verifier.fits.__code__:
            threads.append(threading.current_thread().name)

    threading.setprofile(note)
    try:
        installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
        settings = ServerSettings([Listener(port=0)], Access(USERS, plain_without_tls=True), drain_s=0.0)
        with Server(settings, lambda: in_memory.connect(installation)) as made, ExitStack() as clients:
            for _ in range(2):
                assert is_in(came(made, clients, client_of("alice")))
            assert REFUSED in heard(came(made, clients, client_of("nobody")), REFUSED)
    finally:
        threading.setprofile(None)
    assert threads == ["jbm-amqp-password_0"] * 2, "and a second time what is known is not hashed"


def test_a_clients_mistakes_are_a_few_short_lines(
    server: Server, clients: ExitStack, caplog: pytest.LogCaptureFixture
) -> None:
    """Of AMQP-10: whatever it is called, and however often it comes."""
    assert REFUSED in heard(came(server, clients, client_of("eve\n" + "x\x1b[2J" * 300, "wrong")), REFUSED)
    for _ in range(EACH_MAX + 3):
        told = came(server, clients, HEADER + framed(INIT, symbol("NONE" * 500), binary(b"")))
        assert REFUSED in heard(told, REFUSED)
    lines = [each.getMessage() for each in caplog.records if each.name == "jbm_kafka.amqp.fault_log"]
    assert len(lines) == EACH_MAX
    assert all(len(each) <= LINE_MAX and each.isprintable() for each in lines)
