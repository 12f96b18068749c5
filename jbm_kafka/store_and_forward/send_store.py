"""The sends that a sender has stored, in the RocksDB of one folder (decision 121).

    <folder>/store.json   id of the store, the namespace, and after the first forwarding the cluster that it is for
    <folder>/lock         held while a process has the store open; the process id is in it, for people
    <folder>/sends.mark   see acknowledged_mark.py
    <folder>/reserve      room for forwarding on a disk that is full
    <folder>/rocks/       keys: w<number> waits, d<number> was set aside, m<name> what the store knows of itself

An entry is one key, so a transaction is stored whole. Numbers grow and never come twice.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

from rocksdict import AccessType, DBCompressionType, Options, Rdict, ReadOptions, WriteBatch

from jbm_kafka.codec.stored_sends import StoredEntry, decode_entry, encode_entry
from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, ResourceAllocationError
from jbm_kafka.devbroker.file_lock import FileLock, is_locked
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.kafka import KafkaClientError
from jbm_kafka.ports.kept_at_fork import kept_at_fork
from jbm_kafka.ports.wake_up import Sleepers, WakeUp
from jbm_kafka.store_and_forward.acknowledged_mark import AcknowledgedMark
from jbm_kafka.store_and_forward.store_limits import StoreLimits, full_ratio, refusal

log = logging.getLogger("jbm_kafka.store_and_forward")

VERSION = 1
"""The version of the keys; each value begins with a version of its own."""
ASKED_S = 0.3
"""So long somebody may have a folder's lock who only asks whether anybody has it, as a console does."""
ID_FILE, LOCK_FILE, MARK_FILE, RESERVE_FILE, ROCKS_FOLDER = "store.json", "lock", "sends.mark", "reserve", "rocks"
RESERVE_BYTES = 16 << 20
"""More than what a reopening writes, which is what the log of RocksDB has, and no table yet."""
ROOM_BYTES = 8 << 20
"""That much more must be free before sends are taken again, or it is full and not full again with each of them."""
WRITE_BUFFER_BYTES = 4 << 20
WAL_BYTES_MAX = 8 << 20
PENDING_MAX, PENDING_BYTES_MAX = 10_000, 32 << 20
"""Sends that wait for the disk at once, and when that is too much."""
CLOSE_TIMEOUT_S = 60.0
MEND_MS = 1_000
"""How often a store that could not be written is tried again."""
SYNC_S = 1.0
"""How often the disk writes what is stored, where nobody waits for it."""
LOOKS = 8
"""So often a store is read beside its owner, who may delete a file that it was about to read."""
RETRIED_AT_ONCE = 100
"""Entries; all of a full store at once took four times its size of memory."""
SAY_AGAIN_MS = 60_000
"""So often it is logged that it still cannot be written."""
_NUMBER = struct.Struct(">cQ")
_WAITS, _ASIDE = b"w", b"d"
_BATCH, _HIGHEST, _LOST = b"mbatch", b"mhighest", b"mlost"

Stored = Callable[["NotStored | None"], None]
"""Told that a send is stored, or why not."""


class NotStored(KafkaClientError):
    """A send was not stored, and nothing of it is left."""

    def __init__(self, error: JMSError) -> None:
        super().__init__(str(error))
        self.error = error
        """For the caller of the send."""


@dataclass(frozen=True, slots=True)
class StoreCounts:
    """How much a store holds at one moment."""

    waiting: int
    """Entries: a transaction is one."""
    waiting_bytes: int
    oldest_at_ms: int
    """When the oldest that waits was stored; 0: none waits."""
    set_aside: int
    lost: int
    """Confirmed sends of earlier runs that the disk did not have any more after the machine had stopped."""
    full_ratio: float = 0.0
    """How near it is to refusing sends, by its limits or its disk; 1: it does."""


@dataclass(frozen=True, slots=True)
class BatchUnderWay:
    """The batch that is being written to Kafka as one transaction."""

    number: int
    entries: tuple[int, ...]


