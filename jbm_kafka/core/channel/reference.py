"""A reference to one message of a channel: what the rules need to know of it, and where its record is.

A plain class, which compiled is a struct and cheaper than a named tuple (decision 10). Only `chosen_by`
changes; nothing in `core` looks into `record`.
"""

from __future__ import annotations

from typing import Final

DEFAULT_PRIORITY: Final = 4
"""JMS priority of a message that names none."""

GateKey = bytes | int
"""A unit's name (the record key's bytes), or the offset of a message without a unit: each such message is its own."""

SessionId = str
"""Names one receiver of a channel: its consumer's session. Unique within the process."""

DEPARTING: Final[SessionId] = "<departing>"
"""Pseudo-session that holds what the sidecar itself is moving away (dead letters, expired), until that is durable."""


EVERYONE: Final = 1
"""The bit of the receivers without a selector. They choose every message, so each has it."""


class Reference:
    """One unsettled message."""

    __slots__ = (
        "body_kind",
        "chosen_by",
        "delivery_delay_ms",
        "delivery_time_ms",
        "expiration_ms",
        "offset",
        "priority",
        "record",
        "unit",
    )

    def __init__(
        self,
        offset: int,
        unit: bytes | None,
        priority: int = DEFAULT_PRIORITY,
        expiration_ms: int = 0,
        delivery_time_ms: int = 0,
        record: object = None,
        body_kind: bytes | None = None,
        delivery_delay_ms: int = 0,
    ) -> None:
        self.offset = offset
        """Offset of the record in its partition; the message's identity within the channel."""
        self.unit = unit
        """Unit-of-order: the record's key; None when it has none."""
        self.priority = priority
        self.expiration_ms = expiration_ms
        """Wall-clock instant after which it must not be handed over; 0 never."""
        self.delivery_time_ms = delivery_time_ms
        """Wall-clock instant before which it must not be handed over; 0 at once."""
        self.delivery_delay_ms = delivery_delay_ms
        """How long that was after its sending, both by its sender's clock; 0: not known."""
        self.record = record
        """The fetched record, opaque here; None when the body lies elsewhere."""
        self.body_kind = body_kind
        """The kind of body that the record announces, opaque too: noted where its headers are looked through anyway."""
        self.chosen_by = EVERYONE
        """A bit for each selector that chooses it. It follows from the record and from what receivers must not get
        again, so comparisons leave it out; set while the reference is made, and changed by `Selected` and
        `UndeliverableHere` alone."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._values() == other._values()

    def __lt__(self, other: Reference) -> bool:
        """In the order of the log."""
        return self.offset < other.offset

    def __hash__(self) -> int:
        return hash((self.offset, self.unit))

    def __repr__(self) -> str:
        return f"Reference{self._values()}"

    def _values(self) -> tuple[object, ...]:
        return (
            self.offset,
            self.unit,
            self.priority,
            self.expiration_ms,
            self.delivery_time_ms,
            self.record,
            self.body_kind,
        )

    @property
    def gate_key(self) -> GateKey:
        """The gate this message waits at."""
        return self.offset if self.unit is None else self.unit
