"""How a session acknowledges."""

from __future__ import annotations

from enum import Enum


class AcknowledgeMode(Enum):
    """What ends a message for a session."""

    AUTO = "auto"
    """The next receive, or a listener that returned (ACK-1)."""
    CLIENT = "client"
    """`message.acknowledge()`: everything received up to it (ACK-2)."""
    TRANSACTED = "transacted"
    """`session.commit()`: receives and sends as one unit of work (ACK-7)."""
    INDIVIDUAL = "individual"
    """`message.acknowledge()`: this message alone, in any order (ACK-6)."""

    AUTO_ACKNOWLEDGE = AUTO
    CLIENT_ACKNOWLEDGE = CLIENT
    SESSION_TRANSACTED = TRANSACTED
    INDIVIDUAL_ACKNOWLEDGE = INDIVIDUAL
