"""[amqp.limits] of the configuration: what the AMQP server lets a user use, or an address of one that is anonymous.

In the file only those stand that are to be others than these. jbm-kafka docs amqp-limits prints this list.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one client; beyond them it loses a link or its connection, and nobody else does."""

    connections: int = 5_000
    """Beyond it a connection ends."""
    connections_per_user: int = 2_500
    """Beyond it a connection ends. A file that names `connections` alone gives each user half of it."""
    connections_per_address: int = 2_500
    """The same for anonymous clients of one address."""
    handshakes: int = 100
    """Clients that have not said who they are, or not opened; the next wait in line."""
    handshakes_per_address: int = 20
    """The same of one address."""
    sessions_per_connection: int = 256
    """Beyond it the connection ends."""
    links_per_connection: int = 1_024
    """Beyond it a link is refused; at twice as many the connection ends."""
    frame_bytes: int = 256 * 1024
    """A larger frame ends the connection."""
    message_bytes: int = 64 * 2**20
    """A larger message ends its link."""
    unread_bytes: int = 4 * 2**20
    """Nothing more is sent to a connection that has not read so much."""
    unsettled_messages: int = 10_000
    """Nothing more is sent to a link that has so many messages and says nothing of them."""
    unconfirmed_bytes: int = 64 * 2**20
    """Nothing is read from a connection that has sent so much until Kafka has it."""
    unfinished_bytes: int = 256 * 2**20
    """Messages of all clients whose rest has not come; beyond it the largest link of whoever has most ends."""
    unfinished_bytes_per_user: int = 64 * 2**20
    """The same of one user; the link that sends more ends."""
    browsers: int = 32
    """Browsers that have not come to their end; one more is refused. Each has a Kafka client."""
    browsers_per_user: int = 8
    """The same of one user."""
    topics_made_per_hour: int = 60
    """Queues and topics that are made for a user, who was the first to send there or to receive from there."""
    transactions_per_connection: int = 256
    """Beyond it a new one is refused."""
    idle_timeout_s: float = 60.0
    """A connection that is silent, or does not read, for so long ends."""
    open_timeout_s: float = 10.0
    """TLS, proof and `open` may take so long."""


USUAL_LIMITS = Limits()
