"""A network that splits what is written anywhere, delays it, and breaks connections: as its simulation says.

Each connection is two pipes. What is in one is read in order; which pipe is read next, and how much of it, is chance.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any

from tests.wires.stepped_loop import SteppedLoop

BUFFER_BYTES = 2**16


class Socket(asyncio.Transport):
    """One end of a connection."""

    def __init__(self, loop: SteppedLoop, name: str, port: int) -> None:
        super().__init__()
        self.loop = loop
        self.name = name
        self._port = port
        self.protocol: asyncio.BaseProtocol
        self.other: Socket
        self.coming = bytearray()
        """Written at the other end, and not read."""
        self.ends: Exception | str | None = ""
        """Behind that comes the end, by an error or none; a text: not."""
        self._is_closing = False
        self._is_gone = False
        self._is_paused = False
        self._is_full = False
        self._high = BUFFER_BYTES

    # -- asyncio.Transport ---------------------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", self._port) if name == "peername" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def pause_reading(self) -> None:
        self._is_paused = True

    def resume_reading(self) -> None:
        self._is_paused = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high or BUFFER_BYTES

    def write(self, data: Any) -> None:
        if self._is_closing or self.other.ends != "":
            return
        self.other.coming += data
        if len(self.other.coming) > self._high and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def close(self) -> None:
        self._end(None)

    def abort(self) -> None:
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self.other.ends == "":
            self.other.ends = error
        self.loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        if not self._is_gone:
            self._is_gone = self._is_closing = True
            self.coming.clear()
            self.protocol.connection_lost(error)

    # -- for the network -----------------------------------------------------------------------------------------------

    @property
    def is_readable(self) -> bool:
        """Something comes out of it."""
        return not (self._is_closing or self._is_paused) and (bool(self.coming) or not isinstance(self.ends, str))

    @property
    def is_over(self) -> bool:
        """Nothing will come of it any more."""
        return self._is_gone

    def deliver(self, size: int) -> None:
        """Have so much read on its loop."""
        self.loop.call_soon(self._read, size)

    def _read(self, size: int) -> None:
        if not self.is_readable:
            return
        if not self.coming:
            error = self.ends
            assert not isinstance(error, str), error
            protocol = self.protocol
            if error is None and isinstance(protocol, asyncio.Protocol):
                protocol.eof_received()
            self._end(error)
            return
        data = bytes(self.coming[:size])
        del self.coming[:size]
        writer = self.other
        if writer._is_full and len(self.coming) <= writer._high // 4:
            writer._is_full = False
            writer.loop.call_soon(writer._resume)
        assert isinstance(self.protocol, asyncio.Protocol)
        self.protocol.data_received(data)

    def _resume(self) -> None:
        if not self._is_closing:
            self.protocol.resume_writing()

    def cut(self, left: int) -> None:
        """The network fails: so much of what was on its way here still comes, and then the end."""
        if self.ends == "":
            del self.coming[left:]
            self.ends = ConnectionResetError("the network failed")


class Wire:
    """Both ends of one connection."""

    def __init__(self, near: Socket, far: Socket) -> None:
        self.ends = (near, far)
        self.is_cut = False

    @property
    def is_over(self) -> bool:
        """Nobody has it any more."""
        return all(each.is_over for each in self.ends)

    def cut(self, random: Random) -> None:
        """Break it: a part of what was on its way is lost, in each direction another."""
        self.is_cut = True
        for each in self.ends:
            each.cut(random.randint(0, len(each.coming)))


class _Listening:
    def __init__(self, listening: dict[int, Any], port: int) -> None:
        self._listening, self._port = listening, port
        self.sockets = [self]

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", self._port

    def close(self) -> None:
        self._listening.pop(self._port, None)


class TornNet:
    """All connections."""

    def __init__(self) -> None:
        self.wires: list[Wire] = []
        self.names: dict[SteppedLoop, str] = {}
        self._listening: dict[int, tuple[SteppedLoop, Callable[[], asyncio.BaseProtocol]]] = {}
        self._numbers = 0

    def listen(self, loop: SteppedLoop, factory: Callable[[], asyncio.BaseProtocol], port: int) -> _Listening:
        """Implements `Net`."""
        self._listening[port] = loop, factory
        return _Listening(self._listening, port)

    def connect(
        self, loop: SteppedLoop, factory: Callable[[], asyncio.BaseProtocol], port: int
    ) -> tuple[Socket, asyncio.BaseProtocol]:
        """Implements `Net`."""
        found = self._listening.get(port)
        if found is None:
            raise ConnectionRefusedError(f"nobody listens at {port}")
        self._numbers += 1
        there, make = found
        near = Socket(loop, self.names[loop], port)
        far = Socket(there, self.names[there], 20_000 + self._numbers)
        near.other, far.other = far, near
        near.protocol, far.protocol = factory(), make()
        self.wires = [each for each in self.wires if not each.is_over]
        self.wires.append(Wire(near, far))
        there.call_soon(far.protocol.connection_made, far)
        near.protocol.connection_made(near)
        return near, near.protocol

    def readable(self) -> list[Socket]:
        """Ends at which something comes out."""
        return [end for wire in self.wires for end in wire.ends if end.is_readable]

    def between(self, name: str, other: str = "") -> list[Wire]:
        """Those of one process, or of two, that are not cut."""
        found = [wire for wire in self.wires if not wire.is_cut and not any(end.is_closing() for end in wire.ends)]
        return [wire for wire in found if {name, other} - {""} <= {end.name for end in wire.ends}]
