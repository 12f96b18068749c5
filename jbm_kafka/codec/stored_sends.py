"""Values of the store beside a sender: one send, or the sends of one transaction, before anybody asked Kafka.

Packed by hand, for each send waits for it: 2 us, where Avro takes 25. The first byte is the version of what follows:

    entry   version 1 byte, stored at 8, set aside at 8, attempts 4, bytes of the reason 4, sends 4; reason; sends
    send    bytes of the destination 2, route 4, timestamp 8, bytes of key 4, of value 4, headers 4; these; headers
    header  bytes of the name 2, of the content 4; both

Numbers are big-endian; -1 stands for a timestamp, key, value or content that is None.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from jbm_kafka.core.jms_errors import CorruptRecordError, NewerRecordError
from jbm_kafka.ports.record_to_send import Headers

VERSION: Final = 1
_ENTRY: Final = struct.Struct(">BQQIII")
_SEND: Final = struct.Struct(">HIqiiI")
_HEADER: Final = struct.Struct(">Hi")
_NONE: Final = -1


class StoredSend(NamedTuple):
    """One message as its sender encoded it; its partition is chosen when it is forwarded.

    A named tuple: each send makes one, and a frozen data class takes 2 us more.
    """

    destination: str
    """As in `queue:orders`."""
    route: int
    """31 bits: without a key the partition is this modulo their number, as if it had been sent at once."""
    key: bytes | None
    """The unit's; None: it has none."""
    value: bytes | None
    headers: Headers
    timestamp_ms: int | None
    """When it was sent; None: its sender leaves that to the brokers."""


class StoredEntry(NamedTuple):
    """What is stored, forwarded and set aside as one."""

    stored_at_ms: int
    sends: Sequence[StoredSend]
    """In the order sent."""
    reason: str = ""
    """Why it was set aside; empty: it waits."""
    set_aside_at_ms: int = 0
    """When that was."""
    attempts: int = 0
    """How often it was set aside."""


def encode_entry(entry: StoredEntry) -> bytes:
    """Returns the value."""
    reason = entry.reason.encode()
    parts = [
        _ENTRY.pack(VERSION, entry.stored_at_ms, entry.set_aside_at_ms, entry.attempts, len(reason), len(entry.sends)),
        reason,
    ]
    for send in entry.sends:
        key, value, at_ms = send.key, send.value, send.timestamp_ms
        destination = send.destination.encode()
        parts += (
            _SEND.pack(
                len(destination),
                send.route,
                _NONE if at_ms is None else at_ms,
                _NONE if key is None else len(key),
                _NONE if value is None else len(value),
                len(send.headers),
            ),
            destination,
            key or b"",
            value or b"",
        )
        for name, content in send.headers:
            of_name = name.encode()
            parts += (
                _HEADER.pack(len(of_name), _NONE if content is None else len(content)),
                of_name,
                content or b"",
            )
    return b"".join(parts)


def decode_entry(data: bytes) -> StoredEntry:
    """Returns what the value says.

    Raises:
        CorruptRecordError: it is damaged.
        NewerRecordError: only a newer version understands it.
    """
    if data[:1] > bytes([VERSION]):
        raise NewerRecordError(f"a stored send is of version {data[0]}, and this program knows {VERSION}")
    reader = _Reader(data)
    try:
        _, stored_at_ms, set_aside_at_ms, attempts, reason_bytes, count = reader.fields(_ENTRY)
        reason = reader.take(reason_bytes).decode()
        sends = [_decode_send(reader) for _ in range(count)]
    except (struct.error, ValueError) as fault:
        raise CorruptRecordError(f"a stored send of {len(data)} bytes is damaged: {fault}") from None
    if reader.at != len(data):
        raise CorruptRecordError(f"a stored send is damaged: {len(data) - reader.at} bytes follow it")
    return StoredEntry(stored_at_ms, sends, reason, set_aside_at_ms, attempts)


def _decode_send(reader: _Reader) -> StoredSend:
    named, route, at_ms, key_bytes, value_bytes, headers = reader.fields(_SEND)
    return StoredSend(
        reader.take(named).decode(),
        route,
        reader.optional(key_bytes),
        reader.optional(value_bytes),
        tuple(_decode_header(reader) for _ in range(headers)),
        None if at_ms == _NONE else at_ms,
    )


def _decode_header(reader: _Reader) -> tuple[str, bytes | None]:
    named, content = reader.fields(_HEADER)
    return reader.take(named).decode(), reader.optional(content)


class _Reader:
    """Reads one value from its beginning on."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.at = 0

    def fields(self, form: struct.Struct) -> tuple[int, ...]:
        """Returns what stands next."""
        found: tuple[int, ...] = form.unpack_from(self._data, self.at)
        self.at += form.size
        return found

    def take(self, size: int) -> bytes:
        """Returns so many bytes; ValueError when there are fewer."""
        found = self._data[self.at : self.at + size]
        if size < 0 or len(found) < size:
            raise ValueError(f"{size} bytes are to follow byte {self.at}")
        self.at += size
        return found

    def optional(self, size: int) -> bytes | None:
        """Returns so many bytes, or None."""
        return None if size == _NONE else self.take(size)
