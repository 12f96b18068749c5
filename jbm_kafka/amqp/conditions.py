"""Which AMQP error a client gets for which of ours; Qpid JMS makes the JMS exception of it that it was."""

from __future__ import annotations

from typing import Final

from proton import Condition

from jbm_kafka.core import jms_errors as jms

ROLLBACK: Final = "amqp:transaction:rollback"
FORCED: Final = "amqp:connection:forced"
DETACH_FORCED: Final = "amqp:link:detach-forced"
INVALID_FIELD: Final = "amqp:invalid-field"
LIMIT: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
TOO_LARGE: Final = "amqp:link:message-size-exceeded"
UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"

_BY_ERROR: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jms.JMSSecurityError, "amqp:unauthorized-access"),
    (jms.InvalidDestinationError, "amqp:not-found"),
    (jms.ResourceAllocationError, LIMIT),
    (jms.MessageTooLargeError, TOO_LARGE),
    (jms.TransactionRolledBackError, ROLLBACK),
    (jms.TransactionInDoubtError, "amqp:transaction:timeout"),
    (jms.InvalidSelectorError, INVALID_FIELD),
    (jms.InvalidSettingError, INVALID_FIELD),
    (jms.InvalidClientIDError, INVALID_FIELD),
    (jms.MessageFormatError, "amqp:decode-error"),
    (jms.IllegalStateError, "amqp:illegal-state"),
)


def name_of(error: Exception) -> str:
    """The symbol of its condition."""
    return next((name for kind, name in _BY_ERROR if isinstance(error, kind)), "amqp:internal-error")


def condition_of(error: Exception) -> Condition:
    """The condition that tells a client of it."""
    text = str(error) if isinstance(error, jms.JMSError) else f"an error of the sidecar, which its log has: {error!r}"
    return Condition(name_of(error), text)
