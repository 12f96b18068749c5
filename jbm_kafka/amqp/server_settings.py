"""How the server listens, whom it lets in, and what one client may use."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from jbm_kafka.core.destination import Destination

Action = Literal["send", "receive", "browse", "create"]
"""What a user does with a destination; "create": have a temporary one made."""


class Sasl(Protocol):
    """One connection's authentication, before its first AMQP frame: bytes in, bytes out."""

    is_done: bool
    """The outcome was told."""
    user: str | None
    """Who it is; None: nobody that may come in."""
    rest: bytes
    """What came behind."""

    def receive(self, data: bytes) -> bytes:
        """The bytes to send now. Raises ValueError when these are no SASL frames."""


class Access(Protocol):
    """Who may come in, and do what."""

    def sasl(self, *, is_encrypted: bool, certificate_user: str | None) -> Sasl: ...

    def authorise(self, user: str, action: Action, destination: Destination) -> None:
        """Raises JMSSecurityError when the user may not."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may use; beyond it loses a link or its connection, and nobody else does."""

    connections: int = 5_000
    sessions_per_connection: int = 256
    links_per_connection: int = 1_024
    frame_bytes: int = 256 * 1024
    message_bytes: int = 64 * 2**20
    unsettled_bytes: int = 16 * 2**20
    """Of a session: what is on its way to the client and not read."""
    unsettled_messages: int = 10_000
    """Of a link: what the client has and has said nothing of."""
    unconfirmed_bytes: int = 64 * 2**20
    """Of a connection: what came and is not in Kafka; beyond it nothing more is read."""
    transactions_per_connection: int = 256
    idle_timeout_s: float = 60.0
    open_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Listener:
    """One address; port 0 is any free one."""

    host: str = "127.0.0.1"
    port: int = 5672
    tls: ssl.SSLContext | None = None


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All of it. Without `access` everybody may come in, as "anonymous"."""

    listeners: Sequence[Listener] = (Listener(),)
    access: Access | None = None
    limits: Limits = Limits()
    drain_s: float = 20.0
    """How long a stop waits for what clients have in hand."""
    admin_port: int | None = None
    """On 127.0.0.1, where destinations are made and purged, and health is told; 0: any free one; None: nowhere."""
    counts_released: bool = False
    """What is `released`, as by a listener that raises, counts as an attempt."""
