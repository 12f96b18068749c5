"""How a session acknowledges."""

from __future__ import annotations

from enum import Enum

from jbm_kafka.core.jms_errors import IllegalStateError


class AcknowledgeMode(Enum):
    """The way a session ends with a message. Given to `create_session` and `create_context`.

    AUTO: the next receive, or a listener that returned.
    CLIENT: `message.acknowledge()`, everything received up to it; or `session.acknowledge()`, all.
    INDIVIDUAL: `message.acknowledge()`, this message alone, in any order; `message.nack()` refuses it.
    TRANSACTED: `session.commit()`, receives and sends as one unit of work; `session.rollback()` undoes it.
    DUPS_OK: as AUTO, but many at once, after a number of messages or milliseconds: a crash repeats them.
    PRE: its arrival in the consumer's buffer: a failure may lose it, and seldom repeats it.
    NO: that the application gets it; nothing is acknowledged.

    Other names of the same, as in JMS: AUTO_ACKNOWLEDGE, CLIENT_ACKNOWLEDGE, SESSION_TRANSACTED,
    INDIVIDUAL_ACKNOWLEDGE, DUPS_OK_ACKNOWLEDGE, PRE_ACKNOWLEDGE, NO_ACKNOWLEDGE.
    """

    AUTO = "auto"
    """The next receive, or a listener that returned (ACK-1)."""
    CLIENT = "client"
    """`message.acknowledge()`: everything received up to it (ACK-2)."""
    TRANSACTED = "transacted"
    """`session.commit()`: receives and sends as one unit of work (ACK-7)."""
    INDIVIDUAL = "individual"
    """`message.acknowledge()`: this message alone, in any order (ACK-6)."""
    DUPS_OK = "dups-ok"
    """As AUTO, but many at once, after a number of messages or milliseconds: a crash repeats them (ACK-3)."""
    PRE = "pre"
    """Its arrival in the consumer's buffer: a failure may lose it, and seldom repeats it (ACK-4)."""
    NO = "no"
    """That the application gets it; nothing is acknowledged (ACK-5)."""

    AUTO_ACKNOWLEDGE = AUTO
    CLIENT_ACKNOWLEDGE = CLIENT
    SESSION_TRANSACTED = TRANSACTED
    INDIVIDUAL_ACKNOWLEDGE = INDIVIDUAL
    DUPS_OK_ACKNOWLEDGE = DUPS_OK
    PRE_ACKNOWLEDGE = PRE
    NO_ACKNOWLEDGE = NO


def not_of_mode(call: str, mode: AcknowledgeMode, wanted: AcknowledgeMode, *, of: str = "") -> IllegalStateError:
    """Return the error for a call that a session of this mode does not have.

    `of`: the modes that have it, if `wanted` is but one of them.
    """
    made_with = f"create_session({wanted}), or a context with create_context({wanted})"
    return IllegalStateError(
        f"{call}() is for {of or wanted.name} sessions, this one is {mode.name}; make one with {made_with}",
        call=call,
        acknowledge_mode=mode,
        wanted=wanted,
    )
