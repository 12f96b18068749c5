"""How the server listens, whom it lets in, and what one client may use."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from jbm_kafka.amqp.access import OPEN, Access


@dataclass(frozen=True, slots=True)
class Limits:
    """What one client may use; beyond it loses a link or its connection, and nobody else does."""

    connections: int = 5_000
    connections_per_user: int = 2_500
    connections_per_address: int = 2_500
    """Of clients that are anonymous."""
    handshakes: int = 100
    """Of clients that have not said who they are, or not opened; more wait in line."""
    handshakes_per_address: int = 20
    sessions_per_connection: int = 256
    links_per_connection: int = 1_024
    frame_bytes: int = 256 * 1024
    message_bytes: int = 64 * 2**20
    unread_bytes: int = 4 * 2**20
    """Of a connection: what is on its way to the client and not read."""
    unsettled_messages: int = 10_000
    """Of a link: what the client has and has said nothing of."""
    unconfirmed_bytes: int = 64 * 2**20
    """Of a connection: what came and is not in Kafka; beyond it nothing more is read."""
    unfinished_bytes: int = 256 * 2**20
    """Of all clients: parts of messages whose rest has not come."""
    unfinished_bytes_per_user: int = 64 * 2**20
    """Of a user, or of one address of anonymous clients; this and what follows."""
    browsers: int = 32
    """That have not shown all; each has a Kafka client."""
    browsers_per_user: int = 8
    topics_made_per_hour: int = 60
    """By clients, for they sent to them or received from them first."""
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
class ForwardingSettings:
    """How the sidecars of a namespace reach each other."""

    advertised: str
    """host:port, as the others reach this one."""
    user: str
    """Whom this one is to the others; there it has the right `forward`."""
    password: str
    tls: ssl.SSLContext | None = None
    """For reaching the others; None: without TLS."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """All of it."""

    listeners: Sequence[Listener] = (Listener(),)
    access: Access = OPEN
    limits: Limits = Limits()
    drain_s: float = 20.0
    """How long a stop waits for what clients have in hand."""
    forwarding: ForwardingSettings | None = None
    """None: receivers get messages of this sidecar's partitions only."""
    admin_port: int | None = None
    """On 127.0.0.1, where destinations are made and purged, and health is told; 0: any free one; None: nowhere."""
    verify_user_id: Literal["off", "check", "set"] = "off"
    """What becomes of the user-id of a client's messages: it stays; another's is refused; it is the user's always."""
    counts_released: bool = False
    """What is `released`, as by a listener that raises, counts as an attempt."""
