"""The outbox: a table of messages that commit with the changes of their caller (OUTBOX-1)."""

from __future__ import annotations

import hashlib
import time
import uuid
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from sqlalchemy import Connection, Engine, MetaData, delete, func, select, update

from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.destination import Destination, Queue, parse_destination
from jbm_kafka.core.durations import checked_duration_ms
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.wrong_values import checked_int, wrong_value
from jbm_kafka.jms.base.arguments import as_destination
from jbm_kafka.jms.messages.header_values import checked_priority
from jbm_kafka.jms.sends.routing import UnitOfOrder, checked_unit
from jbm_kafka.jms.sends.send_headers import checked_duplicate_id
from jbm_kafka.outbox.caller_connection import POSTGRESQL, caller_connection, naming_the_table
from jbm_kafka.outbox.outbox_message import Body, check_size, headers_text, stored_message
from jbm_kafka.outbox.outbox_rows import (
    FAILED,
    SENT,
    WAITING,
    OutboxCounts,
    OutboxRow,
    branches_table,
    outbox_table,
)
from jbm_kafka.outbox.table_name import checked_table_name

BUCKETS = 64
"""Among so many parts a table's units are divided; a relay locks one as a whole."""
KAFKA_MAX_MESSAGE_BYTES = 1_048_588
"""A topic's, unless it is set."""
CLEANED_AT_ONCE = 10_000
Order = Literal["commit", "sequence"]
OnFailed = Literal["hold", "go-on"]


