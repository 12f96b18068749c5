"""The rows of an outbox: their columns, and which of them a relay may send."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Row,
    Table,
    Text,
    and_,
    exists,
    select,
    text,
)

from jbm_kafka.outbox.outbox_message import OutboxMessage, headers_of

WAITING, SENT, FAILED = "waiting", "sent", "failed"
BIG = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up by itself where the type is INTEGER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxRow:
    """A row as operators see it."""

    id: int
    """The row's number; within a unit the earlier message has the smaller."""
    destination: str
    """As `queue:orders`."""
    unit: str | None
    """Its unit of order, if it was given one."""
    state: str
    """`waiting`, `failed` or `sent`."""
    reason: str | None
    """Why it failed."""
    attempts: int
    """How often it failed."""
    added_at_ms: int
    """When it was added, by the clock of who did."""
    size_bytes: int
    """The size in Kafka, or a little less."""
    duplicate_id: str
    """The id by which the queue delivers only the first of several messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxCounts:
    """How many rows there are."""

    waiting: int
    """To be sent; also those behind a failed one of their unit."""
    failed: int
    """Set aside, until `retry` or `drop`."""
    sent: int
    """Not cleaned up yet."""
    oldest_waiting_ms: int
    """How long the oldest that waits has done so; 0: none does."""


def outbox_table(name: str, metadata: MetaData, schema: str | None) -> Table:
    """The table of an outbox, in that metadata."""
    table = Table(
        name,
        metadata,
        Column("id", BIG, primary_key=True, autoincrement=True),
        Column("state", Text, nullable=False),
        Column("bucket", Integer, nullable=False),
        Column("destination", Text, nullable=False),
        Column("unit", Text),
        Column("unit_key", LargeBinary),
        Column("refuses_units", Boolean, nullable=False),
        Column("body", LargeBinary),
        Column("headers", Text, nullable=False),
        Column("priority", Integer, nullable=False),
        Column("deliver_at_ms", BigInteger, nullable=False),
        Column("expires_at_ms", BigInteger, nullable=False),
        Column("duplicate_id", Text, nullable=False),
        Column("size_bytes", Integer, nullable=False),
        Column("added_at_ms", BigInteger, nullable=False),
        Column("ended_at_ms", BigInteger),
        Column("attempts", Integer, nullable=False),
        Column("reason", Text),
        Column("branch", Text),
        schema=schema,
        sqlite_autoincrement=True,
    )
    for suffix, columns, condition in (
        ("waiting", ("bucket", "id"), f"state = '{WAITING}'"),
        ("failed", ("destination", "unit", "id"), f"state = '{FAILED}'"),
        ("sent", ("ended_at_ms",), f"state = '{SENT}'"),
        ("branch", ("bucket", "branch"), "branch IS NOT NULL"),
    ):
        where = text(condition)
        columns_of = [table.c[column] for column in columns]
        Index(f"{name}_{suffix}", *columns_of, postgresql_where=where, sqlite_where=where)
    return table


def branches_table(name: str, metadata: MetaData, schema: str | None) -> Table:
    """The table of the decisions of branches, in which a relay may send (`DecisionRows` reads and writes it)."""
    return Table(
        f"{name}_branches",
        metadata,
        Column("gtrid", Text, primary_key=True),
        Column("decision", Text, nullable=False),
        Column("decided_at_ms", BigInteger, nullable=False),
        schema=schema,
    )


def sendable(table: Table, *, holds: bool, only: str | None, but: Collection[str]) -> ColumnElement[bool]:
    """The condition of the rows that may be sent: to `only`, or to any but `but`.

    `holds`: a failed row holds the later ones of its unit.
    """
    conditions: list[ColumnElement[bool]] = [table.c.state == text(f"'{WAITING}'")]  # as the index has it
    if only is not None:
        conditions.append(table.c.destination == only)
    elif but:
        conditions.append(table.c.destination.not_in(but))
    if holds:
        failed = table.alias("failed")
        conditions.append(
            ~exists(
                select(1)
                .select_from(failed)
                .where(
                    failed.c.state == text(f"'{FAILED}'"),
                    failed.c.destination == table.c.destination,
                    failed.c.unit == table.c.unit,
                    failed.c.id < table.c.id,
                )
            )
        )
    return and_(*conditions)


def message_of_row(row: Row[Any]) -> OutboxMessage:
    """The message of a row.

    Raises:
        MessageFormatError: somebody else has written it.
    """
    return OutboxMessage(
        destination=row.destination,
        body=None if row.body is None else bytes(row.body),
        header_pairs=headers_of(row.headers),
        unit=row.unit,
        unit_key=None if row.unit_key is None else bytes(row.unit_key),
        refuses_units=row.refuses_units,
        added_at_ms=row.added_at_ms,
    )
