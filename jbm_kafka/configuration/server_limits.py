"""Limits of what the AMQP server lets one client use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one client; beyond them it loses a link or its connection, and nobody else does."""

    connections: int = 5_000
    connections_per_user: int = 2_500
    connections_per_address: int = 2_500
    """The limit for clients that are anonymous."""
    handshakes: int = 100
    """The limit of clients that have not said who they are, or not opened; more wait in line."""
    handshakes_per_address: int = 20
    sessions_per_connection: int = 256
    links_per_connection: int = 1_024
    frame_bytes: int = 256 * 1024
    message_bytes: int = 64 * 2**20
    unread_bytes: int = 4 * 2**20
    """The bytes that are on their way to the client on a connection and not read."""
    unsettled_messages: int = 10_000
    """The messages of a link that the client has and has said nothing of."""
    unconfirmed_bytes: int = 64 * 2**20
    """The bytes of a connection that came and are not in Kafka; beyond it nothing more is read."""
    unfinished_bytes: int = 256 * 2**20
    """The bytes of all clients' parts of messages whose rest has not come."""
    unfinished_bytes_per_user: int = 64 * 2**20
    """The same for a user, or for one address of anonymous clients; as what follows is."""
    browsers: int = 32
    """The browsers of all clients that have not shown all; each has a Kafka client."""
    browsers_per_user: int = 8
    topics_made_per_hour: int = 60
    """The topics that clients have made by sending to them or receiving from them first."""
    transactions_per_connection: int = 256
    idle_timeout_s: float = 60.0
    open_timeout_s: float = 10.0


USUAL_LIMITS = Limits()