class SendStore:
    """The open store of a folder. Any thread; `close` it last."""

    def __init__(
        self, path: Path, lock: FileLock, said: dict[str, Any], limits: StoreLimits, fsync: bool, clock: Clock
    ) -> None:
        """Raises Exception: whatever RocksDB or the file system says; `open` sorts it out."""
        self.path = path
        self.store_id: str = said["id"]
        self.cluster_id: str = said.get("cluster", "")
        """Where it forwards to; empty: it never did."""
        self.trouble = ""
        """Why nothing can be stored now; empty: it can."""
        self.entered = WakeUp()
        """Set when there is something new to forward; who forwards is its owner."""
        self._said, self._file_lock, self._limits, self._fsync, self._clock = said, lock, limits, fsync, clock
        self._lock = threading.RLock()
        self._changed = Sleepers(threading.RLock())
        """For those who wait for the disk; its lock is taken before `_lock`, or alone."""
        self._syncing = threading.RLock()
        """Held while the disk writes; taken after `_lock`, or alone."""
        kept_at_fork(self)
        self._mark = AcknowledgedMark(path / MARK_FILE)  # first: what fails after the database is there keeps it
        self._db = _opened(path / ROCKS_FOLDER)
        self._is_open = True
        self._is_shut = False
        """RocksDB was closed to be opened again, and the disk did not let it."""
        self._tried_at_ms = 0
        self._said_at_ms: int | None = None
        self._failed: set[int] = set()
        """Numbers that could not be written, and may be in RocksDB's log all the same."""
        self._pending: list[tuple[bytes, int, Stored | None]] = []
        self._pending_bytes = 0
        self._waiting = self._waiting_bytes = self._aside = self._aside_bytes = self._oldest_at_ms = 0
        self._first = 0
        """No number below it waits: RocksDB would pass over each one that was deleted there."""
        self._lost = int(self._db.get(_LOST) or 0)
        self._number = self._count()
        self._report_torn_tail()
        self._mark.open(self._number, fsync=fsync)
        self._make_reserve(room_bytes=0)
        self._is_unsynced = False
        work = self._write_pending if fsync else self._sync_again_and_again
        threading.Thread(target=work, name="jbm-stored-sends", daemon=True).start()

    @classmethod
    def open(cls, folder: Path, *, namespace: str, limits: StoreLimits, fsync: bool, clock: Clock) -> Self:
        """Returns the store at `folder`, made if it is missing.

        Raises:
            IllegalStateError: it is no store, or another namespace's, or a newer version's.
            ResourceAllocationError: another process has it, or the disk refuses.
        """
        path = folder.absolute()
        lock = _locked(path)
        try:
            return cls(path, lock, _read_or_make_id(path, namespace), limits, fsync, clock)
        except JMSError:
            lock.close()
            raise
        except Exception as error:  # RocksDB knows no finer class
            lock.close()
            raise ResourceAllocationError(
                f"store_and_forward folder {path} cannot be opened: {error}; nothing of it was changed: mend the "
                "cause, or name another folder",
                path=str(path),
            ) from error

    # -- senders ---------------------------------------------------------------------------------------------------

    def put(self, entry: StoredEntry) -> None:
        """Store an entry; with fsync it is on the disk when this returns.

        Raises:
            NotStored: it is not, and the error says why.
        """
        if self._fsync:
            stored = WakeUp()
            answers: list[NotStored | None] = []

            def hear(trouble: NotStored | None) -> None:
                answers.append(trouble)
                stored.set()

            self.put_later(entry, hear)
            stored.wait()
            if answers[0] is not None:
                raise answers[0]
            return
        value = encode_entry(entry)
        with self._lock:
            self._check_room(len(value))
            self._write([(value, entry.stored_at_ms)])
        if not self.entered.is_set():
            self.entered.set()

    def put_later(self, entry: StoredEntry, stored: Stored | None) -> None:
        """Store an entry soon, with others that wait for the disk: `stored` is told, on a thread of the store's.

        Without fsync it is stored and told at once. It waits while very many wait for the disk.

        Raises:
            NotStored: it is not, and the error says why.
        """
        if not self._fsync:
            self.put(entry)
            if stored is not None:
                stored(None)
            return
        value = encode_entry(entry)
        if not self.has_room_to_wait():
            self._changed.wait_for(lambda: self.has_room_to_wait() or not self._is_open, None)
        with self._changed.lock:
            if not self._is_open:
                raise NotStored(self._closed())
            self._pending.append((value, entry.stored_at_ms, stored))
            self._pending_bytes += len(value)
            self._changed.notify_all()

    def has_room_to_wait(self) -> bool:
        """Returns False while `put_later` would wait."""
        return len(self._pending) < PENDING_MAX and self._pending_bytes < PENDING_BYTES_MAX

    def wait_stored(self, timeout_s: float) -> bool:
        """Returns True when nothing waits for the disk."""
        return self._changed.wait_for(lambda: not self._pending, timeout_s)

    # -- forwarding ------------------------------------------------------------------------------------------------

    def waiting(self, begin: int, count_max: int, bytes_max: int) -> list[tuple[int, StoredEntry, int]]:
        """Returns the first entries from a number on that wait: number, entry, bytes.

        Raises:
            CorruptRecordError: one cannot be read.
        """
        found: list[tuple[int, StoredEntry, int]] = []
        size_bytes = 0
        with self._lock:
            for number, value in self._rows(_WAITS, max(begin, self._first)):
                size_bytes += len(value)
                if found and (len(found) == count_max or size_bytes > bytes_max):
                    break
                found.append((number, decode_entry(value), len(value)))
        return found

    def set_aside_entries(self) -> list[tuple[int, StoredEntry]]:
        """Returns what was set aside, by number."""
        with self._lock:
            return [(number, decode_entry(value)) for number, value in self._rows(_ASIDE, 0)]

    def batch(self) -> BatchUnderWay | None:
        """Returns what was being written when the last process ended, or None."""
        with self._lock:
            value = self._rocks.get(_BATCH)
        if value is None:
            return None
        said = json.loads(value)
        return BatchUnderWay(said["number"], tuple(said["entries"])) if said["entries"] else None

    def batch_number(self) -> int:
        """Returns the number of the batch that was begun last; 0: none was."""
        with self._lock:
            value = self._rocks.get(_BATCH)
        return 0 if value is None else int(json.loads(value)["number"])

    def begin_batch(self, batch: BatchUnderWay) -> None:
        """Have on the disk which entries are about to be written, and with that these entries themselves."""
        self._forward_write(lambda rows: rows.put(_BATCH, _batch_value(batch)))

    def end_batch(self, batch: BatchUnderWay) -> None:
        """They are in Kafka: forget them. The disk may learn of it later, for the batch is known by its number."""
        self._remove(_WAITS, batch.entries, lambda rows: rows.put(_BATCH, _batch_value(replace(batch, entries=()))))

    def set_aside(self, entries: Sequence[tuple[int, StoredEntry]], reason: Callable[[int], str]) -> None:
        """They become dead letters here, for a reason each."""
        now_ms = self._clock.now_ms()
        aside = []
        for number, entry in entries:
            set_aside = entry._replace(reason=reason(number), set_aside_at_ms=now_ms, attempts=entry.attempts + 1)
            aside.append((number, encode_entry(set_aside)))

        def write(rows: WriteBatch) -> None:
            for number, value in aside:
                rows.put(_NUMBER.pack(_ASIDE, number), value)

        with self._lock:  # from the writing on: another thread may count anew
            self._remove(_WAITS, [number for number, _ in entries], write)
            self._aside += len(aside)
            self._aside_bytes += sum(len(value) for _, value in aside)

    def keep_cluster(self, cluster_id: str) -> None:
        """Bind the store to this cluster: it forwards to no other from now on."""
        self._said["cluster"] = cluster_id
        _write_id(self.path, self._said)
        self.cluster_id = cluster_id  # not before, or the next try would rely on it

    # -- operators -------------------------------------------------------------------------------------------------

    def retry(self, numbers: Sequence[int] | None = None) -> int:
        """Have entries that were set aside wait again, behind all others; None: all. Returns how many."""
        retried = begin = 0
        with self._lock:  # from the choice on: another thread's retry would have them wait twice
            try:
                while rows := list(islice(self._rows(_ASIDE, begin), RETRIED_AT_ONCE)):
                    begin = rows[-1][0] + 1
                    retried += self._retry([row for row in rows if numbers is None or row[0] in numbers])
            finally:
                if retried:
                    self._count()
        if retried:
            self.entered.set()
        return retried

    def _retry(self, chosen: Sequence[tuple[int, bytes]]) -> int:
        """All of them or none; the counts are for the caller to correct."""
        waiting = [encode_entry(decode_entry(value)._replace(reason="", set_aside_at_ms=0)) for _, value in chosen]
        first = self._number + 1

        def write(rows: WriteBatch) -> None:
            for at, value in enumerate(waiting, first):
                rows.put(_NUMBER.pack(_WAITS, at), value)

        if chosen:
            self._number += len(chosen)  # before it is written, as of a send
            self._remove(_ASIDE, [number for number, _ in chosen], write, is_synced=True)
            self._mark.set(self._number)
        return len(chosen)

    def drop(self, numbers: Sequence[int] | None = None, *, set_aside: bool = True) -> int:
        """Delete entries for good, of those that were set aside or of those that wait; None: all. Returns how many."""
        kind = _ASIDE if set_aside else _WAITS
        with self._lock:
            chosen = [number for number, _ in self._rows(kind, 0) if numbers is None or number in numbers]
            if chosen:
                self._remove(kind, chosen, lambda rows: None, is_synced=True)
        return len(chosen)

    @property
    def number(self) -> int:
        """Return the number that was given last."""
        return self._number

    def counts(self) -> StoreCounts:
        """Return how much the store holds now.

        If the disk was full this tries it again, as a send does: there may come no send that would.
        """
        with self._lock:
            if self.trouble and self._is_open:
                self._mend()
            held_bytes, oldest_at_ms = self._waiting_bytes + self._aside_bytes, self._oldest_at_ms
            full = 1.0 if self.trouble else full_ratio(self._limits, held_bytes, oldest_at_ms, self._clock.now_ms())
            return StoreCounts(self._waiting, self._waiting_bytes, oldest_at_ms, self._aside, self._lost, full)

    def close(self) -> None:
        """Let the folder go. Again: nothing happens."""
        self.wait_stored(timeout_s=CLOSE_TIMEOUT_S)
        with self._changed.lock:
            was_open, self._is_open = self._is_open, False
            self._changed.notify_all()
        if not was_open:
            return
        with self._lock:
            try:
                if self._failed:  # else the next process would find what it was said of that it is not stored
                    self._reopen()
                self._sync()
                with self._syncing:
                    self._db.close()
                self._mark.close(self._mark.number)  # not one that was given and never written
            except Exception as error:  # RocksDB has no finer class
                log.warning("the store in %s was not closed in order: %s; what it holds is kept", self.path, error)
                with self._syncing, suppress(Exception):  # closed it is all the same, and may be opened again here
                    self._db.close()
                self._mark.let_go()
        self._file_lock.close()

    def forget_lock(self) -> None:
        """Let go of the inherited lock, in a forked child, or the folder stays locked as long as the child lives."""
        self._is_open = False
        self._file_lock.close()

    # -- writing ---------------------------------------------------------------------------------------------------

    def _closed(self) -> IllegalStateError:
        return IllegalStateError(f"the store in {self.path} is closed; nothing was stored")

    def _check_room(self, size_bytes: int) -> None:
        """Let a send of that size pass, after an attempt to mend a disk that had failed.

        Raises:
            NotStored: the store is closed or at a limit, or its disk still fails.
        """
        if not self._is_open:
            raise NotStored(self._closed())
        held_bytes = self._waiting_bytes + self._aside_bytes
        now_ms = self._clock.now_ms()
        text = refusal(self._limits, self.path, held_bytes, size_bytes, self._oldest_at_ms, now_ms)
        if text:
            raise NotStored(ResourceAllocationError(text, path=str(self.path)))
        if self.trouble:
            self._mend()
        if self.trouble:
            raise NotStored(ResourceAllocationError(self.trouble, path=str(self.path)))

    def _write(self, values: Sequence[tuple[bytes, int]]) -> None:
        """Under the lock. Raises NotStored: none of them is stored."""
        try:
            self._write_and_count(values)
        except NotStored:
            raise
        except BaseException:  # Ctrl-C: perhaps it is written, and not counted
            self._number = max(self._number, self._count())
            raise

    def _write_and_count(self, values: Sequence[tuple[bytes, int]]) -> None:
        first = self._number + 1
        # Before it is written: by a number that comes twice, what is stored as the second is removed as the first.
        self._number += len(values)
        try:
            if len(values) == 1 and not self._fsync:
                self._db.put(_NUMBER.pack(_WAITS, first), values[0][0])
            else:
                rows = WriteBatch(raw_mode=True)
                for at, (value, _) in enumerate(values, first):
                    rows.put(_NUMBER.pack(_WAITS, at), value)
                self._db.write(rows)
                if self._fsync:
                    self._sync()
        except Exception as error:  # RocksDB knows no finer class
            self._could_not_write(error, range(first, self._number + 1))
            raise NotStored(ResourceAllocationError(self.trouble, path=str(self.path))) from None
        self._is_unsynced = not self._fsync
        self._mark.set(self._number)
        if not self._waiting:
            self._oldest_at_ms = values[0][1]
        self._waiting += len(values)
        self._waiting_bytes += sum(len(value) for value, _ in values)

    def _write_pending(self) -> None:
        while True:
            self._changed.wait_for(lambda: self._pending or not self._is_open, None)
            taken = list(self._pending)
            if not taken:
                return
            with self._lock:
                answers = self._written_together(taken)
            for (_, _, stored), answer in zip(taken, answers, strict=True):
                if stored is not None:
                    stored(answer)
            with self._changed.lock:
                del self._pending[: len(taken)]
                self._pending_bytes -= sum(len(value) for value, _, _ in taken)
                self._changed.notify_all()
            self.entered.set()

    def _sync_again_and_again(self) -> None:
        """Without fsync, also while Kafka is away, for which nobody forwards."""
        while self._is_open:
            self._changed.wait_for(lambda: not self._is_open, SYNC_S)
            if self._is_unsynced:
                self._is_unsynced = False
                try:
                    self._sync()  # without `_lock`, for which sends would wait
                except Exception:  # a disk that refuses is told to the next send
                    self._is_unsynced = True

    def _sync(self) -> None:
        """Have on the disk what was written: not by a write, which RocksDB's binding makes without letting other
        threads run meanwhile.

        Raises:
            Exception: the disk refuses.
        """
        with self._syncing:
            self._db.flush_wal(True)

    def _written_together(self, taken: Sequence[tuple[bytes, int, Stored | None]]) -> list[NotStored | None]:
        """Write them with one call to the disk; returns for each why it is not stored, if it is not."""
        answers: list[NotStored | None] = []
        room: list[tuple[bytes, int]] = []
        size_bytes = 0
        for value, stored_at_ms, _ in taken:
            try:
                self._check_room(size_bytes + len(value))
            except NotStored as error:
                answers.append(error)
            else:
                answers.append(None)
                room.append((value, stored_at_ms))
                size_bytes += len(value)
        try:
            if room:
                self._write(room)
        except NotStored as error:
            return [answer or error for answer in answers]
        return answers

    def _remove(
        self, kind: bytes, numbers: Sequence[int], more: Callable[[WriteBatch], None], *, is_synced: bool = False
    ) -> None:
        keys = [_NUMBER.pack(kind, number) for number in numbers]
        with self._lock:
            sizes = [len(value) for key in keys if (value := self._rocks.get(key)) is not None]

            def write(rows: WriteBatch) -> None:
                for key in keys:
                    rows.delete(key)
                rows.put(_HIGHEST, str(self._number).encode())
                more(rows)

            self._forward_write(write, is_synced=is_synced)
            if kind == _WAITS:
                self._waiting -= len(sizes)
                self._waiting_bytes -= sum(sizes)
                head = next(self._rows(_WAITS, self._first), None)
                self._first = self._number + 1 if head is None else head[0]
                self._oldest_at_ms = 0 if head is None else decode_entry(head[1]).stored_at_ms
            else:
                self._aside -= len(sizes)
                self._aside_bytes -= sum(sizes)

    def _forward_write(self, fill: Callable[[WriteBatch], None], *, is_synced: bool = True) -> None:
        """Raises ResourceAllocationError: the disk did not confirm it, though the reserve was let go, and may have it;
        IllegalStateError: it is closed."""
        for is_last in (False, True):
            try:
                with self._lock:
                    if not self._is_open:  # or it would be opened again below, without its lock
                        raise self._closed()
                    rows = WriteBatch(raw_mode=True)
                    fill(rows)
                    self._rocks.write(rows)
                if is_synced:
                    self._sync()
            except JMSError:
                raise
            except Exception as error:  # RocksDB knows no finer class
                with self._lock:
                    if not self._is_open:
                        raise self._closed() from None
                    self._could_not_write(error, range(0))
                    if is_last or not self._reopen():
                        raise ResourceAllocationError(self.trouble, path=str(self.path)) from None
            else:
                return

    def _could_not_write(self, error: Exception, numbers: range) -> None:
        """Note why a write failed, and what it was to store; the reserve goes, so that forwarding has room."""
        self._hindered(error)
        self._failed.update(numbers)
        self._tried_at_ms = self._clock.monotonic_ms()
        with suppress(OSError):  # it is gone, or the disk is read-only by now
            (self.path / RESERVE_FILE).unlink()

    def _hindered(self, error: Exception) -> None:
        self.trouble = (
            f"store_and_forward folder {self.path} cannot be written: {error}; nothing was stored of this send: make "
            f"room on its disk, and send again"
        )
        now_ms = self._clock.monotonic_ms()
        if self._said_at_ms is None or now_ms - self._said_at_ms >= SAY_AGAIN_MS:
            self._said_at_ms = now_ms
            log.warning("%s", self.trouble)

    def _mend(self) -> None:
        """Take sends again when there is room. RocksDB writes nothing more after an error until it is reopened."""
        if self._clock.monotonic_ms() - self._tried_at_ms < MEND_MS:
            return
        self._tried_at_ms = self._clock.monotonic_ms()
        if not (self._make_reserve(room_bytes=ROOM_BYTES) and self._reopen()):
            return
        try:
            self._count()  # what was not confirmed may be there all the same
        except Exception as error:  # RocksDB knows no finer class
            self._hindered(error)
            return
        self.trouble = ""
        self._said_at_ms = None
        log.info("the store in %s can be written again", self.path)

    @property
    def _rocks(self) -> Rdict:
        """Return the database, opened again if it is shut: for that less room is enough than sends need.

        Raises:
            ResourceAllocationError: the disk does not let it.
        """
        if self._is_shut and self._is_open and not self._reopen():
            raise ResourceAllocationError(self.trouble, path=str(self.path))
        return self._db

    def _reopen(self) -> bool:
        """Close the database and open it anew, without the entries whose senders were told that they are not stored.

        Returns False if it cannot be opened; `trouble` says why, and the next call tries again.
        """
        self._is_shut = True
        try:
            with self._syncing:  # until it is open: to who waits for the disk the closed one would be a failure
                with suppress(Exception):  # it says once more what failed, and is closed all the same
                    self._db.close()
                self._db = _opened(self.path / ROCKS_FOLDER)
            self._is_shut = False
            rows = WriteBatch(raw_mode=True)
            for number in self._failed:  # their senders were told that they are not stored
                rows.delete(_NUMBER.pack(_WAITS, number))
            self._db.write(rows)
            self._sync()
            self._failed.clear()
        except Exception as error:  # RocksDB knows no finer class
            self._hindered(error)
            return False
        return True

    def _make_reserve(self, *, room_bytes: int) -> bool:
        """Keep a part of the disk free for forwarding; return False, with the reason in `trouble`, if it has no room.

        `room_bytes` must be free beyond it, so that sends are not taken again for a moment only.
        """
        try:
            fd = os.open(self.path / RESERVE_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(fd, 0, RESERVE_BYTES + room_bytes)
                os.ftruncate(fd, RESERVE_BYTES)
            finally:
                os.close(fd)
        except OSError as error:
            with suppress(OSError):
                (self.path / RESERVE_FILE).unlink()
            self.trouble = self.trouble or (
                f"store_and_forward folder {self.path} has no room on its disk: {error.strerror}; nothing was stored "
                f"of this send: make room, and send again"
            )
            return False
        return True

    # -- reading ---------------------------------------------------------------------------------------------------

    def _rows(self, kind: bytes, begin: int) -> Iterator[tuple[int, bytes]]:
        return (row for row in _rows_of(self._rocks, kind, begin) if row[0] not in self._failed)

    def _count(self) -> int:
        """Count what it holds; returns the highest number that it knows."""
        waiting = waiting_bytes = aside = aside_bytes = oldest_at_ms = 0
        highest = int(self._rocks.get(_HIGHEST) or 0)
        for number, value in self._rows(_WAITS, 0):
            if not waiting:
                oldest_at_ms = decode_entry(value).stored_at_ms
            waiting += 1
            waiting_bytes += len(value)
            highest = max(highest, number)
        for number, value in self._rows(_ASIDE, 0):
            aside += 1
            aside_bytes += len(value)
            highest = max(highest, number)
        # Last, and without a call between: a second Ctrl-C in the counting leaves the counts as they were.
        self._waiting, self._waiting_bytes, self._oldest_at_ms = waiting, waiting_bytes, oldest_at_ms
        self._aside, self._aside_bytes = aside, aside_bytes
        return highest

    def _report_torn_tail(self) -> None:
        """Record and log that entries were lost whose sends were confirmed, and pass over their numbers.

        The mark beside the database has the last number that was given; where it may be behind, a warning is all.
        """
        missing = self._mark.number - self._number
        if missing > 0:
            self._lost += missing
            rows = WriteBatch(raw_mode=True)
            rows.put(_LOST, str(self._lost).encode())
            rows.put(_HIGHEST, str(self._mark.number).encode())
            self._db.write(rows)
            self._sync()
            log.error(
                "the store in %s has lost its last %d entries, numbers %d to %d, which were confirmed: the machine "
                "stopped before its disk had them%s",
                *(self.path, missing, self._number + 1, self._mark.number),
                "" if self._fsync else "; with store_fsync=True a send is confirmed when the disk has it",
            )
            self._number = self._mark.number
        elif self._mark.was_torn:
            log.warning(
                "the store in %s was open when the machine stopped, and did not wait for the disk: sends of its last "
                "second may be missing; entry %d is the last that is there",
                *(self.path, self._number),
            )


@dataclass(frozen=True, slots=True)
class StoreContent:
    """The contents of a store, as it is read beside its owner."""

    counts: StoreCounts
    waiting: list[tuple[int, StoredEntry]]
    """The oldest."""
    set_aside: list[tuple[int, StoredEntry]]
    """All."""
    holder: str
    """The process that has it open; empty: none."""


def look_into(folder: Path, count_max: int) -> StoreContent:
    """Returns what a store holds, at most so many that wait; also while a process has it open, and changes nothing.

    Raises:
        IllegalStateError: it is no store.
        ResourceAllocationError: it cannot be read.
    """
    path = folder.absolute()
    _check_is_store(path)
    for tries_left in reversed(range(LOOKS)):
        try:
            return _looked_into(path, count_max)
        except Exception as error:  # RocksDB knows no finer class
            if not tries_left:
                raise ResourceAllocationError(f"store {path} cannot be read: {error}", path=str(path)) from error
    raise AssertionError(path)


def _looked_into(path: Path, count_max: int) -> StoreContent:
    waiting: list[tuple[int, StoredEntry]] = []
    count = size_bytes = 0
    db = Rdict(str(path / ROCKS_FOLDER), Options(raw_mode=True), access_type=AccessType.read_only(False))
    with closing(db):
        for number, value in _rows_of(db, _WAITS, 0):
            count += 1
            size_bytes += len(value)
            if len(waiting) < max(1, count_max):
                waiting.append((number, decode_entry(value)))
        aside = [(number, decode_entry(value)) for number, value in _rows_of(db, _ASIDE, 0)]
        lost = int(db.get(_LOST) or 0)
    oldest_at_ms = waiting[0][1].stored_at_ms if waiting else 0
    holder = _holder(path) if is_locked(path / LOCK_FILE) else ""
    return StoreContent(
        StoreCounts(count, size_bytes, oldest_at_ms, len(aside), lost), waiting[:count_max], aside, holder
    )


def namespace_of(folder: Path) -> str:
    """Returns the namespace that a store is of.

    Raises:
        IllegalStateError: it is no store.
    """
    path = folder.absolute()
    _check_is_store(path)
    return str(_read_id(path)["namespace"])


def _rows_of(db: Rdict, kind: bytes, begin: int) -> Iterator[tuple[int, bytes]]:
    bounds = ReadOptions()
    bounds.set_iterate_upper_bound(bytes([kind[0] + 1]))
    rows = db.iter(bounds)
    rows.seek(_NUMBER.pack(kind, begin))
    while rows.valid():
        yield _NUMBER.unpack(rows.key())[1], rows.value()
        rows.next()
    rows.status()  # raises what ended it before the end, which `items()` would pass over in silence


def _batch_value(batch: BatchUnderWay) -> bytes:
    return json.dumps({"number": batch.number, "entries": batch.entries}).encode()


def _opened(path: Path) -> Rdict:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(2)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_max_background_jobs(2)
    options.set_max_total_wal_size(WAL_BYTES_MAX)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 << 20)
    options.set_stats_dump_period_sec(0)
    options.set_stats_persist_period_sec(0)
    return Rdict(str(path), options)


