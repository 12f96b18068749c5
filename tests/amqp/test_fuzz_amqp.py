"""Clients that use AMQP as few do: the server lives, answers, and serves the others. It is a process in memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest
from proton import Message
from proton.utils import BlockingConnection

from jbm_kafka.amqp_wire.sasl_frames import AMQP_HEADER
from jbm_kafka.codec.amqp.values import Amqp, binary, read, string, uint, ulong
from tests.amqp.fuzz import fuzz, fuzzed_server
from tests.amqp.fuzz_histories import (
    ANSWER_S,
    ATTACH,
    BEGIN,
    DETACH,
    END,
    FALSE,
    FLOW,
    NULL,
    OPEN,
    TRANSFER,
    TRUE,
    Frame,
    described,
)
from tests.amqp.server_process import ServerProcess

CLOSE = 0x18
SEED = 20_450


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with fuzzed_server(tmp_path_factory.mktemp("fuzz")) as server:
        yield server


@pytest.fixture
def server(process: ServerProcess) -> Iterator[ServerProcess]:
    """It lives, and says of no error of its own, when the test is over."""
    yield process
    process.check()


class Raw:
    """A client that sends frames, and sees what comes."""

    def __init__(self, server: ServerProcess, container: str, *frames: Frame) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.task.port), timeout=ANSWER_S)
        self._got = b""
        self._socket.sendall(AMQP_HEADER)
        self.send(Frame(OPEN, [string(container)]), Frame(BEGIN, [NULL, uint(0), uint(2_048), uint(2_048)]), *frames)
        self._read(8)

    def send(self, *frames: Frame) -> None:
        """In one packet."""
        self._socket.sendall(b"".join(each.bytes() for each in frames))

    def next(self, code: int) -> list[Amqp]:
        """The fields of the next frame of this kind that comes; of a transfer, the payload behind them."""
        while True:
            size = int.from_bytes(self._read(4), "big")
            body = self._read(size - 4)[4:]
            if body and body[2] == code:
                held, end = read(body, 0)
                payload = [Amqp("binary", body[end:])] if code == TRANSFER else []
                return [*held.value[1].value, *payload]

    def _read(self, size: int) -> bytes:
        while len(self._got) < size:
            part = self._socket.recv(65_536)
            assert part, "the server has closed the connection"
            self._got += part
        taken, self._got = self._got[:size], self._got[size:]
        return taken

    def close(self) -> None:
        self._socket.close()


def receiver(name: str, address: str, handle: int = 0, channel: int = 0) -> Frame:
    source = described(0x28, string(address))
    return Frame(ATTACH, [string(name), uint(handle), TRUE, NULL, NULL, source, described(0x29, string("x"))], channel)


def sender(name: str, address: str, handle: int = 0) -> Frame:
    target = described(0x29, string(address))
    fields = [string(name), uint(handle), FALSE, NULL, NULL, described(0x28, string("x")), target, NULL, NULL, uint(0)]
    return Frame(ATTACH, fields)


def flow(credit: int, *, handle: int | None = 0, echo: bool = False) -> Frame:
    link = [NULL, NULL, NULL] if handle is None else [uint(handle), uint(0), uint(credit)]
    return Frame(FLOW, [uint(0), uint(2_048), uint(0), uint(2_048), *link, NULL, FALSE, TRUE if echo else FALSE])


def name_of(error: Amqp) -> str:
    """The condition's."""
    return str(error.value[1].value[0].value)


