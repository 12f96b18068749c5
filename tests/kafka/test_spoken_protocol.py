"""What a port speaks is told by its first answer, and what is neither is not taken for one."""

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from jbm_kafka.kafka.spoken_protocol import speaks_plain_kafka, speaks_tls
from tests.support.secured import SecuredBroker

WAIT_S = 0.2
Answer = Callable[[bytes], bytes]


def asked(address: str, *, timeout_s: float = 5.0) -> tuple[bool, bool]:
    """Whether it speaks Kafka without TLS, and whether TLS."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=timeout_s) as plain:
        is_plain = speaks_plain_kafka(plain)
    with socket.create_connection((host, int(port)), timeout=timeout_s) as secured:
        return is_plain, speaks_tls(secured, host)


@pytest.fixture
def server() -> Iterator[Callable[[Answer], str]]:
    """Serves two connections with what a function says to their first bytes."""
    with ThreadPoolExecutor() as threads, socket.create_server(("127.0.0.1", 0)) as listening:

        def serve(answer: Answer) -> str:
            def run() -> None:
                for _ in range(2):
                    connection, _ = listening.accept()
                    with connection:
                        connection.sendall(answer(connection.recv(10_000)))

            threads.submit(run)
            return f"127.0.0.1:{listening.getsockname()[1]}"

        yield serve


@pytest.mark.thorough
def test_each_listener_of_a_broker_is_known_for_what_it_is(secured: SecuredBroker) -> None:
    assert asked(secured.open) == (True, False)
    assert asked(secured.sasl) == (False, True)
    assert asked(secured.tls) == (False, True)


@pytest.mark.parametrize(
    "answer",
    [
        lambda question: b"",
        lambda question: question,
        lambda question: b"HTTP/1.1 400 Bad Request\r\n\r\n",
        lambda question: b"\x15",
        lambda question: b"\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00",
    ],
    ids=["closes", "echoes", "a web server", "half an answer", "another question's answer"],
)
def test_what_is_neither_is_taken_for_neither(server: Callable[[Answer], str], answer: Answer) -> None:
    is_plain, is_tls = asked(server(answer))
    assert not is_plain
    assert not is_tls or answer(b"x") == b"x"  # who echoes a greeting of TLS greets


def test_who_says_nothing_is_taken_for_neither() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert asked(f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=WAIT_S) == (False, False)
