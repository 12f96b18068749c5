"""A database beside queues: messages that commit with its changes, and work that is done once for each message.

    Outbox          a table of messages; what is added to it commits with the caller's transaction
    Relay           sends them, in any number of processes
    Inbox           tells whether a message was worked on before, in the caller's transaction
    XaTransaction   one transaction over a session and a psycopg connection
    OutboxCollector what waits, for Prometheus (needs jbm-kafka[metrics] too)

All but XaTransaction need SQLAlchemy: `jbm-kafka[outbox]`. docs/outbox-and-inbox.md, docs/xa.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jbm_kafka.outbox.inbox_table import Inbox
    from jbm_kafka.outbox.outbox_collector import OutboxCollector
    from jbm_kafka.outbox.outbox_rows import OutboxCounts, OutboxRow
    from jbm_kafka.outbox.outbox_table import Outbox
    from jbm_kafka.outbox.relay import Relay
    from jbm_kafka.outbox.xa_transaction import XaTransaction

__all__ = ["Inbox", "Outbox", "OutboxCollector", "OutboxCounts", "OutboxRow", "Relay", "XaTransaction"]

_HOME = {
    "Inbox": "inbox_table",
    "Outbox": "outbox_table",
    "OutboxCollector": "outbox_collector",
    "OutboxCounts": "outbox_rows",
    "OutboxRow": "outbox_rows",
    "Relay": "relay",
    "XaTransaction": "xa_transaction",
}

if not TYPE_CHECKING:  # a type checker would take it for "any name will do"

    def __getattr__(name: str) -> object:
        """The public name, from its module: XaTransaction works without SQLAlchemy.

        Raises:
            ImportError: what it needs is not installed; the text says what to install.
        """
        if name not in _HOME:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
        try:
            return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "sqlalchemy":
                raise
            raise ImportError("sqlalchemy is not installed: pip install 'jbm-kafka[outbox]'") from None
