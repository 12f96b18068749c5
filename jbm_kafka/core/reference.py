"""A reference to one message of a channel: what the rules need to know of it, and where its record is.

References are tuples so that a fetch of thousands costs little; nothing in `core` looks into `record`.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_PRIORITY = 4
"""JMS priority of a message that names none."""

GateKey = bytes | int
"""A unit's name (the record key's bytes), or the offset of a message without a unit: each such message is its own."""

SessionId = str
"""Names one receiver of a channel: its consumer's session. Unique within the process."""

LEAVING: SessionId = "<leaving>"
"""Pseudo-session that holds what the sidecar itself is moving away (dead letters, expired), until that is durable."""


class Reference(NamedTuple):
    """One unsettled message."""

    offset: int
    """Offset of the record in its partition; the message's identity within the channel."""
    unit: bytes | None
    """Unit-of-order: the record's key; None when it has none."""
    priority: int = DEFAULT_PRIORITY
    expiration_ms: int = 0
    """Wall-clock instant after which it must not be handed over; 0 never."""
    delivery_time_ms: int = 0
    """Wall-clock instant before which it must not be handed over; 0 at once."""
    record: object = None
    """The fetched record, opaque here; None when the body lies elsewhere."""
    body_kind: bytes | None = None
    """What the record announces its body to be, opaque too: noted by whoever looks through its headers anyway."""

    @property
    def gate_key(self) -> GateKey:
        """The gate this message waits at."""
        return self.offset if self.unit is None else self.unit
