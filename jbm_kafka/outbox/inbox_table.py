"""The inbox: which messages were worked on, in the transactions of the work (OUTBOX-4)."""

from __future__ import annotations

import time

from sqlalchemy import BigInteger, Column, Connection, Engine, Index, MetaData, Table, Text, delete, select, tuple_

from jbm_kafka.codec.one_header import header_text
from jbm_kafka.core.durations import checked_duration_ms
from jbm_kafka.core.wrong_values import wrong_type
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.outbox.caller_connection import caller_connection, naming_the_table
from jbm_kafka.outbox.table_name import checked_table_name

CLEANED_AT_ONCE = 10_000
_DUPLICATE_ID = "JBMDuplicateID"


class Inbox:
    """A table of the messages that were worked on. Thread-safe; it holds settings only.

    Ask: once, in the caller's transaction.
    Make the table: create_all; or for Alembic `metadata`, with `table`. Look after it: clean_up.
    """

    def __init__(self, name: str = "jbm_inbox", *, schema: str | None = None, metadata: MetaData | None = None) -> None:
        """The inbox in the table of that name; arguments as of `Outbox`.

        Raises:
            InvalidSettingError: an argument that cannot be.
        """
        checked_table_name("name", name)
        if schema is not None:
            checked_table_name("schema", schema)
        self.metadata = MetaData() if metadata is None else metadata
        self.table = Table(
            name,
            self.metadata,
            Column("scope", Text, primary_key=True),
            Column("message_id", Text, primary_key=True),
            Column("seen_at_ms", BigInteger, nullable=False),
            schema=schema,
        )
        Index(f"{name}_seen", self.table.c.seen_at_ms)
        quoted = f'"{name}"' if schema is None else f'"{schema}"."{name}"'
        self._insert = (
            f"INSERT INTO {quoted} (scope, message_id, seen_at_ms) VALUES (:scope, :message_id, :seen_at_ms) "
            f"ON CONFLICT (scope, message_id) DO NOTHING"
        )

    def create_all(self, engine_or_connection: Engine | Connection) -> None:
        """Make the table and its index, unless they are there."""
        self.metadata.create_all(engine_or_connection, tables=[self.table])

    def once(self, connection: object, message: Message, *, scope: str | None = None) -> bool:
        """True for the first time with this message, if the connection's transaction commits; later False.

        The message is known by its duplicate id, if it was sent with one, or else by its message id. While another
        transaction has asked about it this waits for its end (PostgreSQL), and is True if that rolls back.

        Args:
            connection: a Connection or Session of SQLAlchemy, or a connection of psycopg or sqlite3.
            message: a received one.
            scope: whose work it is; None: the destination's. Two subscriptions of a topic need one each.

        Raises:
            IllegalStateError: the connection commits each statement by itself.
            InvalidTypeError: an argument of another type.
        """
        if not isinstance(message, Message) or message.kafka is None:
            raise wrong_type("message", message, "it is a message that was received")
        if scope is not None and not isinstance(scope, str):
            raise wrong_type("scope", scope, "it is a str, or None for the message's destination")
        there = caller_connection(connection, "inbox.once()")
        repeated = header_text(list(message.kafka.headers), _DUPLICATE_ID)
        unit = message.unit_of_order or ""
        known_as = f"id {message.message_id}" if repeated is None else f"duplicate {repeated} {unit}"
        values = {
            "scope": str(message.destination) if scope is None else scope,
            "message_id": known_as,
            "seen_at_ms": time.time_ns() // 1_000_000,
        }
        with naming_the_table("inbox.once()", self.table.fullname, "create_all makes it"):
            return there.run(self._insert, values).changed == 1

    def clean_up(self, connection: Connection, older_than_ms: int) -> int:
        """Forget messages that were worked on so long ago, 10,000 at most. Returns how many.

        Args:
            connection: commits it.
            older_than_ms: longer than any of them may come again: than its retries take, and its stay among the dead
                letters.
        """
        before_ms = time.time_ns() // 1_000_000 - checked_duration_ms("older_than_ms", older_than_ms)
        columns = self.table.c
        old = select(columns.scope, columns.message_id).where(columns.seen_at_ms <= before_ms).limit(CLEANED_AT_ONCE)
        return connection.execute(delete(self.table).where(tuple_(columns.scope, columns.message_id).in_(old))).rowcount

    def __repr__(self) -> str:
        return f"<Inbox {self.table.fullname}>"
