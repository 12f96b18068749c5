"""Between a broker's coordinators and its own partitions: keeps marks of transactions back when told to."""

import contextlib
import socket
import socketserver
import struct
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from jbm_kafka.devbroker import ports

_WRITE_TXN_MARKERS = 27
"""The request's number in Kafka's protocol guide."""
_CHUNK_BYTES = 65_536


class MarkerGate(socketserver.ThreadingTCPServer):
    """What a broker says to itself goes through it, when it is started with `properties`.

    A coordinator asks for marks once it has recorded that a transaction is committed or aborted, so one that is kept
    back here is decided, and marked in no partition.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.broker_port = ports.free_port(besides=self.server_address[1])
        self._is_held = False
        self._is_kept = threading.Event()
        self.released = threading.Event()

    @property
    def properties(self) -> Mapping[str, str]:
        """Settings of the broker, over its own."""
        return {
            "inter.broker.listener.name": "INTERNAL",
            "listeners": f"INTERNAL://127.0.0.1:{self.broker_port}",
            "advertised.listeners": f"INTERNAL://127.0.0.1:{self.server_address[1]}",
        }

    def hold(self) -> None:
        """Let no marks through from now on."""
        self.released.clear()
        self._is_kept.clear()
        self._is_held = True

    def wait_kept(self, timeout_s: float) -> None:
        """Return when some are kept back."""
        assert self._is_kept.wait(timeout_s), f"no transaction was decided within {timeout_s:g} s"

    def release(self) -> None:
        """Let everything through."""
        self._is_held = False
        self.released.set()

    def keep(self) -> None:
        """The marks that are asked for now."""
        if self._is_held:
            self._is_kept.set()
            self.released.wait()


class _Connection(socketserver.StreamRequestHandler):
    server: MarkerGate

    def handle(self) -> None:
        # The broker may be down, or be killed at any time: then the connection ends, as without the gate.
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.server.broker_port)) as broker:
            answers = threading.Thread(target=self._pass_answers, args=(broker,), daemon=True)
            answers.start()
            self._pass_requests(broker)
            broker.shutdown(socket.SHUT_RDWR)
            answers.join()

    def _pass_requests(self, broker: socket.socket) -> None:
        while size := self.rfile.read(4):
            request = self.rfile.read(*struct.unpack(">i", size))
            if struct.unpack(">h", request[:2]) == (_WRITE_TXN_MARKERS,):
                self.server.keep()
            broker.sendall(size + request)

    def _pass_answers(self, broker: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while answer := broker.recv(_CHUNK_BYTES):
                self.connection.sendall(answer)
            self.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def marker_gate() -> Iterator[MarkerGate]:
    """One that is open, while the block runs."""
    with MarkerGate() as gate:
        thread = threading.Thread(target=gate.serve_forever, name="marker-gate", daemon=True)
        thread.start()
        try:
            yield gate
        finally:
            gate.release()
            gate.shutdown()
            thread.join()