@pytest.mark.parametrize("kind", ["topic", "queue", "temporary", "sender"])
def test_a_detach_whose_session_ends_while_it_waits_leaves_the_server_alive(server: ServerProcess, kind: str) -> None:
    """AMQP-10: links that are being closed are freed once."""
    temporary = described(0x28, *[NULL] * 4, TRUE)
    made = {
        "topic": receiver("it", "topic://ended"),
        "queue": receiver("it", "ended"),
        "temporary": Frame(ATTACH, [string("it"), uint(0), TRUE, NULL, NULL, temporary, described(0x29, string("x"))]),
        "sender": sender("it", "ended"),
    }[kind]
    with closing(Raw(server, "ID:ends")) as client:
        for channel in range(1, 40):
            made.channel = channel
            client.send(Frame(BEGIN, [NULL, uint(0), uint(10), uint(10)], channel), made)
            client.next(ATTACH)
            client.send(Frame(DETACH, [uint(0), TRUE], channel), Frame(END, [], channel))
        client.send(Frame(CLOSE, []))
        client.next(CLOSE)


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_detach_right_behind_its_attach_is_answered(server: ServerProcess, is_closed: bool) -> None:
    """AMQP-10."""
    with closing(Raw(server, "ID:quick", receiver("it", "quick"))) as client:
        client.send(Frame(DETACH, [uint(0), TRUE if is_closed else FALSE]))
        client.next(ATTACH)
        assert any(each.value is True for each in client.next(DETACH)[1:]) is is_closed


@pytest.mark.parametrize("credit", [2**31 - 1, 2**31, 3_000_000_000, 2**32 - 1])
def test_a_credit_of_2_to_31_and_more_gets_its_messages(server: ServerProcess, credit: int) -> None:
    """AMQP-10: the credit is an unsigned int."""
    address = f"credit.{credit}"
    with closing(BlockingConnection(server.url, timeout=ANSWER_S)) as other:
        other.create_sender(address).send(Message(body="one"))
    with closing(Raw(server, "ID:credit", receiver("it", address), flow(credit))) as client:
        assert b"one" in client.next(TRANSFER)[-1].value


@pytest.mark.parametrize("made", [receiver, sender])
def test_a_nul_in_an_address_is_refused_as_the_anonymous_relay_refuses_it(server: ServerProcess, made: object) -> None:
    """AMQP-10."""
    attach = receiver if made is receiver else sender
    with closing(Raw(server, "ID:nul", attach("it", "cut\0here"))) as client:
        client.next(ATTACH)
        assert name_of(client.next(DETACH)[2]) == "amqp:not-found"
        client.send(Frame(DETACH, [uint(0), TRUE]), sender("other", "cut", 1))
        assert client.next(ATTACH)[0].value == "other"


def test_a_nul_in_the_name_of_a_link_or_a_container_is_refused(server: ServerProcess) -> None:
    """AMQP-10: else two names would be one."""
    with closing(Raw(server, "ID:nul", receiver("it\0self", "cut"))) as client:
        client.next(ATTACH)
        assert name_of(client.next(DETACH)[2]) == "amqp:invalid-field"
    with closing(Raw(server, "me\0you")) as client:
        assert name_of(client.next(CLOSE)[0]) == "amqp:invalid-field"


def test_an_echo_of_a_session_is_answered(server: ServerProcess) -> None:
    """AMQP-10: with its state."""
    with closing(Raw(server, "ID:echo")) as client:
        client.next(BEGIN)
        client.send(flow(0, handle=None, echo=True))
        told = client.next(FLOW)
        assert (told[0].value, told[1].value) == (0, 2**31 - 1)
        assert len(told) < 5 or told[4].value is None


def test_an_echo_of_a_link_is_answered_with_its_credit(server: ServerProcess) -> None:
    """AMQP-10: of one that sends to the client, and of one that receives from it."""
    with closing(BlockingConnection(server.url, timeout=ANSWER_S)) as other:
        other.create_sender("echoed").send(Message(body="one"))
    with closing(Raw(server, "ID:echo", sender("to", "echoed", 0), receiver("from", "echoed", 1))) as client:
        handles = {attach[0].value: attach[1].value for attach in (client.next(ATTACH), client.next(ATTACH))}
        client.send(flow(7, handle=1))
        client.next(TRANSFER)
        client.send(flow(7, handle=1, echo=True))  # as of before the message
        told = client.next(FLOW)
        assert [each.value for each in told[4:7]] == [handles["from"], 1, 6]
        client.send(Frame(FLOW, [*[uint(0)] * 4, uint(0), uint(0), uint(500), NULL, FALSE, TRUE]))
        told = client.next(FLOW)
        assert [each.value for each in told[4:7]] == [handles["to"], 0, 500]


