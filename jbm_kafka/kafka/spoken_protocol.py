"""What a port speaks, TLS or Kafka's plain protocol, seen by its answer to the first bytes of either.

librdkafka goes on trying where only the other one is spoken, and can tell it from a broker that is just starting no
better than by waiting.
"""

import socket
import ssl
import struct
from contextlib import suppress

_CORRELATION_ID = 0x4A424D00
_API_VERSIONS = struct.pack(">hhih", 18, 0, _CORRELATION_ID, -1)
"""What a broker answers to anybody, also before it asks for credentials. Without a client id."""
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""An alert and a handshake, of any version of TLS."""


def speaks_plain_kafka(connection: socket.socket) -> bool:
    """True when a Kafka broker answers that needs no TLS; False when not, or nothing comes in the socket's time."""
    answer = _answer(connection, struct.pack(">i", len(_API_VERSIONS)) + _API_VERSIONS, 8)
    return answer[4:] == struct.pack(">i", _CORRELATION_ID)


def speaks_tls(connection: socket.socket, host: str) -> bool:
    """True when TLS answers, be it with a refusal; False when not, or nothing comes in the socket's time."""
    return _answer(connection, _hello(host), 2) in _TLS_RECORDS


def _hello(host: str) -> bytes:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing secret is sent
    written = ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), written, server_hostname=host).do_handshake()
    return written.read()


def _answer(connection: socket.socket, question: bytes, length: int) -> bytes:
    """So many bytes of the answer, or fewer."""
    answer = b""
    with suppress(OSError):
        connection.sendall(question)
        while len(answer) < length and (more := connection.recv(length - len(answer))):
            answer += more
    return answer
