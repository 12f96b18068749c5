"""The parts of the server as they know each other: the whole server, and one client's connection."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from proton import Condition

from jbm_kafka.amqp.access import Action
from jbm_kafka.amqp.beside import Beside
from jbm_kafka.amqp.fault_log import FaultLog
from jbm_kafka.amqp.made_lately import MadeLately
from jbm_kafka.amqp.server_settings import ServerSettings
from jbm_kafka.amqp.shares import Shares, Whose
from jbm_kafka.amqp.unfinished import Unfinished
from jbm_kafka.amqp_wire.engine_objects import EngineLink, Work
from jbm_kafka.amqp_wire.loop_mailbox import LoopMailbox
from jbm_kafka.core.destination import Destination
from jbm_kafka.ports.provider import ServingProvider

T = TypeVar("T")


class Pumped(Protocol):
    """A part that serves a link by which messages go out."""

    def pump(self) -> None:
        """Send what is there, and ask for what may come."""


class Host(Protocol):
    """The server, as a connection knows it."""

    settings: ServerSettings
    provider: ServingProvider
    mailbox: LoopMailbox
    loop: asyncio.AbstractEventLoop
    threads: ThreadPoolExecutor
    beside: Beside
    """For large messages."""
    made: MadeLately
    """Topics, by clients."""
    unfinished: Unfinished[Any]
    """The parts of messages whose rest has not come."""
    container: str
    wires: dict[Any, None]
    """In the order in which they came."""
    refused: int
    """How many clients were turned away."""
    sent: Counter[str]
    """The number of messages that clients sent, by Kafka topic."""
    links_by_name: dict[Any, Any]
    """The owners of links, by user, container id, direction and name."""
    faults: FaultLog
    """Where it is told what clients do wrong."""
    browsers: Shares
    """The browsers that have not shown all."""
    neighbours: Any
    """The other sidecars; None: nothing is forwarded."""
    is_draining: bool
    """It stops: no message goes out any more."""

    def run(self, work: Work) -> None:
        """Have something done that no connection waits for."""


class Client(Protocol):
    """A connection, as what serves its links knows it."""

    settings: ServerSettings
    provider: ServingProvider
    mailbox: LoopMailbox
    server: Host
    connection_id: str
    client_id: str
    user: str
    whose: Whose
    """Who answers for it: of his share is what it uses."""
    is_over: bool
    """It is gone."""
    touch: Callable[[], None]
    """Something is to be sent to it."""
    flush: Callable[[], None]
    """Send it now: else messages go before what was said earlier of others. Not in the handling of an event."""
    transactions: Any
    """The transactions that it declared and has not discharged, by their ids."""

    @property
    def sender(self) -> str:
        """Return what messages to topics carry for `no_local`."""

    async def call(self, call: Callable[[], T]) -> T:
        """Make a call that may wait for Kafka beside the loop: one at a time of this connection, in order."""

    def spawn(self, work: Work, link: EngineLink | None = None) -> None:
        """Have it done; an error costs the link, or without one the connection."""

    def authorise(self, action: Action, destination: Destination) -> None:
        """Raises JMSSecurityError when the user may not."""

    async def may_make(self, destination: Destination) -> None:
        """Return when it is there, or the client may make it. Raises JMSError."""

    def transaction(self, data: Sequence[object] | None) -> Any:
        """The one that a transactional state names, or None."""

    def declare(self) -> Any:
        """A new transaction."""

    sends_beside: int
    """Messages that wait on the connection's lane for room; meanwhile all it sends goes there."""
    outgoing_bytes: int
    """The bytes of messages on their way; whoever sends one adds to it."""

    @property
    def takes_more(self) -> bool:
        """More may be sent: the client reads what is on its way."""

    def pump_soon(self, served: Pumped, link: EngineLink) -> None:
        """More may go out by the link once all that the client said is heard."""

    def refuse(self, link: EngineLink, error: Exception) -> None:
        """End a link with an error."""

    def end(self, condition: Condition) -> None:
        """Close the connection with an error."""

    def hold(self, size: int) -> None:
        """So many bytes more, or less, came and are not in Kafka: with too many nothing is read from the client."""