def _locked(path: Path) -> FileLock:
    lock = FileLock(path / LOCK_FILE)
    try:
        if path.exists() and not path.is_dir():
            raise IllegalStateError(f"store_and_forward is {path}: it is a file, name a folder", path=str(path))
        if path.is_dir():
            _refuse_foreign(path)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=0o700)  # messages lie in it
        is_acquired = lock.wait_acquire(ASKED_S)
    except OSError as error:
        raise ResourceAllocationError(
            f"store_and_forward folder {path} cannot be used: {error.strerror}; it needs a local disk this user can "
            "write to",
            path=str(path),
        ) from error
    if not is_acquired:
        raise ResourceAllocationError(
            f"store_and_forward folder {path} is in use by process {_holder(path)}, which forwards what it holds; "
            "give each process its own folder, or wait until that one ends",
            path=str(path),
        )
    os.ftruncate(lock.fd, 0)
    os.pwrite(lock.fd, f"{os.getpid()}\n".encode(), 0)
    return lock


def _refuse_foreign(path: Path) -> None:
    names = {entry.name for entry in path.iterdir()}
    if ID_FILE not in names and names - {LOCK_FILE, f"{ID_FILE}.new"}:
        raise IllegalStateError(
            f"store_and_forward folder {path} holds other files and no {ID_FILE}; name an empty folder, or one that "
            "is not there yet",
            path=str(path),
        )


