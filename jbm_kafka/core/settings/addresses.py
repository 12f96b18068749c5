"""Dead-letter and expiry addresses: text that names a queue, `DLQ`, or a topic, `topic:letters` (decision 43)."""

from __future__ import annotations

from typing import Final

from jbm_kafka.core.destination import Destination, Queue, Topic, name_fault
from jbm_kafka.core.plain_text import plain_text

_QUEUE: Final = "queue:"
_TOPIC: Final = "topic:"


def address_fault(value: object) -> str | None:
    """Why the value cannot be an address, with the remedy; None when it can. None itself is "nowhere", and can."""
    if value is None:
        return None
    if isinstance(value, Destination):
        if not value.is_temporary:
            return None
        return "a temporary destination ends with its connection, and letters are to stay; name a queue or a topic"
    if value == "":
        return "set None to remove the messages instead of keeping them"
    if not isinstance(value, str):
        return "it is the name of a queue, Topic(name), or None"
    kind, name = _parted(value)
    if name.startswith("//"):
        return f"write {kind + name.lstrip('/')!r}"
    return name_fault(name)


def as_address(value: Destination | str) -> str:
    """The one text of an address that can be one: the name of a queue, or `topic:` and the name of a topic."""
    if isinstance(value, Destination):
        return str(value) if isinstance(value, Topic) else value.name
    return plain_text(value).removeprefix(_QUEUE)


def destination_at(address: str) -> Queue | Topic:
    """Where copies for the address go.

    Raises:
        InvalidDestinationError: it is no address.
    """
    kind, name = _parted(plain_text(address))
    return Topic(name) if kind == _TOPIC else Queue(name)


def kind_remedy(address: str, *, setting: str, of: str) -> str:
    """The remedy for an address whose name is of the other kind: `letters` where there is a topic `letters`.

    `of` is the queue, topic or pattern whose setting it is.
    """
    found = destination_at(address)
    is_topic = isinstance(found, Queue)
    written = f"{setting}={as_address(Topic(found.name) if is_topic else Queue(found.name))}"
    return (
        f"{found.name!r} is a {'topic' if is_topic else 'queue'}, and a name is either; write {written} where it is "
        f"set, or: jbm-kafka settings set '{of}' {written}"
    )


def _parted(address: str) -> tuple[str, str]:
    for kind in (_QUEUE, _TOPIC):
        if address.startswith(kind):
            return kind, address.removeprefix(kind)
    return "", address
