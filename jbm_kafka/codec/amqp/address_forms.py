"""The forms in which clients write addresses of AMQP."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from jbm_kafka.codec.amqp.forms import KINDS
from jbm_kafka.core.destination import Destination, DestinationKind, parse_destination
from jbm_kafka.core.jms_errors import InvalidDestinationError
from jbm_kafka.core.temporary_name import parse_temporary_name
from jbm_kafka.core.wrong_values import shown

Aliases = Mapping[str, Destination]
"""Destinations of ours by what clients call them."""
NO_ALIASES: Final[Aliases] = MappingProxyType({})
_PREFIXES: Final[Mapping[str, DestinationKind]] = MappingProxyType({"queue": "queue", "topic": "topic"})


def parse_address(address: str, kind: DestinationKind | None, aliases: Aliases = NO_ALIASES) -> Destination:
    """The destination of an address: an alias, a name, `queue://orders`, or `queue:orders` and so for topics.

    `kind`: what the message or the link says it is. Where nobody says, the name of a temporary one is a temporary
    queue, and any other a queue.

    Raises:
        InvalidDestinationError: no destination of ours has this name; or it is the alias of another kind.
    """
    named = aliases.get(address)
    if named is not None:
        if kind not in (None, named.kind):
            raise InvalidDestinationError(f"{shown(address)} is an alias of {named}, and the client means a {kind}")
        return named
    prefix, colon, name = address.partition(":")
    if colon and prefix in _PREFIXES:
        return parse_destination(f"{kind or _PREFIXES[prefix]}:{name.removeprefix('//')}")
    if kind is None:
        kind = "temporary-queue" if parse_temporary_name(address) is not None else "queue"
    return parse_destination(f"{kind}:{address}")


def is_foreign(address: str) -> bool:
    """Returns True for what no destination of ours can be called, as `/queues/orders` or `a:b`.

    Not for an empty text, which a client says that names nothing.
    """
    if not address:
        return False
    try:
        parse_address(address, None)
    except InvalidDestinationError:
        return address.partition(":")[0] not in KINDS
    return False
