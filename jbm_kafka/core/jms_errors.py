"""Every error jbm-kafka raises, sorted by who must act.

`JMSError` and its kin are for the caller: nothing has changed, the message says which values were involved and what to
do. `ChannelLost` and its kin stay inside: whoever runs the channel closes it and recovers it. Anything else that
escapes is a bug.
"""

from typing import Self


class JMSError(Exception):
    """The caller must act; nothing has changed. Base of every public error.

    The values that the message tells are attributes too: `JMSError("queue 'a' is full", queue="a").queue == "a"`.
    """

    values: dict[str, object]
    """The values involved, by name."""

    def __init__(self, message: str, **values: object) -> None:
        super().__init__(message)
        self.values = values

    def __getattr__(self, name: str) -> object:
        # Only reached for what is no ordinary attribute. Unpickling asks before `values` is there.
        values: dict[str, object] = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}; its values are {sorted(values)}")

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.__dict__.get("values", {})})


class IllegalStateError(JMSError):
    """The call does not fit the state of its object: closed, in another thread's use, of the wrong mode."""


class InvalidDestinationError(JMSError):
    """The destination's name is not legal, or the destination is missing or unfit."""


class InvalidSelectorError(JMSError, ValueError):
    """The selector is wrong: `position` is the column, from 1, `found` what stands there, `expected` what could."""

    position: int
    found: str
    expected: str


class InvalidClientIDError(JMSError, ValueError):
    """The client id is not legal, or another connection has it."""


class InvalidSettingError(JMSError, ValueError):
    """A setting or an argument has a name, a type, a unit or a value it cannot have."""


class InvalidTypeError(InvalidSettingError, TypeError):
    """A setting or an argument is of a type that it cannot have."""


class MessageFormatError(JMSError, ValueError):
    """A body, property or property name cannot be carried, or not read as what was asked for."""


class MessageNotReadableError(JMSError):
    """The body is being written; `reset()` it before reading."""


class MessageNotWriteableError(JMSError):
    """The message was received; clear its body or its properties before writing them."""


class MessageEOFError(JMSError):
    """The stream or bytes body has no more to read."""


class MessageTooLargeError(JMSError):
    """The message does not fit its destination's `max.message.bytes`."""


class ResourceAllocationError(JMSError):
    """A budget, limit or timeout is used up; waiting or a larger setting helps."""


class JMSSecurityError(JMSError):
    """Authentication or authorisation was refused."""


class TransactionInProgressError(JMSError):
    """The call is not allowed while the session's transaction runs."""


class TransactionRolledBackError(JMSError):
    """The transaction was rolled back: its receives come again, its sends are not in any log."""


class TransactionInDoubtError(JMSError):
    """Whether the transaction was committed is not known yet."""


class OrderError(JMSError):
    """The unit's partition cannot be written, and to go elsewhere would break the unit's order."""


class OrderRolledBackError(OrderError, TransactionRolledBackError):
    """The transaction was rolled back, since the partition of a unit that it sends to cannot be written."""


class SendTimeoutError(JMSError):
    """The brokers did not confirm the send in time. It may be in the queue or not: treat it as not sent."""


class RequestTimeoutError(JMSError, TimeoutError):
    """No reply came to a request in time. It was sent; whether it was received, the text says where that is known."""


class UnknownMessageError(JMSError):
    """The channel does not hold the message."""


class RoutableNotAcceptedError(JMSError):
    """A receiver refuses what it was handed; the message is as if it had never been offered."""


class ChannelLost(Exception):
    """The channel can no longer be trusted. Whoever runs it closes it and recovers it from its changelog."""


class CorruptRecordError(ChannelLost):
    """A record that we wrote cannot be read back.

    The codec knows what is wrong, its caller knows where: `raise error.at(topic, partition, offset) from None`.
    """

    def __init__(self, reason: str, *, topic: str | None = None, partition: int = -1, offset: int = -1) -> None:
        place = "" if topic is None else f"{topic}[{partition}] at offset {offset}: "
        super().__init__(place + reason)
        self.reason = reason
        self.topic = topic
        self.partition = partition
        self.offset = offset

    def at(self, topic: str, partition: int, offset: int) -> Self:
        """The same error, with the record's place in front of the reason."""
        return type(self)(self.reason, topic=topic, partition=partition, offset=offset)


class NewerRecordError(CorruptRecordError):
    """A record of a kind or schema that this version does not know: a newer one's, and it means something there.

    Whoever finds it leaves it where it is.
    """


for _public in [each for each in globals().values() if isinstance(each, type) and issubclass(each, JMSError)]:
    # What a traceback and a pickle call it: where applications import it from, and not where it is written.
    _public.__module__ = "jbm_kafka.errors"
