"""The duplicate ids that a channel remembers, and which messages repeat one (SEND-8; decision 29).

`decide_repeated` looks, `DuplicateWindow` keeps; the window changes only by `ChannelState.apply`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from jbm_kafka.core.channel.entries import Duplicates, Entry, SeenId

DIGEST_BYTES = 16
BUCKET_ROWS_MAX = 1_000
"""The rows of one record of the changelog: about 30 KB."""


@dataclass(frozen=True, slots=True)
class Identified:
    """A message with a duplicate id, as it was read."""

    offset: int
    unit: bytes | None
    duplicate_id: bytes
    sent_at_ms: int
    """The time by its sender's clock."""

    def digest(self) -> bytes:
        """The id within its unit; without a unit, within the partition."""
        unit = b"" if self.unit is None else self.unit
        head = len(unit).to_bytes(4, "big")
        return blake2b(head + unit + self.duplicate_id, digest_size=DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Sifted:
    """The effect on the window of reading some messages."""

    repeated: Mapping[int, int]
    """The offset of each message that repeats an id, and the offset of the first with it."""
    remembered: Sequence[SeenId]
    """New ids, in the order read."""
    forgotten: Sequence[bytes]
    """Digests that leave."""


class DuplicateWindow:
    """Maps each digest to its first message, the oldest first. Owned by a `ChannelState`."""

    __slots__ = ("_bucket_of", "_live", "_open", "_rows", "_unwritten", "_written", "dirty")

    def __init__(self) -> None:
        self._rows: dict[bytes, SeenId] = {}
        self._bucket_of: dict[bytes, int] = {}
        self._live: dict[int, int] = {}
        """How many rows of a bucket are not forgotten."""
        self._unwritten: dict[int, list[SeenId]] = {}
        """Buckets that no durable checkpoint has."""
        self._open = 0
        """The bucket that takes new rows."""
        self.dirty: set[int] = set()
        """Buckets that the next checkpoint writes."""
        self._written: set[int] = set()
        """Buckets that may be in the changelog."""

    def __len__(self) -> int:
        return len(self._rows)

    def first(self, digest: bytes) -> SeenId | None:
        """The message that counts."""
        return self._rows.get(digest)

    def oldest_first(self) -> Iterator[SeenId]:
        """All, in the order remembered."""
        return iter(self._rows.values())

    def take(self, remembered: Sequence[SeenId], forgotten: Sequence[bytes]) -> None:
        """Carry out what a fetch does to it, as `decide_repeated` has it."""
        for digest in forgotten:
            self._forget(digest)
        for row in remembered:
            if self._live.get(self._open, 0) >= BUCKET_ROWS_MAX:
                self._open += 1
            self._remember(row, self._open)
            self._unwritten.setdefault(self._open, []).append(row)
            self.dirty.add(self._open)

    def entry(self, bucket: int) -> Entry | None:
        """Return what a checkpoint writes of a bucket; None: nothing, nobody has it."""
        if bucket in self._live:
            rows = tuple(row for row in self._unwritten[bucket] if self._rows.get(row.digest) is row)
            return Duplicates(bucket, rows)
        return Duplicates(bucket, None) if bucket in self._written else None

    # -- checkpoints and recovery: see DurableState ------------------------------------------------------------------

    def mark_frozen(self, buckets: Collection[int]) -> None:
        """A checkpoint has taken these. What comes now goes to a bucket of its own: each is written once."""
        self.dirty -= frozenset(buckets)
        self._written |= frozenset(buckets)
        if self._open in buckets:
            self._open += 1

    def mark_durable(self, buckets: Collection[int]) -> None:
        """That checkpoint is committed."""
        for bucket in buckets:
            if bucket not in self.dirty:
                self._unwritten.pop(bucket, None)
                if bucket not in self._live:
                    self._written.discard(bucket)

    def mark_failed(self, buckets: Collection[int]) -> None:
        """It was aborted."""
        self.dirty |= frozenset(buckets)

    def recover(self, entry: Duplicates) -> None:
        """A bucket from the changelog; the oldest come first."""
        for row in entry.rows or ():
            if row.digest in self._rows:
                self._forget(row.digest)
            self._remember(row, entry.bucket)
        self._written.add(entry.bucket)
        self._open = max(self._open, entry.bucket + 1)

    # -- leaves ------------------------------------------------------------------------------------------------------

    def _remember(self, row: SeenId, bucket: int) -> None:
        self._rows[row.digest] = row
        self._bucket_of[row.digest] = bucket
        self._live[bucket] = self._live.get(bucket, 0) + 1

    def _forget(self, digest: bytes) -> None:
        del self._rows[digest]
        bucket = self._bucket_of.pop(digest)
        self._live[bucket] -= 1
        if not self._live[bucket]:
            del self._live[bucket]
            self._unwritten.pop(bucket, None)
            if bucket in self._written:
                self.dirty.add(bucket)
            else:
                self.dirty.discard(bucket)


def decide_repeated(
    window: DuplicateWindow, messages: Sequence[Identified], *, window_ms: int, count_max: int | None, now_ms: int
) -> Sifted:
    """Which of these messages, in the order of their log, repeat an id.

    A sender's clock that is ahead makes nothing old: what it says counts up to `now_ms`.
    """
    draft = _Draft(window, window_ms, count_max)
    repeated: dict[int, int] = {}
    for message in messages:
        sent_at_ms, digest = min(message.sent_at_ms, now_ms), message.digest()
        first = draft.first(digest)
        if first is None or abs(sent_at_ms - first.sent_at_ms) > window_ms:
            draft.remember(SeenId(digest, message.offset, sent_at_ms))
        elif first.offset != message.offset:
            repeated[message.offset] = first.offset
    return Sifted(repeated, tuple(draft.added.values()), tuple(draft.forgotten))


class _Draft:
    """The window as it will be: what is added to it and what leaves it, while it is not changed."""

    def __init__(self, window: DuplicateWindow, window_ms: int, count_max: int | None) -> None:
        self._window = window
        self._window_ms = window_ms
        self._count_max = count_max
        self.added: dict[bytes, SeenId] = {}
        self.forgotten: dict[bytes, None] = {}
        self._known = window.oldest_first()
        self._size = len(window)
        self._oldest = next(self._known, None)
        self._forget_old(0)  # a recovered bucket may have rows that were forgotten

    def first(self, digest: bytes) -> SeenId | None:
        """The message that counts for this id."""
        found = self.added.get(digest)
        return found if found is not None or digest in self.forgotten else self._window.first(digest)

    def remember(self, row: SeenId) -> None:
        """It counts from now on; an older one of its id, too long ago, no more."""
        if self.first(row.digest) is not None:
            self._size -= 1
            if self.added.pop(row.digest, None) is None:
                self.forgotten[row.digest] = None
        self.added[row.digest] = row
        self._size += 1
        self._forget_old(row.sent_at_ms)

    def _forget_old(self, now_ms: int) -> None:
        while True:
            while self._oldest is not None and self._oldest.digest in self.forgotten:
                self._oldest = next(self._known, None)
            last = self._oldest if self._oldest is not None else next(iter(self.added.values()), None)
            if last is None:
                return
            is_too_many = self._count_max is not None and self._size > self._count_max
            if not is_too_many and now_ms - last.sent_at_ms <= self._window_ms:
                return
            self._size -= 1
            if self._oldest is not None:
                self.forgotten[last.digest] = None
            else:
                del self.added[last.digest]
