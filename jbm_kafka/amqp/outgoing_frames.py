"""Our frames on their way to a client: they tell by which handle it knows a link, which the engine keeps to itself."""

from __future__ import annotations

import struct
from typing import Any, Final

from jbm_kafka.codec.amqp.values import list_of, read, uint

BEGIN, ATTACH, FLOW, TRANSFER, DETACH, END = 0x11, 0x12, 0x13, 0x14, 0x16, 0x17
HEADER_BYTES: Final = 8
NULL, FALSE, TRUE = b"\x40", b"\x42", b"\x41"


class OutgoingFrames:
    """The frames of one connection, from its header on."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip = HEADER_BYTES
        self._channels: dict[int, int] = {}
        """Ours, by the client's."""
        self._senders: dict[int, dict[int, str]] = {}
        """The names of links that send to the client, by our channel and handle."""

    def note(self, data: bytes) -> None:
        """These bytes go out."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        at = min(self._skip, len(data))
        self._skip -= at
        while len(data) - at >= HEADER_BYTES + 3:
            end, code = at + int.from_bytes(data[at : at + 4], "big"), data[at + HEADER_BYTES + 2]
            if code == TRANSFER and data[at + HEADER_BYTES] == 0:
                if end > len(data):
                    self._skip, at = end - len(data), len(data)
                    break
            elif end > len(data):
                break
            elif end > at + HEADER_BYTES and code in (BEGIN, ATTACH, DETACH, END):
                self._note(code, int.from_bytes(data[at + 6 : at + 8], "big"), data[at + HEADER_BYTES : end])
            at = max(end, at + HEADER_BYTES)
        self._rest = data[at:]

    def _note(self, code: int, channel: int, body: bytes) -> None:
        if code == END:
            self._senders.pop(channel, None)
            return
        said: Any = read(body, 0)[0].value[1].value
        if code == BEGIN:
            self._channels[said[0].value] = channel
        elif code == ATTACH and not said[2].value:
            self._senders.setdefault(channel, {})[said[1].value] = said[0].value
        elif code == DETACH:
            self._senders.get(channel, {}).pop(said[0].value, None)

    def of_link(self, flow: bytes, channel: int, name: str, count: int, credit: int, *, drains: bool) -> bytes:
        """A session's flow as that of a link which sends to the client. `channel`: the client's."""
        ours = self._channels.get(channel)
        known = self._senders.get(-1 if ours is None else ours, {})
        handle = next((handle for handle, its in known.items() if its == name), None)
        if handle is None or flow[HEADER_BYTES : HEADER_BYTES + 3] != b"\x00\x53\x13":
            return flow
        said: Any = read(flow, HEADER_BYTES)[0].value[1].value
        fields = [NULL if each.value is None else uint(each.value) for each in said[:4]]
        fields += [uint(handle), uint(count), uint(credit), NULL, TRUE if drains else FALSE]
        body = b"\x00\x53\x13" + list_of(fields)
        return struct.pack(">IBBH", len(body) + HEADER_BYTES, 2, 0, ours) + body
