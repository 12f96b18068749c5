"""Every error that jbm-kafka raises, sorted by the side that must act.

`JMSError` and its kin are for the caller: nothing has changed, the message says which values were involved and what to
do. `ChannelLost` and its kin stay inside: the sidecar closes the channel and recovers it. Anything else that
escapes is a bug.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Self, TypeVar, overload

T = TypeVar("T")


class ErrorValue(Generic[T]):
    """An attribute of an error class that reads one of the error's `values`; None where the error lacks it."""

    def __init__(self, doc: str) -> None:
        self.__doc__ = doc

    def __set_name__(self, owner: type[JMSError], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, error: None, owner: type[JMSError]) -> Self: ...
    @overload
    def __get__(self, error: JMSError, owner: type[JMSError]) -> T | None: ...
    def __get__(self, error: JMSError | None, owner: type[JMSError]) -> object:
        return self if error is None else vars(error).get("values", {}).get(self._name)


class JMSError(Exception):
    """The caller must act; nothing has changed. Base of every public error.

    The values in the message are attributes too: `JMSError("queue 'a' is full", queue="a").queue == "a"`, and
    `values` has all of them. Those that are listed here are None where the message lacks them.
    """

    destination = ErrorValue[str]("The name of the queue or topic that it is about.")
    topic = ErrorValue[str]("The Kafka topic that it is about.")
    partition = ErrorValue[int]("The partition that it is about.")
    offsets = ErrorValue[tuple[int, ...]]("The offsets, in the partition, of the messages that it is about.")
    message_ids = ErrorValue[tuple[str, ...]]("The ids of these messages; empty when they could not be read.")

    values: dict[str, object]
    """The values involved, by name."""

    def __init__(self, message: str, **values: object) -> None:
        super().__init__(message)
        self.values = values

    if not TYPE_CHECKING:  # a type checker would take it for "any name will do"; what classes have is declared there

        def __getattr__(self, name: str) -> object:
            # Only reached for what is no ordinary attribute. Unpickling asks before `values` is there.
            values: dict[str, object] = self.__dict__.get("values", {})
            if name in values:
                return values[name]
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)


class IllegalStateError(JMSError):
    """The call does not fit the state of its object: closed, in another thread's use, of the wrong mode."""

    by = ErrorValue[str]("Of a send that is paused: the name of the operator that paused it.")
    since_ms = ErrorValue[int]("Of a send that is paused: since when, in milliseconds since 1970.")
    receivers = ErrorValue[int]("Of a deletion that is refused: how many processes receive from the queue or topic.")


class InvalidDestinationError(JMSError):
    """The destination's name is not legal, or the destination is missing or unfit."""

    value = ErrorValue[object]("What was given and is not a destination, nor a name of one.")


class InvalidSelectorError(JMSError, ValueError):
    """The selector is wrong: `position` is the column, from 1, `found` what stands there, `expected` what could."""

    selector = ErrorValue[object]("What was given.")
    position = ErrorValue[int]("The column, from 1; None: what was given is not a text.")
    found = ErrorValue[str]("What stands there.")
    expected = ErrorValue[str]("What could.")


class InvalidClientIDError(JMSError, ValueError):
    """The client id is not legal, or another connection has it."""

    client_id = ErrorValue[object]("What was given.")


class InvalidSettingError(JMSError, ValueError):
    """A setting or an argument has a name, a type, a unit or a value it cannot have."""

    setting = ErrorValue[str]("The name of the setting or argument; of what stands in `kafka=`, `names` has it.")
    value = ErrorValue[object]("What was given for it; None also where it may be a secret.")
    names = ErrorValue[list[str]]("The names of properties of librdkafka, where they are wrong.")


class InvalidTypeError(InvalidSettingError, TypeError):
    """A setting or an argument is of a type that it cannot have."""


class MessageFormatError(JMSError, ValueError):
    """A body, property or property name cannot be carried, or not read as what was asked for."""

    header = ErrorValue[str]("The name of the header that it is about.")
    property = ErrorValue[str]("The name of the property, or of a map's entry, that it is about.")
    codec = ErrorValue[str]("The name of the codec of object messages that it is about.")
    value = ErrorValue[object]("What cannot be carried or read.")


