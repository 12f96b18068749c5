"""What one AMQP client may use: beyond it, it harms itself alone. Clients here are sockets, and send what they like."""

from __future__ import annotations

import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from proton import Message
from proton.utils import BlockingConnection, LinkDetached

from jbm_kafka.amqp.amqp_server import Server
from jbm_kafka.amqp.fault_log import EACH_MAX, LINE_MAX
from jbm_kafka.amqp.server_settings import Listener, ServerSettings
from jbm_kafka.amqp_wire.sasl_frames import AMQP_HEADER
from jbm_kafka.codec.amqp.values import list_of, map_of, string, symbol, uint
from jbm_kafka.configuration.server_limits import Limits
from jbm_kafka.ports.installation import Installation, SidecarConfig
from jbm_kafka.providers import in_memory
from tests.support.waiting import wait_until

TIMEOUT_S = 20
NULL, TRUE = b"\x40", b"\x41"
LIMITS = Limits(
    connections=3,
    sessions_per_connection=2,
    links_per_connection=4,
    frame_bytes=4_096,
    message_bytes=2**20,
    idle_timeout_s=2.0,
    open_timeout_s=1.0,
)


@pytest.fixture
def server() -> Iterator[Server]:
    installation = Installation(f"amqp{secrets.token_hex(4)}", {}, None, SidecarConfig())
    settings = ServerSettings([Listener(port=0)], limits=LIMITS, drain_s=0.0)
    with Server(settings, lambda: in_memory.connect(installation)) as made:
        yield made


@pytest.fixture(autouse=True)
def another(server: Server) -> Iterator[None]:
    """Another client, which goes on whatever the one in the test does: to the end it sends, and is answered."""
    is_over, sent = threading.Event(), [""]

    def send() -> None:
        client = connected(server)
        sender = client.create_sender("orders")
        while not is_over.is_set():
            sender.send(Message(body="one"))
            sent.append("one")
            is_over.wait(0.05)
        client.close()
        sent.append("all")

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(lambda: sent[-1], about="its first message", timeout_s=TIMEOUT_S)
    yield
    is_over.set()
    thread.join(TIMEOUT_S)
    assert sent[-1] == "all"


def connected(server: Server) -> Any:
    return BlockingConnection(f"127.0.0.1:{server.ports[0]}", timeout=TIMEOUT_S)


def opened(server: Server, *frames: bytes) -> socket.socket:
    """A client without SASL that sends these frames behind its open."""
    made = socket.create_connection(("127.0.0.1", server.ports[0]), timeout=TIMEOUT_S)
    made.sendall(AMQP_HEADER + frame(0x10, string("me"), NULL, uint(4_096)) + b"".join(frames))
    return made


def frame(code: int, *fields: bytes) -> bytes:
    body = b"\x00\x53" + bytes([code]) + list_of(fields)
    return struct.pack(">IBBH", len(body) + 8, 2, 0, 0) + body


def receiver(number: int, address: str, filters: bytes = NULL) -> bytes:
    source = b"\x00\x53\x28" + list_of([string(address), *[NULL] * 6, filters])
    return frame(0x12, string(f"r{number}"), uint(number), TRUE, NULL, NULL, source, NULL)


def said(client: socket.socket) -> bytes:
    """All that comes until the server closes."""
    got = b""
    while True:
        try:
            part = client.recv(65_536)
        except ConnectionResetError:
            return got
        if not part:
            return got
        got += part


@pytest.mark.parametrize(
    "beginning",
    [b"", b"AMQ", AMQP_HEADER, AMQP_HEADER + struct.pack(">IBBH", 500, 2, 0, 0) + b"\x00\x53\x10"],
    ids=["nothing", "half a header", "a header alone", "half a frame"],
)
def test_who_stalls_before_his_open_is_let_go(server: Server, beginning: bytes) -> None:
    """AMQP-10."""
    with socket.create_connection(("127.0.0.1", server.ports[0]), timeout=TIMEOUT_S) as slow:
        slow.sendall(beginning)
        said(slow)


def test_who_stalls_in_a_frame_or_sends_nothing_is_let_go(server: Server) -> None:
    """AMQP-10."""
    with closing(opened(server, struct.pack(">IBBH", 500, 2, 0, 0))) as slow:
        assert b"resource-limit-exceeded" in said(slow)


def test_a_frame_over_the_limit_ends_its_connection(server: Server) -> None:
    """AMQP-10."""
    with closing(opened(server, struct.pack(">IBBH", 2**31, 2, 0, 0))) as large:
        assert b"amqp:" in said(large)


def test_a_message_too_large_costs_its_link_alone_in_however_many_frames_it_comes(server: Server) -> None:
    """AMQP-10: behind a few thousand, most of them for a link that had ended, the connection ended, too."""
    with closing(connected(server)) as client:
        with pytest.raises(LinkDetached, match="message-size-exceeded"):
            client.create_sender("orders", name="large").send(Message(body=b"x" * (10 * 2**20)))
        client.create_sender("orders", name="small").send(Message(body="x"))


def test_links_and_sessions_without_end_end_their_connection(server: Server) -> None:
    """AMQP-10."""
    begin = frame(0x11, NULL, uint(0), uint(100), uint(100))
    with closing(opened(server, begin, *(receiver(each, "orders") for each in range(100)))) as many:
        assert b"more than 4 links" in said(many)
    with closing(opened(server, *(begin[:6] + struct.pack(">H", each) + begin[8:] for each in range(100)))) as many:
        assert b"amqp:" in said(many)


def test_a_connection_too_many_is_closed(server: Server) -> None:
    """AMQP-10."""
    with closing(opened(server)) as second, closing(opened(server)) as third:
        wait_until(lambda: len(server.wires) == 3, about="three clients", timeout_s=TIMEOUT_S)
        with closing(opened(server)) as fourth:
            assert b"3 of all clients may be connected" in said(fourth)
        assert second.fileno() != third.fileno()
        counted = server.statistics()
        assert (counted.clients, counted.client_links, counted.clients_refused) == (3, 1, 1)


def test_a_filter_that_is_nested_without_end_is_one_short_line(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """AMQP-10: it wrote 156 KB of log, each time."""
    nested = b"\x00\x44" * 1_500 + NULL
    filters = map_of([symbol("nested") + nested])
    begin = frame(0x11, NULL, uint(0), uint(100), uint(100))
    with closing(opened(server, begin, *(receiver(each, "orders", filters) for each in range(3)))) as client:
        wait_until(lambda: caplog.records, about="a line", timeout_s=TIMEOUT_S)
        client.sendall(frame(0x18))
        assert all(len(each) < 700 for each in said(client).split(b"amqp:internal-error"))
    assert all(len(each.getMessage()) <= LINE_MAX and not each.exc_info for each in caplog.records)
    assert len(caplog.records) <= EACH_MAX


def test_a_description_that_a_client_is_told_is_short(server: Server) -> None:
    """Of AMQP-10: it had whatever the client had sent."""
    begin = frame(0x11, NULL, uint(0), uint(100), uint(100))
    selector = b"\x00" + symbol("apache.org:selector-filter:string") + string("a = 1 and" * 300)
    with closing(opened(server, begin, receiver(0, "orders", map_of([symbol("selector") + selector])))) as client:
        client.sendall(frame(0x18))
        told = said(client)
    assert b"amqp:invalid-field" in told
    assert len(told) < 1_500
