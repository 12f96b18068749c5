"""Says after a crash how many sends were confirmed, so that a tail that the disk has lost is found (SAF-5).

    sends.mark   8 bytes magic, 1 byte as in `MarkState`, 36 bytes the machine's boot id, 8 bytes the last number

It is mapped into memory: a confirmed send costs one store to memory. A killed process leaves it exact, for the kernel
has its pages; a machine that loses power leaves it at most as old as the kernel's last writing of them.
"""

from __future__ import annotations

import mmap
import os
import struct
from contextlib import suppress
from enum import IntEnum
from pathlib import Path

_MAGIC = b"JBMSENT1"
_FORM = struct.Struct(">8sB36sQ")
_NUMBER = struct.Struct(">Q")
_NUMBER_AT = _FORM.size - _NUMBER.size
_BYTES = 4096
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class MarkState(IntEnum):
    """The byte that says how the store is held."""

    CLOSED = 0
    OPEN_AHEAD = 1
    """And sends may be confirmed before the disk has them; builds that did not tell wrote it, too."""
    OPEN = 2
    """And each confirmed send is on the disk."""


class AcknowledgedMark:
    """The mark of an open store. One thread at a time."""

    def __init__(self, path: Path) -> None:
        """Open it, made if it is missing.

        Raises:
            OSError: it cannot be read or written.
        """
        is_new = not path.exists() or path.stat().st_size < _BYTES
        if is_new:
            path.write_bytes(bytes(_BYTES))
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            self._map = mmap.mmap(fd, _BYTES)
        finally:
            os.close(fd)
        magic, state, boot_id, number = _FORM.unpack_from(self._map)
        is_known = magic == _MAGIC
        self.number: int = number if is_known else 0
        """The last one that was confirmed, as far as it is known."""
        self.was_torn = bool(is_known and state == MarkState.OPEN_AHEAD and boot_id != boot())
        """The machine has stopped while the store was open, and sends were confirmed before the disk had them."""

    def open(self, number: int, *, fsync: bool) -> None:
        """Say that the store is open on this machine, and that this number is its last."""
        self.number = number
        state = MarkState.OPEN if fsync else MarkState.OPEN_AHEAD
        _FORM.pack_into(self._map, 0, _MAGIC, state, boot(), number)
        self._map.flush()

    def set(self, number: int) -> None:
        """Note that this number is confirmed, and all before it."""
        self.number = number
        _NUMBER.pack_into(self._map, _NUMBER_AT, number)

    def close(self, number: int) -> None:
        """Record that the store was closed in order with this last number; call it when all is on the disk."""
        _FORM.pack_into(self._map, 0, _MAGIC, MarkState.CLOSED, boot(), number)
        self._map.flush()
        self.let_go()

    def let_go(self) -> None:
        """Unmap it as it is."""
        self._map.close()


def boot() -> bytes:
    """Returns the machine's id of this run, as long as the form has it."""
    text = b""
    with suppress(OSError):
        text = _BOOT_ID.read_bytes().strip()
    return text.ljust(36)[:36]
