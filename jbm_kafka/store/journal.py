"""The journal over RocksDB: the changelogs' latest values as this folder last saw them.

Promise: what `load` gives is the exact state at one changelog position, also after a kill in the middle of a write,
because position and entries share one atomic batch. It may be behind the changelog, never ahead (LOG-7), so nothing
here waits for the disk: a machine that loses power loses the newest batches, and recovery reads them again.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Mapping

from rocksdict import ReadOptions, WriteBatch

from jbm_kafka.core.log_rate_limit import LogRateLimit
from jbm_kafka.ports import Clock
from jbm_kafka.store.journal_age import is_fresh
from jbm_kafka.store.rocks import Rocks

log = logging.getLogger(__name__)

LINE_MS = 60_000
"""The interval of lines about a disk that stays full: each checkpoint has an error."""

_HEAD = struct.Struct(">BQQ")
_HEAD_VERSION = 1
_NAME_LENGTH = struct.Struct(">H")
_HEAD_KIND = b"\x00"
_ENTRY_KIND = b"\x01"
_PAST_KINDS = b"\x02"


def channel_prefix(channel: str) -> bytes:
    """Where the channel's keys begin. The length stands first, so no name's keys can lie within another's."""
    name = channel.encode()
    return _NAME_LENGTH.pack(len(name)) + name


class RocksJournal:
    """`ports.Journal` in the default column family of one RocksDB. Any thread; one thread for one channel at a time."""

    def __init__(self, rocks: Rocks, *, clock: Clock) -> None:
        self._rocks = rocks
        self._clock = clock
        self._stuck: set[str] = set()
        """Channels that missed a batch. Later ones would leave a hole, so what stands is left as it is until `load`."""
        self._lines: LogRateLimit[str] = LogRateLimit(interval_ms=LINE_MS, each_max=1)
        self.trouble = ""

    def load(self, channel: str) -> tuple[int, Mapping[bytes, bytes]]:
        """The channel's state, or (0, nothing) when it is unknown, too old or damaged; then it is discarded too."""
        self._stuck.discard(channel)
        try:
            return self._load(channel)
        except Exception as error:  # RocksDB knows no finer class, and every cause has the same cure
            log.warning(
                "local state of %s in %s cannot be read (%s); it is rebuilt from the changelog, nothing is lost",
                channel,
                self._rocks.path,
                error,
            )
        self._try_discard(channel)
        return 0, {}

    def _load(self, channel: str) -> tuple[int, Mapping[bytes, bytes]]:
        prefix = channel_prefix(channel)
        head = self._rocks.journal.get(prefix + _HEAD_KIND)
        if head is None:
            return 0, {}
        if len(head) != _HEAD.size or head[0] != _HEAD_VERSION:
            raise ValueError(f"its head is {head.hex()}")
        _, position, stamped_at_ms = _HEAD.unpack(head)
        if not is_fresh(stamped_at_ms, self._clock.now_ms()):
            log.info("local state of %s in %s is too old and is rebuilt from the changelog", channel, self._rocks.path)
            self.discard(channel)
            return 0, {}
        return position, self._entries(prefix)

    def _entries(self, prefix: bytes) -> Mapping[bytes, bytes]:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(prefix + _PAST_KINDS)
        start = len(prefix) + 1
        rows = self._rocks.journal.items(from_key=prefix + _ENTRY_KIND, read_opt=bounds)
        return {bytes(key)[start:]: value for key, value in rows}  # type: ignore[arg-type]

    def entries(self, channel: str) -> Mapping[bytes, bytes]:
        """As the port says, however old it is: its writer has owned the channel since."""
        if channel in self._stuck:
            return {}
        try:
            return self._entries(channel_prefix(channel))
        except Exception as error:  # as in `load`
            log.warning("local state of %s in %s cannot be read (%s)", channel, self._rocks.path, error)
            return {}

    def write(self, batches: Mapping[str, tuple[int, Mapping[bytes, bytes | None]]]) -> None:
        """All channels' changes in one atomic batch. A failure costs time only, and is logged once a minute."""
        batch = WriteBatch(raw_mode=True)
        stamped_at_ms = self._clock.now_ms()
        for channel, (position, changes) in batches.items():
            if channel in self._stuck:
                continue
            assert position >= 0, (channel, position)
            prefix = channel_prefix(channel)
            entry_prefix = prefix + _ENTRY_KIND
            for key, value in changes.items():
                if value is None:
                    batch.delete(entry_prefix + key)
                else:
                    batch.put(entry_prefix + key, value)
            batch.put(prefix + _HEAD_KIND, _HEAD.pack(_HEAD_VERSION, position, stamped_at_ms))
        try:
            self._rocks.journal.write(batch)
        except Exception as error:
            self._stuck.update(batches)
            self.trouble = (
                f"local state in {self._rocks.path} cannot be written ({error}); nothing is lost, but the next start "
                "reads more of the changelog; make room or choose another state folder"
            )
            more = self._lines.next_line("", self._clock.monotonic_ms())
            if more is not None:
                log.warning("%s%s", self.trouble, f" ({more} times since the last line)" if more else "")
        else:
            self.trouble = ""

    def discard(self, channel: str) -> None:
        """Forget the channel: the next `load` gives (0, nothing)."""
        prefix = channel_prefix(channel)
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(prefix + _HEAD_KIND, prefix + _PAST_KINDS)
        self._rocks.journal.write(batch)
        self._stuck.discard(channel)

    def _try_discard(self, channel: str) -> None:
        try:
            self.discard(channel)
        except Exception:  # the caller logs it already; without the discard nothing may be added to what stands
            self._stuck.add(channel)

    def close(self) -> None:
        """The RocksDB stays open: it is the state folder's."""
