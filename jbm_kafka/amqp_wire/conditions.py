"""Which AMQP error a client gets for which of ours; Qpid JMS and our client make the error of it that it was."""

from __future__ import annotations

from typing import Any, Final

from proton import Condition

from jbm_kafka.core import jms_errors as jms
from jbm_kafka.core.failure_text import one_line_of

TEXT_MAX: Final = 500
"""Characters of a condition's description, whatever of a client's stands in it."""
ROLLBACK: Final = "amqp:transaction:rollback"
FORCED: Final = "amqp:connection:forced"
DETACH_FORCED: Final = "amqp:link:detach-forced"
INVALID_FIELD: Final = "amqp:invalid-field"
LIMIT: Final = "amqp:resource-limit-exceeded"
STOLEN: Final = "amqp:link:stolen"
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
    return condition(name_of(error), text)


def condition(name: str, text: str, info: dict[Any, Any] | None = None) -> Condition:
    """A condition of this name; its text is one line, and not too long."""
    return Condition(name, one_line_of(text, TEXT_MAX), info)


def error_of(condition: Any, about: str, *, default: type[jms.JMSError] = jms.JMSError) -> jms.JMSError:
    """The error that a condition of the other side stands for; `default`: where it has none of ours."""
    if condition is None:
        return default(f"{about}: the other side gave no reason")
    info = condition.info if isinstance(condition.info, dict) else {}
    if any(str(value) == "container-id" for value in info.values()):
        kind: type[jms.JMSError] = jms.InvalidClientIDError
    else:
        found = next((kind for kind, name in _BY_ERROR if name == condition.name), default)
        kind = found if issubclass(found, jms.JMSError) else default
    text = condition.description or condition.name
    return kind(text if condition.name in _OURS else f"{about}: {text}")


_OURS: Final = frozenset(name for _, name in _BY_ERROR)