def _check_is_store(path: Path) -> None:
    try:
        is_store = (path / ID_FILE).is_file()
    except OSError as error:  # as where another user has it
        raise ResourceAllocationError(f"store {path} cannot be read: {error.strerror}", path=str(path)) from error
    if not is_store:
        raise IllegalStateError(f"{path} is no store of sends: it has no {ID_FILE}", path=str(path))


def _read_id(path: Path) -> dict[str, Any]:
    try:
        said = json.loads((path / ID_FILE).read_text())
        version = said["version"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise IllegalStateError(f"{path / ID_FILE} cannot be read: {error}", path=str(path)) from None
    if version != VERSION:
        raise IllegalStateError(
            f"store_and_forward folder {path} is of version {version}, and this program knows {VERSION}: use a newer "
            "jbm-kafka, or another folder",
            path=str(path),
        )
    assert isinstance(said, dict), said
    return said


def _read_or_make_id(path: Path, namespace: str) -> dict[str, Any]:
    if (path / ID_FILE).exists():
        said = _read_id(path)
        if said["namespace"] != namespace:
            raise IllegalStateError(
                f"store_and_forward folder {path} is of namespace {said['namespace']!r}, and this is {namespace!r}: "
                "name another folder",
                path=str(path),
            )
        return said
    said = {"version": VERSION, "id": f"store.{secrets.token_hex(8)}", "namespace": namespace}
    _write_id(path, said)
    return said


def _write_id(path: Path, said: dict[str, Any]) -> None:
    new = path / f"{ID_FILE}.new"
    with new.open("w") as file:
        json.dump(said, file)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path / ID_FILE)


def _holder(path: Path) -> str:
    try:
        return (path / LOCK_FILE).read_text().strip() or "unknown"
    except OSError:
        return "unknown"