class MessageNotReadableError(JMSError):
    """The body is being written; `reset()` it before reading."""


class MessageNotWriteableError(JMSError):
    """The message was received; clear its body or its properties before writing them."""

    message_id = ErrorValue[str]("The id of the message.")
    property = ErrorValue[str]("The name of the property that it is about.")


class MessageEOFError(JMSError):
    """The stream or bytes body has no more to read."""


class MessageTooLargeError(JMSError):
    """The message does not fit its destination's `max.message.bytes`."""

    size_bytes = ErrorValue[int]("How large the message is, with its properties.")
    max_message_bytes = ErrorValue[int]("How large it may be.")


class LargeBodyError(JMSError):
    """A body that is kept outside Kafka cannot be kept, is not there, or is not the one that was sent."""

    body_name = ErrorValue[str]("The body's name in its store.")
    message_id = ErrorValue[str]("The id of the message whose body it is, where it is known.")
    is_gone = ErrorValue[bool]("True: the store answered, and has no such body, or another one.")


class ResourceAllocationError(JMSError):
    """A budget, limit or timeout is used up; waiting or a larger setting helps."""

    prefetch = ErrorValue[int]("The consumer's prefetch, where that is used up.")
    path = ErrorValue[str]("The folder that it is about.")


class JMSSecurityError(JMSError):
    """Authentication or authorisation was refused."""


class ConnectionFailedError(JMSError, ConnectionError):
    """Nobody answers at Kafka's address, or nobody answers any more: an outage, or a wrong address."""

    bootstrap = ErrorValue[str]("The address of Kafka, as it was given.")


class TransactionInProgressError(JMSError):
    """The call is not allowed while the session's transaction runs."""


class TransactionRolledBackError(JMSError):
    """The transaction was rolled back: its receives come again, its sends are not in any log."""


class TransactionInDoubtError(JMSError):
    """Raised where nobody knows yet if the transaction was committed."""


class OrderError(JMSError):
    """The unit's partition cannot be written, and to go elsewhere would break the unit's order."""

    unit = ErrorValue[str]("The unit of order.")
    value = ErrorValue[object]("What was given as a unit of order and cannot be one.")


class OrderRolledBackError(OrderError, TransactionRolledBackError):
    """The transaction was rolled back, since the partition of a unit that it sends to cannot be written."""


class SendTimeoutError(JMSError):
    """The brokers did not confirm the send in time. It may be in the queue or not: send it again with the same
    `duplicate_id`, and the queue delivers it once."""


class RequestTimeoutError(JMSError, TimeoutError):
    """No reply came to a request in time. It was sent; whether it was received, the text says where that is known."""

    timeout = ErrorValue[float]("How long it waited, in seconds.")
    message_id = ErrorValue[str]("The id of the request.")
    correlation_id = ErrorValue[str]("The correlation id of the request.")
    reply_to = ErrorValue[str]("The name of the queue that it waited at.")


class TaskFailedError(JMSError):
    """A task that was asked has failed, and is not tried again. The text is that of its error, where it ran."""

    message_id = ErrorValue[str]("The id of the request.")


class UnknownMessageError(JMSError):
    """The channel does not hold the message."""

    message_id = ErrorValue[object]("The message's id.")


class RoutableNotAcceptedError(JMSError):
    """A receiver refuses what it was handed; the message is as if it had never been offered."""

    message_id = ErrorValue[object]("The message's id.")


def may_pass(error: Exception) -> bool:
    """Trying again may help: it is neither about rights, nor about what was said, nor an error of ours."""
    stays = (JMSSecurityError, InvalidSettingError, InvalidSelectorError, InvalidClientIDError)
    return isinstance(error, JMSError) and not isinstance(error, stays)


class ChannelLost(Exception):
    """The channel can no longer be trusted. The sidecar closes it and recovers it from its changelog."""


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

    A reader that finds it leaves it where it is.
    """


for _public in [each for each in globals().values() if isinstance(each, type) and issubclass(each, JMSError)]:
    # What a traceback and a pickle call it: where applications import it from, and not where it is written.
    _public.__module__ = "jbm_kafka.errors"
