"""SQL in the transaction of a caller, whatever kind of connection it has: SQLAlchemy's, psycopg's, sqlite3's."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from jbm_kafka.core.jms_errors import IllegalStateError, InvalidTypeError
from jbm_kafka.core.wrong_values import shown, wrong_type

POSTGRESQL, SQLITE = "postgresql", "sqlite"
Values = Mapping[str, object]
Row = tuple[Any, ...]
_NO_TABLE = re.compile("no such table|relation .* does not exist")
_NAMED = re.compile(r"(?<![:\w]):(\w+)")
_KINDS = (
    "it is a Connection or Session of SQLAlchemy, or a connection of psycopg or sqlite3; of an AsyncConnection or "
    "AsyncSession it is what run_sync() gives"
)


class Ran(NamedTuple):
    """The outcome of a statement."""

    changed: int
    """The rows that it changed."""
    row: Row | None
    """The first that it returned."""


class CallerConnection(NamedTuple):
    """A connection that is in a transaction, or begins one with its next statement."""

    dialect: str
    """POSTGRESQL or SQLITE."""
    run: Callable[[str, Values], Ran]
    """Runs a statement with parameters as `:name`."""


def caller_connection(connection: object, call: str) -> CallerConnection:
    """The connection as one that runs SQL.

    Raises:
        IllegalStateError: it commits each statement by itself, so that there is no transaction to be in.
        InvalidTypeError: it is of another kind, or another kind of database.
    """
    if isinstance(connection, sqlite3.Connection):
        begins = connection.isolation_level is not None and getattr(connection, "autocommit", False) is not True
        _check(connection.in_transaction or begins, call)
        return CallerConnection(SQLITE, lambda sql, values: _on_sqlite(connection, sql, values))
    if "psycopg" in sys.modules and isinstance(connection, sys.modules["psycopg"].Connection):
        idle = sys.modules["psycopg"].pq.TransactionStatus.IDLE
        _check(not connection.autocommit or connection.info.transaction_status != idle, call)
        return CallerConnection(POSTGRESQL, lambda sql, values: _on_psycopg(connection, sql, values))
    found = _of_sqlalchemy(connection)
    if found is None:
        raise wrong_type("connection", connection, _KINDS)
    _check(not found._is_autocommit_isolation(), call)
    dialect = checked_dialect(found.dialect.name)
    return CallerConnection(dialect, lambda sql, values: _on_sqlalchemy(found, sql, values))


def lacks_table(error: BaseException) -> bool:
    """What the database says is that there is no such table."""
    return bool(_NO_TABLE.search(str(getattr(error, "orig", None) or error).partition("\n")[0]))


@contextmanager
def naming_the_table(call: str, name: str, remedy: str) -> Iterator[None]:
    """Have an error say that the table is not there, and what makes it; others are the database's own.

    Raises:
        IllegalStateError: it is not there.
    """
    try:
        yield
    except Exception as error:  # of whichever driver
        if not lacks_table(error):
            raise
        told = f"{call}: the database has no table {name}: {remedy}"
    else:
        return
    raise IllegalStateError(told)


def checked_dialect(name: str) -> str:
    """The name of the kind of database, if it is one that is known.

    Raises:
        InvalidTypeError: it is not.
    """
    if name not in (POSTGRESQL, SQLITE):
        raise InvalidTypeError(f"the database is {shown(name)}: an outbox and an inbox are in PostgreSQL or in SQLite")
    return name


def _of_sqlalchemy(connection: object) -> Any:
    if "sqlalchemy" not in sys.modules:
        return None
    from sqlalchemy import Connection

    if "sqlalchemy.orm" in sys.modules:  # while one thread imports it, select() of any other may fail
        from sqlalchemy.orm import Session, scoped_session

        if isinstance(connection, Session | scoped_session):
            connection = connection.connection()
    return connection if isinstance(connection, Connection) else None


def _check(is_in_transaction: bool, call: str) -> None:
    if not is_in_transaction:
        raise IllegalStateError(
            f"{call}: the connection is in autocommit and in no transaction; begin the one that has your changes first"
        )


def _on_sqlite(connection: sqlite3.Connection, sql: str, values: Values) -> Ran:
    cursor = connection.cursor()
    cursor.row_factory = None
    cursor.execute(sql, dict(values))
    row = None if cursor.description is None else cursor.fetchone()
    changed = cursor.rowcount
    cursor.close()
    return Ran(changed, row)


def _on_psycopg(connection: Any, sql: str, values: Values) -> Ran:
    from psycopg.rows import tuple_row

    with connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(_NAMED.sub(r"%(\1)s", sql), values)
        return Ran(cursor.rowcount, None if cursor.description is None else cursor.fetchone())


def _on_sqlalchemy(connection: Any, sql: str, values: Values) -> Ran:
    with connection.execute(_parsed(sql), dict(values)) as result:
        return Ran(result.rowcount, tuple(row) if result.returns_rows and (row := result.fetchone()) else None)


@lru_cache(maxsize=64)
def _parsed(sql: str) -> Any:
    """The statement, in which its parameters were looked for once."""
    from sqlalchemy import text

    return text(sql)
