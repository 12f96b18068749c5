"""The errors an application may see: each names the values involved and what the caller can do.

`JMSError` is the base of them all. What never leaves the sidecar stays in `jbm_kafka.core.errors`.
"""

from jbm_kafka.core.errors import (
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
    "RequestTimeoutError",
    "ResourceAllocationError",
    "RoutableNotAcceptedError",
    "SendTimeoutError",
    "TransactionInDoubtError",
    "TransactionInProgressError",
    "TransactionRolledBackError",
    "UnknownMessageError",
]
