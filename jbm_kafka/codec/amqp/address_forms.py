"""The forms in which clients write addresses of AMQP."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jbm_kafka.core.destination import Destination, DestinationKind, parse_destination
from jbm_kafka.core.temporary_name import parse_temporary_name

_PREFIXES: Final[Mapping[str, DestinationKind]] = MappingProxyType({"queue": "queue", "topic": "topic"})


def parse_address(address: str, kind: DestinationKind | None) -> Destination:
    """The destination of an address: a name, `queue://orders`, or `queue:orders` and so for topics.

    `kind`: what the message or the link says it is. Where nobody says, the name of a temporary one is a temporary
    queue, and any other a queue.

    Raises:
        InvalidDestinationError: no destination of ours has this name.
    """
    prefix, colon, name = address.partition(":")
    if colon and prefix in _PREFIXES:
        return parse_destination(f"{kind or _PREFIXES[prefix]}:{name.removeprefix('//')}")
    if kind is None:
        kind = "temporary-queue" if parse_temporary_name(address) is not None else "queue"
    return parse_destination(f"{kind}:{address}")
