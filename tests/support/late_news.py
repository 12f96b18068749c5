"""A way between two programs that can be held: nothing arrives until it is let go, and then everything does."""

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

BUFFER_BYTES = 65_536


class HeldWay:
    """Connections to `address` go through it. Closed with the block, whatever is under way."""

    def __init__(self, to: tuple[str, int]) -> None:
        self._to = to
        self._open = threading.Event()
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._begin(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.set()
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join()

    def hold(self) -> None:
        """From now on nothing arrives at who connected."""
        self._open.clear()

    def let_go(self) -> None:
        """All that was held arrives, in order."""
        self._open.set()

    def _begin(self, run: object, *arguments: object) -> None:
        thread = threading.Thread(target=run, args=arguments, name="held-way", daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._to)
                self._sockets += [near, far]
                self._begin(self._carry, near, far, False)
                self._begin(self._carry, far, near, True)

    def _carry(self, source: socket.socket, target: socket.socket, may_be_held: bool) -> None:
        with suppress(OSError):
            while data := source.recv(BUFFER_BYTES):
                if may_be_held:
                    self._open.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
