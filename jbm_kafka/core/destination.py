"""Queues and topics by name, and the names of what stands for them in Kafka.

A `Destination` is only ever made with a legal name. What needs a look at the cluster (a collision, a compacted topic,
a name that is both queue and topic) is for the caller; `colliding_name` does the comparing.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError, InvalidTypeError
from jbm_kafka.core.plain_text import plain_text
from jbm_kafka.core.wrong_values import shown

NAME_LENGTH_MAX = 200
"""Kafka ends at 249; the rest is room for a namespace and the changelog's suffix."""
NAMESPACE_LENGTH_MAX = 30
CHANGELOG_SUFFIX = ".jbm-changelog"
RESERVED_PREFIX = "jbm."
KAFKA_PREFIX = "__"

DestinationKind = Literal["queue", "topic", "temporary-queue", "temporary-topic"]

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
_NOT_ALPHANUMERIC = re.compile(rb"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class Destination:
    """A queue or a topic; use `Queue` or `Topic`. Equal when kind and name are equal.

    Raises:
        InvalidDestinationError: the name is not legal; the message names the cause.
    """

    kind: ClassVar[DestinationKind]
    """`queue` or `topic`, or one of the temporary kinds; also the word before the colon of its text."""
    is_temporary: ClassVar[bool] = False
    """It lives with the connection that made it."""

    name: str
    """As given; also the name of the Kafka topic."""

    def __post_init__(self) -> None:
        if type(self) is Destination:
            raise InvalidTypeError(
                f"a Destination is a Queue or a Topic: use Queue({shown(self.name)}) or Topic({shown(self.name)})",
                setting="Destination",
                value=self.name,
            )
        cause = self._name_fault()
        if cause is not None:
            values = {"destination": self.name} if isinstance(self.name, str) else {}
            raise InvalidDestinationError(f"{self.kind} {shown(self.name)}: {cause}", value=self.name, **values)
        object.__setattr__(self, "name", plain_text(self.name))

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"

    def _name_fault(self) -> str | None:
        return name_fault(self.name)

    def kafka_topic(self, namespace: str = "") -> str:
        """The Kafka topic of the messages: the destination's own name, in every namespace."""
        if namespace and self.name.startswith(f"{namespace}.{RESERVED_PREFIX}"):
            raise InvalidDestinationError(
                f"{self.kind} {self.name!r}: names that start with '{namespace}.{RESERVED_PREFIX}' "
                f"are reserved by the namespace {namespace!r}; choose another name",
                destination=self.name,
                namespace=namespace,
            )
        return self.name

    def changelog_topic(self, namespace: str = "") -> str:
        """The Kafka topic that remembers what was settled, for every channel group of this destination."""
        return with_namespace(self.name + CHANGELOG_SUFFIX, namespace)


class Queue(Destination):
    """Each message goes to one consumer."""

    __slots__ = ()
    kind: ClassVar[DestinationKind] = "queue"
    """As of every `Destination`."""

    def group_id(self, namespace: str = "") -> str:
        """The Kafka consumer group whose lag is what the queue holds."""
        return with_namespace(f"jbm.queue.{percent_encode(self.name)}", namespace)


class Topic(Destination):
    """Each subscription gets its own copy of a message, and has its own consumer group."""

    __slots__ = ()
    kind: ClassVar[DestinationKind] = "topic"
    """As of every `Destination`."""


class _Temporary(Destination):
    """Lives with the connection that made it, in the Kafka topic of all temporary ones (decision 33)."""

    __slots__ = ("_delete",)
    _delete: Callable[[], None]
    """Deletes the destination that was made here; one that came with a message has none."""
    is_temporary = True

    def _name_fault(self) -> str | None:
        if not isinstance(self.name, str):
            return "only create_temporary_queue() and create_temporary_topic() make one"
        return None if self.name else "the name is empty"

    def kafka_topic(self, namespace: str = "") -> str:
        raise InvalidDestinationError(
            f"{self}: this is for queues and topics that stay, and a temporary one has no Kafka topic of its own; only "
            f"the connection that made it can look into it, with create_consumer",
            destination=self.name,
        )

    def delete(self) -> None:
        """End it: what it holds is dropped, and nobody sends there any more. Its connection's closing does so too.

        Raises:
            IllegalStateError: it has a consumer, or messages of one are unacknowledged; or it was not made here.
        """
        if not hasattr(self, "_delete"):
            raise IllegalStateError(
                f"{self}: only the connection that made it deletes it: call delete() of what create_temporary_queue() "
                f"or create_temporary_topic() returned",
                destination=self.name,
            )
        self._delete()


class TemporaryQueue(_Temporary, Queue):
    """A queue of one connection, made by `create_temporary_queue()`: any may send there, only that one receives."""

    __slots__ = ()
    kind = "temporary-queue"


class TemporaryTopic(_Temporary, Topic):
    """A topic of one connection, made by `create_temporary_topic()`: any may send there, only that one receives."""

    __slots__ = ()
    kind = "temporary-topic"


def deleted_by(destination: TemporaryQueue | TemporaryTopic, delete: Callable[[], None]) -> None:
    """Give one that was just made what its `delete` does."""
    object.__setattr__(destination, "_delete", delete)


_BY_KIND: Mapping[str, type[Destination]] = {each.kind: each for each in (Queue, Topic, TemporaryQueue, TemporaryTopic)}


def name_fault(name: str) -> str | None:
    """Why the name is not legal for a destination, with the remedy; None when it is legal."""
    if isinstance(name, Destination):
        return f"a name is a str, not {type(name).__name__}; give its name: {shown(name.name)}"
    if not isinstance(name, str):
        return f"a name is a str, not {type(name).__name__}"
    if not name:
        return "the name is empty"
    if len(name) > NAME_LENGTH_MAX:
        return f"the name has {len(name)} characters; at most {NAME_LENGTH_MAX} are allowed"
    illegal = _ILLEGAL.search(name)
    if illegal is not None:
        return f"{illegal.group()!r} at position {illegal.start() + 1} is not allowed; legal are A-Z a-z 0-9 . _ -"
    if name in (".", ".."):
        return "Kafka allows no topic of this name"
    if name.startswith(RESERVED_PREFIX):
        return f"names that start with '{RESERVED_PREFIX}' are reserved; choose another"
    if name.startswith(KAFKA_PREFIX):
        return f"names that start with '{KAFKA_PREFIX}' are Kafka's own; choose another"
    if name.endswith(CHANGELOG_SUFFIX):
        return f"names that end with '{CHANGELOG_SUFFIX}' are reserved; choose another"
    return None


def parse_destination(text: str) -> Destination:
    """Return the destination that `str(destination)` wrote, as in `queue:orders`.

    Raises:
        InvalidDestinationError: the text has another form, or its name is not legal.
    """
    kind, colon, name = text.partition(":")
    if colon and kind in _BY_KIND:
        return _BY_KIND[kind](name)
    raise InvalidDestinationError(
        f"{shown(text)} is not a destination; write 'queue:<name>' or 'topic:<name>'", value=text
    )


def colliding_name(name: str, existing: Iterable[str]) -> str | None:
    """The existing name that Kafka cannot hold beside this one: they differ only in `.` and `_`. None: no such."""
    folded = name.replace(".", "_")
    return next((other for other in existing if other != name and other.replace(".", "_") == folded), None)


def with_namespace(name: str, namespace: str) -> str:
    """The name of a thing of ours in this namespace: `<namespace>.<name>`, or the name itself in the empty one.

    Raises:
        InvalidDestinationError: the namespace is not legal.
    """
    if not namespace:
        return name
    if len(namespace) > NAMESPACE_LENGTH_MAX or _ILLEGAL.search(namespace) or namespace.startswith("."):
        raise InvalidDestinationError(
            f"namespace {shown(namespace)}: use at most {NAMESPACE_LENGTH_MAX} letters, digits, '.', '_' and '-', "
            "and no '.' in front",
            namespace=namespace,
        )
    return f"{namespace}.{name}"


def percent_encode(text: str) -> str:
    """Return the text with `%` and two hex digits for each UTF-8 byte of what is no ASCII letter or digit.

    So no part of a group id holds the `.` that separates the parts, nor the `|` of a changelog key.
    """
    return _NOT_ALPHANUMERIC.sub(lambda found: b"%%%02X" % found.group()[0], text.encode()).decode("ascii")