class Outbox:
    """A table of messages that are to be sent. Thread-safe; it holds settings only.

    Write: add, in the caller's transaction.
    Make the table: create_all; or for Alembic `metadata`, with `table` and `branches`.
    Look after it: counts, rows, retry, drop, clean_up.
    """

    def __init__(
        self,
        name: str = "jbm_outbox",
        *,
        schema: str | None = None,
        metadata: MetaData | None = None,
        order: Order = "commit",
        on_failed: OnFailed = "hold",
        max_message_bytes: int = KAFKA_MAX_MESSAGE_BYTES,
        codecs: Mapping[str, Any] | None = None,
    ) -> None:
        """The outbox in the table of that name.

        Args:
            name: the table's.
            schema: where it is; None: where the connection looks first.
            metadata: which gets the table, such as that of your models, for Alembic; None: one of its own.
            order: "commit": the messages of a unit go in the order of the commits, since `add` locks the unit until its
                transaction ends (PostgreSQL; SQLite has one writer anyhow). "sequence": no lock; the messages of
                transactions that run at once may go in either order.
            on_failed: "hold": what cannot be sent holds the later messages of its unit; "go-on": it does not.
            max_message_bytes: `add` refuses what is larger.
            codecs: as of a ConnectionFactory: bodies for a schema registry are written when they are added.

        Raises:
            InvalidSettingError: an argument that cannot be.
        """
        checked_table_name("name", name)
        if schema is not None:
            checked_table_name("schema", schema)
        if order not in ("commit", "sequence"):
            raise wrong_value("order", order, "it is 'commit' or 'sequence'")
        if on_failed not in ("hold", "go-on"):
            raise wrong_value("on_failed", on_failed, "it is 'hold' or 'go-on'")
        self.metadata = MetaData() if metadata is None else metadata
        self.table = outbox_table(name, self.metadata, schema)
        self.branches = branches_table(name, self.metadata, schema)
        self.order: Order = order
        self.on_failed: OnFailed = on_failed
        self.full_name = name if schema is None else f"{schema}.{name}"
        """The name of the table, with its schema if it was given one."""
        self._max_message_bytes = checked_int("max_message_bytes", max_message_bytes, 1, None, "bytes")
        self._codecs = SchemaCodecs(codecs) if codecs else None
        quoted = ".".join(f'"{part}"' for part in self.full_name.split("."))
        columns = [column.name for column in self.table.columns if column.name not in _NOT_INSERTED]
        self._insert = (
            f"INSERT INTO {quoted} ({', '.join(columns)}) VALUES ({', '.join(f':{name}' for name in columns)}) "
            f"RETURNING id"
        )

    def create_all(self, engine_or_connection: Engine | Connection) -> None:
        """Make the table, its indexes and the small one beside it, unless they are there."""
        self.metadata.create_all(engine_or_connection, tables=[self.table, self.branches])

    def add(
        self,
        connection: object,
        destination: Destination | str,
        body: Body | Unset = UNSET,
        *,
        json: object = UNSET,
        priority: int = 4,
        time_to_live_ms: int = 0,
        delivery_delay_ms: int = 0,
        unit_of_order: UnitOfOrder = None,
        duplicate_id: str | None = None,
        properties: Mapping[str, object] | None = None,
        correlation_id: str | None = None,
        reply_to: Destination | None = None,
        type: str | None = None,  # noqa: A002 - its name in JMS
        headers: Mapping[str, bytes | None] | None = None,
    ) -> int:
        """Have a message sent if the connection's transaction commits. Returns the id of its row.

        Args:
            connection: a Connection or Session of SQLAlchemy, or a connection of psycopg or sqlite3.
            destination: a queue's name, "topic:NAME", a Queue or a Topic.
            body, json, priority, properties, correlation_id, reply_to, type, headers: as of `MessageProducer.send`.
            time_to_live_ms, delivery_delay_ms: counted from now.
            unit_of_order: what it stays in order with; None: its JMSXGroupID, or at the relay the default; NO_UNIT:
                nothing.
            duplicate_id: of messages with one id the queue delivers the first; None: one of its own.

        Raises:
            JMSError: it cannot be sent so; as of `MessageProducer.send`. Nothing was added.
            IllegalStateError: the connection commits each statement by itself, or the table is not there.
            Exception: the database's own, such as that of a deadlock with one that locks units in another order.
        """
        target, unit = _target(destination), checked_unit(unit_of_order)
        now_ms = time.time_ns() // 1_000_000
        live_ms = checked_duration_ms("time_to_live_ms", time_to_live_ms)
        delay_ms = checked_duration_ms("delivery_delay_ms", delivery_delay_ms)
        message = stored_message(
            target,
            body,
            json=json,
            unit_of_order=unit,
            properties=properties,
            correlation_id=correlation_id,
            reply_to=reply_to,
            type=type,
            headers=headers,
            codecs=self._codecs,
            added_at_ms=now_ms,
        )
        check_size(message, self._max_message_bytes)
        own_id = uuid.uuid4().hex if duplicate_id is None else checked_duplicate_id(duplicate_id)
        place = f"{target} {own_id if message.unit is None else message.unit}".encode()
        values = {
            "state": WAITING,
            "bucket": zlib.crc32(place) % BUCKETS,
            "destination": message.destination,
            "unit": message.unit,
            "unit_key": message.unit_key,
            "refuses_units": message.refuses_units,
            "body": message.body,
            "headers": headers_text(message.header_pairs),
            "priority": checked_priority(priority),
            "deliver_at_ms": now_ms + delay_ms if delay_ms else 0,
            "expires_at_ms": now_ms + live_ms if live_ms else 0,
            "duplicate_id": own_id,
            "size_bytes": message.size_bytes,
            "added_at_ms": now_ms,
            "attempts": 0,
        }
        there = caller_connection(connection, "outbox.add()")
        if there.dialect == POSTGRESQL and message.unit is not None and self.order == "commit":
            # Before the row gets its number: so of one unit the smaller number is committed first, or never.
            there.run("SELECT pg_advisory_xact_lock(:unit)", {"unit": _lock_of(self.full_name, place)})
        remedy = "`jbm-kafka outbox create` makes it, or create_all"
        with naming_the_table("outbox.add()", self.full_name, remedy):
            row = there.run(self._insert, values).row
        assert row is not None, target
        return int(row[0])

    def counts(self, connection: Connection) -> OutboxCounts:
        """How many rows wait, failed and were sent."""
        columns = self.table.c
        found = connection.execute(
            select(columns.state, func.count(), func.min(columns.added_at_ms)).group_by(columns.state)
        )
        by_state = {state: (count, oldest_ms) for state, count, oldest_ms in found}
        waiting, oldest_ms = by_state.get(WAITING, (0, None))
        now_ms = time.time_ns() // 1_000_000
        return OutboxCounts(
            waiting=waiting,
            failed=by_state.get(FAILED, (0, None))[0],
            sent=by_state.get(SENT, (0, None))[0],
            oldest_waiting_ms=0 if oldest_ms is None else max(0, now_ms - oldest_ms),
        )

    def rows(self, connection: Connection, *, state: str = FAILED, limit: int = 100) -> list[OutboxRow]:
        """The first rows of a state, by their ids."""
        columns = [self.table.c[name] for name in OutboxRow.__slots__]
        chosen = select(*columns).where(self.table.c.state == state).order_by(self.table.c.id).limit(limit)
        return [OutboxRow(**row._mapping) for row in connection.execute(chosen)]

    def retry(self, connection: Connection, ids: Iterable[int] | None = None) -> int:
        """Have failed rows sent again, with what their units hold behind them. Returns how many.

        Args:
            connection: commits it.
            ids: of which; None: of all that failed.
        """
        changed = update(self.table).where(self.table.c.state == FAILED)
        if ids is not None:
            changed = changed.where(self.table.c.id.in_(list(ids)))
        return connection.execute(changed.values(state=WAITING, reason=None, ended_at_ms=None)).rowcount

    def drop(self, connection: Connection, ids: Iterable[int] | None = None) -> int:
        """Give up failed rows, which are then in no table and in no queue; their units go on. Returns how many.

        Args:
            connection: commits it.
            ids: of which; None: of all that failed.
        """
        chosen = delete(self.table).where(self.table.c.state == FAILED)
        if ids is not None:
            chosen = chosen.where(self.table.c.id.in_(list(ids)))
        return connection.execute(chosen).rowcount

    def clean_up(self, connection: Connection, older_than_ms: int) -> int:
        """Delete rows that were sent so long ago, 10,000 at most. Returns how many. A relay does it by itself."""
        before_ms = time.time_ns() // 1_000_000 - checked_duration_ms("older_than_ms", older_than_ms)
        columns = self.table.c
        old = select(columns.id).where(
            columns.state == SENT, columns.ended_at_ms <= before_ms, columns.branch.is_(None)
        )
        return connection.execute(delete(self.table).where(columns.id.in_(old.limit(CLEANED_AT_ONCE)))).rowcount

    def __repr__(self) -> str:
        return f"<Outbox {self.full_name}>"


_NOT_INSERTED = ("id", "ended_at_ms", "reason", "branch")


def _target(destination: object) -> Destination:
    if isinstance(destination, str):
        return parse_destination(destination) if ":" in destination else Queue(destination)
    target = as_destination(destination)
    if target.is_temporary:
        raise InvalidDestinationError(f"destination is {target}: it may be gone before a relay sends; reply directly")
    return target


def _lock_of(table: str, place: bytes) -> int:
    """A number of 64 bits: two units that share one wait for each other, and no more."""
    digest = hashlib.blake2b(table.encode() + b"\0" + place, digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