def test_a_second_attach_of_a_name_steals_the_link(server: ServerProcess) -> None:
    """AMQP-10: what the first one had comes to the second; another container's links of the name go on."""
    with closing(BlockingConnection(server.url, timeout=ANSWER_S)) as other:
        other.create_sender("stolen").send(Message(body="one"))
    first = Raw(server, "ID:thief", receiver("it", "stolen"), flow(1))
    stranger = Raw(server, "ID:stranger", receiver("it", "stolen.not"))
    with closing(first), closing(stranger):
        assert b"one" in first.next(TRANSFER)[-1].value
        stranger.next(ATTACH)
        with closing(Raw(server, "ID:thief", receiver("it", "stolen"), flow(1))) as second:
            assert b"one" in second.next(TRANSFER)[-1].value
            assert name_of(first.next(DETACH)[2]) == "amqp:link:stolen"
            stranger.send(flow(1, echo=True))
            stranger.next(FLOW)
        begin = Frame(BEGIN, [NULL, uint(0), uint(10), uint(10)], 1)
        stranger.send(begin, receiver("it", "stolen.not", channel=1))
        assert name_of(stranger.next(DETACH)[2]) == "amqp:link:stolen"


@pytest.mark.parametrize(
    "frame",
    [
        Frame(BEGIN, [b"\x60\0\0", uint(0), uint(10), uint(10)], 1),
        Frame(TRANSFER, [uint(0), uint(0), binary(b"t"), uint(0)], 0, b"\x00\x53\x75\xa0\x00"),
        Frame(ATTACH, [string("other"), uint(0), TRUE]),
        Frame(ATTACH, [b"\xa1\x02\xff\xfe", uint(1), TRUE]),
        Frame(BEGIN, [NULL, uint(0), uint(10), uint(10)]),
        Frame(OPEN, [string("again")]),
    ],
    ids=["answers none", "by a receiver", "handle in use", "no UTF-8", "channel in use", "opened twice"],
)
def test_a_frame_that_no_client_may_send_ends_its_connection(server: ServerProcess, frame: Frame) -> None:
    """AMQP-10: the engine would use memory that is not its own, or take one text for another."""
    with closing(Raw(server, "ID:no", receiver("it", "orders"))) as client:
        client.next(ATTACH)
        client.send(frame)
        assert name_of(client.next(CLOSE)[0]).startswith("amqp:")


def test_the_name_of_a_transaction_may_be_anything(server: ServerProcess) -> None:
    """AMQP-10: a number is no name."""
    state = described(0x34, ulong(2**63))
    transfer = Frame(TRANSFER, [uint(0), uint(0), binary(b"t"), uint(0), FALSE, FALSE, NULL, state])
    transfer.payload = b"\x00\x53\x75\xa0\x01x"
    with closing(Raw(server, "ID:number", sender("it", "numbers"))) as client:
        client.next(ATTACH)
        client.next(FLOW)
        client.send(transfer)
        assert client.next(0x15)[3].value is True


def test_a_client_that_gives_up_many_messages_may_send_on(server: ServerProcess) -> None:
    """AMQP-10: each that is aborted uses up credit, and nobody gave it any more."""
    with closing(Raw(server, "ID:aborts", sender("it", "aborted"))) as client:
        client.next(ATTACH)
        credit = client.next(FLOW)[6].value
        for number in range(credit):
            transfer = [uint(0), uint(number), binary(b"%d" % number), uint(0), FALSE]
            client.send(Frame(TRANSFER, [*transfer, TRUE], 0, b"\x00\x53\x75"))
            client.send(Frame(TRANSFER, [*transfer, FALSE, NULL, NULL, NULL, TRUE]))
        told = client.next(FLOW)
        assert told[5].value > 0 < told[6].value


def test_random_clients_harm_themselves_alone(server: ServerProcess) -> None:
    """AMQP-10: legal sequences, and frames of every kind; another client is served all along."""
    assert fuzz(server, SEED, 8) > 20


@pytest.mark.thorough
def test_more_random_clients_harm_themselves_alone(server: ServerProcess) -> None:
    """AMQP-10: `make fuzz-amqp` goes on for two minutes."""
    assert fuzz(server, SEED + 10**6, 30) > 75
