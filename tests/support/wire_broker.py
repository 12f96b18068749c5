"""A few answers of Kafka's protocol, for what no real broker can be made to say at will.

Formats: Kafka's protocol guide, ApiVersions 0, Metadata 2, ListOffsets 2 and InitProducerId 0.
"""

import socketserver
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum


class _ApiKey(IntEnum):
    PRODUCE = 0
    LIST_OFFSETS = 2
    METADATA = 3
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22


_SUPPORTED = (
    (_ApiKey.PRODUCE, 3),
    (_ApiKey.API_VERSIONS, 0),
    (_ApiKey.METADATA, 2),
    (_ApiKey.LIST_OFFSETS, 2),
    (_ApiKey.INIT_PRODUCER_ID, 0),
)
"""Nothing is ever produced: of a producer it is asked whether it could be."""
_UNSUPPORTED_VERSION = 35
_UNKNOWN_TOPIC_OR_PARTITION = 3
_LEADER_NOT_AVAILABLE = 5
_NODE = 1
END_POSITION = 7


class WireBroker(socketserver.ThreadingTCPServer):
    """A cluster of one broker and one topic of one partition; at times it names no broker at all.

    A topic that is asked for by name is always named, as by a real broker.
    """

    daemon_threads = True

    def __init__(self, topic: str, names_itself: Sequence[bool], host: str, *, has_leader: bool, denials: int) -> None:
        """`names_itself`: in the first list of brokers, in the second, and so on; the last one goes on. `host` is
        what it calls itself there. `has_leader`: the partition. `denials`: so many times it names the topic and does
        not know where it ends."""
        super().__init__(("127.0.0.1", 0), _Connection)
        self.topic = topic
        self._host = host
        self._has_leader = has_leader
        self._denials = denials
        self._names_itself = list(names_itself)
        self._lock = threading.Lock()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"

    def answer(self, api: int, version: int, request: bytes) -> bytes:
        match api:
            case _ApiKey.API_VERSIONS:
                error = _UNSUPPORTED_VERSION if version else 0
                versions = b"".join(struct.pack(">hhh", key, only, only) for key, only in _SUPPORTED)
                return struct.pack(">hi", error, len(_SUPPORTED)) + versions
            case _ApiKey.METADATA:
                return self._metadata(is_asked_for=b"\0\0\0\1" + _text(self.topic) in request)
            case _ApiKey.LIST_OFFSETS:
                with self._lock:
                    self._denials, is_denied = max(self._denials - 1, 0), self._denials > 0
                error, end = (_UNKNOWN_TOPIC_OR_PARTITION, -1) if is_denied else (0, END_POSITION)
                partition = struct.pack(">ihqq", 0, error, -1, end)
                return struct.pack(">ii", 0, 1) + _text(self.topic) + struct.pack(">i", 1) + partition
            case _ApiKey.INIT_PRODUCER_ID:
                return struct.pack(">ihqh", 0, 0, 7, 0)
            case _:
                raise AssertionError(f"the client asked for what it was told is not supported: {api}")

    def _metadata(self, *, is_asked_for: bool) -> bytes:
        with self._lock:
            is_named = self._names_itself[0]
            self._names_itself = self._names_itself[1:] or [is_named]
        broker = struct.pack(">i", _NODE) + _text(self._host) + struct.pack(">ih", self.server_address[1], -1)
        brokers = struct.pack(">i", 1) + broker if is_named else struct.pack(">i", 0)
        controller = struct.pack(">i", _NODE if is_named else -1)
        replicas = struct.pack(">ii", 1, _NODE)
        error, leader = (0, _NODE) if self._has_leader else (_LEADER_NOT_AVAILABLE, -1)
        partition = struct.pack(">hii", error, 0, leader) + replicas + replicas
        topic = struct.pack(">h", 0) + _text(self.topic) + struct.pack(">?i", False, 1) + partition
        topics = struct.pack(">i", 1) + topic if is_named or is_asked_for else struct.pack(">i", 0)
        return brokers + _text("a cluster") + controller + topics


class _Connection(socketserver.StreamRequestHandler):
    server: WireBroker

    def handle(self) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(*struct.unpack(">i", size))
            api, version, correlation = struct.unpack(">hhi", request[:8])
            answer = self.server.answer(api, version, request[8:])
            self.wfile.write(struct.pack(">ii", 4 + len(answer), correlation) + answer)


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


@contextmanager
def wire_broker(
    topic: str,
    *,
    names_itself: Sequence[bool] = (True,),
    host: str = "127.0.0.1",
    has_leader: bool = True,
    denials: int = 0,
) -> Iterator[str]:
    """`host:port` of one that answers while the block runs."""
    with WireBroker(topic, names_itself, host, has_leader=has_leader, denials=denials) as server:
        thread = threading.Thread(target=server.serve_forever, name="wire-broker", daemon=True)
        thread.start()
        try:
            yield server.bootstrap
        finally:
            server.shutdown()
            thread.join()
