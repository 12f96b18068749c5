"""How the server listens, whom it lets in, and what one client may use."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from jbm_kafka.amqp.access import OPEN, Access
from jbm_kafka.client.bodies.large_bodies import LargeBodies
from jbm_kafka.codec.amqp.address_forms import Aliases
from jbm_kafka.configuration.server_limits import USUAL_LIMITS, Limits


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
    limits: Limits = USUAL_LIMITS
    drain_s: float = 20.0
    """How long a stop waits for what clients have in hand."""
    forwarding: ForwardingSettings | None = None
    """None: receivers get messages of this sidecar's partitions only."""
    admin_port: int | None = None
    """On 127.0.0.1, where destinations are made and purged, and health is told; 0: any free one; None: nowhere."""
    verify_user_id: Literal["off", "check", "set"] = "off"
    """The rule for the user-id of a client's messages: it stays; another's is refused; it is the user's always."""
    large_bodies: LargeBodies | None = None
    """Where bodies go that are too large for Kafka; None: nowhere, and such a message is refused."""
    counts_released: bool = False
    """An outcome `released`, as by a listener that raises, counts as an attempt."""
    aliases: Aliases = field(default_factory=dict)
    """What clients call destinations whose names cannot be that."""
