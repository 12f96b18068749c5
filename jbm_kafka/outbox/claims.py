"""The part of a table that one relay has for itself while it sends: whole buckets of units, never single rows
(OUTBOX-2).

A relay that dies, or loses its connection, has nothing any more; and what it sends then others may send too, with the
same duplicate ids and in the same order.
"""

from __future__ import annotations

import fcntl
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import CTE, ColumnElement, Connection, Engine, exists, func, literal, select

from jbm_kafka.outbox.caller_connection import POSTGRESQL, checked_dialect
from jbm_kafka.outbox.outbox_table import BUCKETS, Outbox

AT_ONCE = BUCKETS // 4
"""Buckets that a relay has at once, so that others find some."""
_IN_MEMORY: WeakKeyDictionary[Engine, threading.Lock] = WeakKeyDictionary()


class Claim(NamedTuple):
    """The rows that a relay may send from."""

    begin: Callable[[], AbstractContextManager[Connection]]
    """To read and to mark in: the transaction that has the claim, where the database keeps it, else one of its own."""
    buckets: tuple[int, ...]
    """Which are this relay's; none: nothing waits, or others have all that waits."""
    is_shared: bool
    """Others have some of what waits."""


Claiming = Callable[[ColumnElement[bool], int], AbstractContextManager[Claim]]
"""Claims buckets that have rows of that condition, from the bucket of that number on. Its end commits, where the
database keeps the claim; an exception rolls back."""


def claiming(engine: Engine, outbox: Outbox) -> Claiming:
    """How relays of this database claim."""
    if checked_dialect(engine.dialect.name) == POSTGRESQL:
        read_committed = engine.execution_options(isolation_level="READ COMMITTED")
        return lambda condition, first: _in_postgresql(read_committed, outbox, condition, first)
    return lambda condition, first: _in_sqlite(engine, outbox, condition, first)


@contextmanager
def _in_postgresql(engine: Engine, outbox: Outbox, condition: ColumnElement[bool], first: int) -> Iterator[Claim]:
    """Claim by locks of the transaction. Every statement sees what was committed before it began (READ COMMITTED), so
    what is read after the lock has all that its last holder has marked."""
    table = zlib.crc32(outbox.full_name.encode()) - 2**31
    with engine.begin() as connection:
        waiting = _with_rows(connection, outbox, condition, first)
        got: list[int] = []
        for bucket in waiting:
            if len(got) == AT_ONCE:
                break
            if connection.scalar(select(func.pg_try_advisory_xact_lock(table, bucket))):
                got.append(bucket)
        yield Claim(lambda: nullcontext(connection), tuple(got), len(got) < len(waiting))


@contextmanager
def _in_sqlite(engine: Engine, outbox: Outbox, condition: ColumnElement[bool], first: int) -> Iterator[Claim]:
    """Claim by a lock beside the database: one in it would keep all writers out for as long as a send takes."""
    with _beside(engine) as is_ours:
        with engine.begin() as connection:
            waiting = _with_rows(connection, outbox, condition, first)
        yield Claim(engine.begin, tuple(waiting) if is_ours else (), bool(waiting) and not is_ours)


@contextmanager
def _beside(engine: Engine) -> Iterator[bool]:
    """Yield whether the lock is ours: of a file that other processes know, or of a database in this process's
    memory."""
    path = engine.url.database
    if not path or ":memory:" in path or "mode=memory" in str(engine.url):
        lock = _IN_MEMORY.setdefault(engine, threading.Lock())
        is_ours = lock.acquire(blocking=False)
        try:
            yield is_ours
        finally:
            if is_ours:
                lock.release()
        return
    with open(f"{path.removeprefix('file:')}-relay", "wb") as file:  # noqa: PTH123 - as it was written
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = True
        except BlockingIOError:
            is_ours = False
        yield is_ours


def _with_rows(connection: Connection, outbox: Outbox, condition: ColumnElement[bool], first: int) -> list[int]:
    """The buckets with rows of the condition, from a number on and round: one look into the index for each."""
    table = outbox.table
    there = exists(select(1).select_from(table).where(table.c.bucket == _EACH.c.number, condition))
    found = set(connection.scalars(select(_EACH.c.number).where(there)))
    return [number for turn in range(BUCKETS) if (number := (first + turn) % BUCKETS) in found]


def _each_bucket() -> CTE:
    """The numbers of all buckets, counted by the database: as so many terms they took longer than the look."""
    numbers = select(literal(0).label("number")).cte("bucket", recursive=True)
    return numbers.union_all(select(numbers.c.number + 1).where(numbers.c.number < BUCKETS - 1))


_EACH = _each_bucket()
