"""Browsing a queue: looking at its messages while consuming none (UNIT-13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.jms.base.one_process import refuse_pickle
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.jms.messages.messages_wire import from_record
from jbm_kafka.jms.shared.session_core import SessionCore
from jbm_kafka.ports.provider import Seen

Include = Literal["deliverable", "all"]
"""Which messages are shown."""
INCLUDES = get_args(Include)


def check_include(include: object) -> None:
    """Raises InvalidSettingError when it does not say what is to be shown."""
    if not isinstance(include, str):
        raise wrong_type("include", include, "it is 'deliverable' or 'all'")
    if include not in INCLUDES:
        raise wrong_value("include", include, "it is 'deliverable' or 'all'")


def browsed(
    seen: Seen, destination: Destination, codecs: SchemaCodecs | None = None, bodies: LargeBodies | None = None
) -> Message:
    """Return the message as a browser shows it: read-only, with its state.

    A large body is fetched when it is asked for.
    """
    message = from_record(
        seen.record,  # type: ignore[arg-type]
        destination=destination,
        delivery_count=seen.attempts,
        redelivered=seen.attempts > 0,
        settler=None,
        codecs=codecs,
        bodies=bodies,
        is_browsed=True,
    )
    message.state, message.last_error = seen.state, seen.last_error
    return message


class QueueBrowser(ClosedAtEnd):
    """Shows what a queue holds, and takes nothing. Made by `session.create_browser`.

    Iterate it; each iteration looks anew.

    What it is: queue, selector, include, as they were given; is_closed.
    End: close; as a context manager it closes itself.
    """

    __reduce__ = refuse_pickle

    def __init__(self, session: SessionCore, queue: Queue, *, selector: str | None, include: Include) -> None:
        check_include(include)
        self._session = session
        self._queue = queue
        self._include = include
        self._selector = parse_selector(selector)
        self._is_closed = False

    @property
    def queue(self) -> Queue:
        """Return what it looks into."""
        return self._queue

    @property
    def include(self) -> Include:
        """Return which messages it shows, beside those of the selector: `deliverable` or `all`."""
        return self._include

    @property
    def is_closed(self) -> bool:
        """Return True if it was closed, or its session was."""
        return self._is_closed or self._session.is_closed

    @property
    def selector(self) -> str | None:
        """Return the selector as it was given; None: it shows every message."""
        return None if self._selector is None else self._selector.text

    def __iter__(self) -> Iterator[Message]:
        self._session.check_open()
        if self._is_closed:
            raise IllegalStateError(f"the browser of {self.queue} is closed; make a new one")
        connection = self._session.connection
        connection.check_process()
        for seen in connection.provider.browse(self.queue, include=self.include, selector=self._selector):
            yield browsed(seen, self.queue, connection.defaults.codecs, connection.defaults.large_bodies)

    def close(self) -> None:
        """No further iteration."""
        self._is_closed = True

    def __repr__(self) -> str:
        chosen = "" if self.selector is None else f" selector={self.selector!r}"
        return f"<QueueBrowser {self.queue} include={self.include!r}{chosen} {'closed' if self.is_closed else 'open'}>"
