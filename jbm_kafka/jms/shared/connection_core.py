"""The core that a connection and its sessions share: the provider, and whom to tell what no call can raise."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.client.connection_counts import ConnectionCounts
from jbm_kafka.client.own_temporaries import OwnTemporaries
from jbm_kafka.codec.schema_registry import SchemaCodecs
from jbm_kafka.core.destination import Destination
from jbm_kafka.core.jms_errors import IllegalStateError, SendTimeoutError
from jbm_kafka.core.sentinels import UnitMarker
from jbm_kafka.core.subscription import checked_client_id
from jbm_kafka.jms.base.close_deadline import CloseDeadline
from jbm_kafka.jms.base.exception_listener import ListenerCalls
from jbm_kafka.jms.base.hindrances import Hindrances
from jbm_kafka.jms.sends import sends_at_exit
from jbm_kafka.jms.sends.completions import Completions
from jbm_kafka.jms.sends.tracing import Tracing
from jbm_kafka.jms.shared.named_messages import with_ids
from jbm_kafka.jms.shared.requests import Requests
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.provider import Provider


@dataclass(frozen=True, slots=True)
class ConnectionDefaults:
    """The defaults that a factory gives each of its connections."""

    client_id: str | None
    prefetch: int
    block_on_acknowledge: bool
    default_unit_of_order: str | UnitMarker | None
    url: str = ""
    """For people."""
    codecs: SchemaCodecs | None = None
    """The codecs of bodies; None: the factory was given none."""
    large_bodies: LargeBodies | None = None
    """Where large bodies are kept; None: in their records, too."""
    tracing: Tracing | None = None
    """Follows messages; None: nobody does."""
    called: str = "connection"
    """The application's word for it: a connection, or a context."""


def _answered_by_nobody(to: Destination, body: object, correlation_id: str | None) -> None:
    raise NotImplementedError


class ConnectionCore:
    """One connection as its sessions, consumers and producers know it. Any thread."""

    def __init__(self, provider: Provider, defaults: ConnectionDefaults) -> None:
        self.provider = provider
        self.defaults = defaults
        self.connection_id = f"c{secrets.token_hex(6)}"
        self.client_id: str | None = None
        self.temporaries = OwnTemporaries(provider, self.connection_id)
        self.requests = Requests(provider, self.connection_id)
        self.completions = Completions()
        self.listener_calls = ListenerCalls(lambda error: with_ids(error, provider.message_ids))
        self.close_deadline = CloseDeadline(provider)
        self.counts = ConnectionCounts()
        self.hindrances = Hindrances()
        self.is_started = False
        self.is_forked = False
        """This process got the connection by a fork: it belongs to the parent."""
        self.answer: Callable[[Destination, Any, str | None], None] = _answered_by_nobody
        """Sends what a handler returned; any thread. Set by the connection, which has the sessions for it."""
        self._message_numbers = itertools.count(1)
        self._session_numbers = itertools.count(1)
        sends_at_exit.watch(self)

    @property
    def is_over(self) -> bool:
        """It was closed, or belongs to another process."""
        return self.is_forked or self.completions.is_stopping

    def closed(self) -> IllegalStateError:
        """The error of every call of the connection, or of a session of it, once it is closed."""
        return IllegalStateError(f"the {self.defaults.called} is closed; make a new one")

    @property
    def unreported(self) -> int:
        """How many sends have a callback that has not run."""
        return self.completions.outstanding

    def next_message_id(self) -> str:
        """`ID:<connection id>:<number>`."""
        return f"ID:{self.connection_id}:{next(self._message_numbers)}"

    def next_session_id(self) -> str:
        """`<connection id>/<number>`."""
        return f"{self.connection_id}/{next(self._session_numbers)}"

    def flush(self, timeout_s: float) -> None:
        """Wait for every plain send and its callback.

        Raises:
            SendTimeoutError: some are not confirmed in time.
        """
        self.completions.refuse_inside("flush()")
        if not self.provider.flush(timeout_s) or not self.completions.wait_done(timeout_s):
            raise SendTimeoutError(f"not every send was confirmed within {timeout_s:g} s; they may still be")

    def notify_exception(self, error: Exception) -> None:
        """Give an error to the exception listener, or to the log when no listener is set."""
        self.listener_calls.notify(self.listener_calls.listener, error)

    def wait_for(self, completion: Completion, timeout_s: float, *, about: str) -> None:
        """Return when it is completed: all that a session waits for of its provider, it waits for here.

        Raises:
            JMSError: what it failed with, or that no answer came in time.
        """
        self.close_deadline.wait_for(completion, timeout_s, about=about)

    def hold_client_id(self, client_id: object) -> None:
        """Be known by this name, and nobody else (CONN-2).

        Raises:
            InvalidClientIDError: another connection has it, or it cannot be one.
        """
        wanted = checked_client_id(client_id)
        self.provider.hold_client_id(wanted, self.connection_id, self.notify_exception)
        self.client_id = wanted

    @property
    def sender(self) -> str:
        """The sender that messages to topics carry for `no_local`: `<client id>/<connection id>`."""
        return f"{self.client_id or ''}/{self.connection_id}"

    def check_process(self) -> None:
        """Raises IllegalStateError in a child of the process that made the connection."""
        if self.is_forked:
            raise IllegalStateError(
                'this connection belongs to the parent process: use multiprocessing\'s "spawn" or "forkserver", or '
                "fork before the first connection"
            )
