"""The errors an application may see: each names the values involved and what the caller can do.

`JMSError` is the base of them all. What never leaves the sidecar stays in `jbm_kafka.core.jms_errors`.
"""

import sys
from typing import TYPE_CHECKING

from jbm_kafka.core.jms_errors import (
    ConnectionFailedError,
    IllegalStateError,
    InvalidClientIDError,
    InvalidDestinationError,
    InvalidSelectorError,
    InvalidSettingError,
    InvalidTypeError,
    JMSError,
    JMSSecurityError,
    MessageEOFError,
    MessageFormatError,
    MessageNotReadableError,
    MessageNotWriteableError,
    MessageTooLargeError,
    OrderError,
    OrderRolledBackError,
    RequestTimeoutError,
    ResourceAllocationError,
    RoutableNotAcceptedError,
    SendTimeoutError,
    TransactionInDoubtError,
    TransactionInProgressError,
    TransactionRolledBackError,
    UnknownMessageError,
)

__all__ = [
    "ConnectionFailedError",
    "IllegalStateError",
    "InvalidClientIDError",
    "InvalidDestinationError",
    "InvalidSelectorError",
    "InvalidSettingError",
    "InvalidTypeError",
    "JMSError",
    "JMSSecurityError",
    "MessageEOFError",
    "MessageFormatError",
    "MessageNotReadableError",
    "MessageNotWriteableError",
    "MessageTooLargeError",
    "OrderError",
    "OrderRolledBackError",
    "RequestTimeoutError",
    "ResourceAllocationError",
    "RoutableNotAcceptedError",
    "SendTimeoutError",
    "TransactionInDoubtError",
    "TransactionInProgressError",
    "TransactionRolledBackError",
    "UnknownMessageError",
]

if not TYPE_CHECKING:  # a type checker would take it for "any name will do"

    def __getattr__(name: str) -> object:
        """Refuses a name that is not there, and tells which is meant: JMS calls them exceptions."""
        from difflib import get_close_matches

        from jbm_kafka.core.missing_name import missing_name

        likely = get_close_matches(name.replace("Exception", "Error"), __all__, n=1)
        text = f"; {likely[0]!r} is meant, probably" if likely else ""
        raise missing_name("jbm_kafka.errors", name, text, sys._getframe(1))

    def __dir__() -> list[str]:
        """The errors, without what this module is made with."""
        return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
