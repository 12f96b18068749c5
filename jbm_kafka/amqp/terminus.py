"""The meaning of a client's source or target: a destination, a selector, a subscription."""

from __future__ import annotations

import re
import secrets
from typing import Any, Final

from proton import Data, Described, Terminus

from jbm_kafka.core.destination import DestinationKind, Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidDestinationError
from jbm_kafka.core.selectors.selector import Selector, parse_selector
from jbm_kafka.core.subscription import Subscription, SubscriptionKind

SELECTOR: Final = (0x0000468C00000004, "apache.org:selector-filter:string")
NO_LOCAL: Final = (0x0000468C00000003, "apache.org:no-local-filter:list")
_ENDS: Final = {
    (lasting, is_global): re.compile(rf"\|(?:{theirs}|\d+|(?:global)?-jbm-[0-9a-f]{{16}})\Z")
    for lasting, is_global, theirs in (
        (True, False, r"\d+"),
        (True, True, r"global\d*"),
        (False, False, r"volatile\d+"),
        (False, True, r"global-volatile\d+"),
    )
}
"""What Qpid JMS, another sidecar and our client write behind the name of a shared subscription, so that each of its
links has a name of its own; by `lasting` and `is_global`."""
_KINDS: Final[tuple[DestinationKind, ...]] = ("queue", "topic", "temporary-queue", "temporary-topic")


def capabilities(terminus: Terminus) -> frozenset[str]:
    """The symbols that it has as capabilities."""
    return symbols(terminus.capabilities)


def symbols(data: Data) -> frozenset[str]:
    """One symbol, or an array of them."""
    held = _value(data)
    elements = getattr(held, "elements", held)
    if elements is None:
        return frozenset()
    return frozenset(str(each) for each in (elements if isinstance(elements, list | tuple) else [elements]))


def kind_of(named: frozenset[str]) -> DestinationKind | None:
    """Return what the capabilities say a destination is; None: nothing."""
    return next((kind for kind in _KINDS if kind in named), None)


class Filters:
    """The filters of a source that are understood: one selector and `no-local`, described as the JMS mapping says.

    Raises InvalidSelectorError when the selector is wrong.
    """

    def __init__(self, source: Terminus) -> None:
        self.selector: Selector | None = None
        self.no_local = False
        self._said: dict[str, tuple[Any, Described]] = {}
        held = _value(source.filter)
        for key, value in held.items() if isinstance(held, dict) else ():
            code: Any = value.descriptor if isinstance(value, Described) else None
            if not isinstance(code, str | int):  # a bare value is none (3.5.8)
                continue
            text = value.value
            if code in SELECTOR and isinstance(text, str) and text.strip() and self.selector is None:
                self.selector = parse_selector(text)
                self._said["selector"] = key, value
            elif code in NO_LOCAL and not self.no_local:
                self.no_local = True
                self._said["no-local"] = key, value

    def in_force(self, *, no_local: bool) -> dict[Any, Described]:
        """As they were said; `no_local`: what is served can leave out what its client sent."""
        return dict(said for name, said in self._said.items() if no_local or name != "no-local")


def is_lasting(source: Terminus) -> bool:
    """Return True when what it stands for stays when its link is detached."""
    return bool(source.expiry_policy == Terminus.EXPIRE_NEVER or source.durability != Terminus.NONDURABLE)


def shared_name(link_name: str, *, lasting: bool, is_global: bool) -> str:
    """The name of the shared subscription that a link is of: a bar in it is its own, but for the one of such an end.

    `is_global`: the link says that it is no client id's.
    """
    return _ENDS[lasting, is_global].sub("", link_name)


def subscription_of(
    topic: Topic,
    link_name: str,
    source: Terminus,
    named: frozenset[str],
    filters: Filters,
    *,
    client_id: str,
    connection_id: str,
) -> Subscription:
    """The subscription that a receiver of a topic means by its link's name and its source.

    Raises:
        IllegalStateError: a durable one of its own needs a container id that stays the same.
        InvalidSettingError: its name cannot be one.
        InvalidDestinationError: a durable one of a temporary topic.
    """
    lasting, selector = is_lasting(source), "" if filters.selector is None else filters.selector.normal
    if lasting and topic.is_temporary:
        raise InvalidDestinationError(f"{topic}: a temporary topic has no durable subscriptions")
    if "shared" in named:
        kind = SubscriptionKind.SHARED_DURABLE if lasting else SubscriptionKind.SHARED
        is_global = "global" in named
        name = shared_name(link_name, lasting=lasting, is_global=is_global)
        return Subscription(topic, kind, name, "" if is_global else client_id, selector=selector)
    if lasting:
        if not client_id:
            raise IllegalStateError(f"durable subscription {link_name!r}: the connection has no client id; set one")
        kind = SubscriptionKind.DURABLE
        return Subscription(topic, kind, link_name, client_id, filters.no_local, selector=selector)
    name = f"{connection_id}-{secrets.token_hex(4)}"
    kind = SubscriptionKind.PRIVATE
    return Subscription(topic, kind, name, client_id, filters.no_local, connection_id, selector)


def looked_up(link_name: str, client_id: str) -> tuple[str, str]:
    """Client id and name of the subscription that a receiver with a null source asks for.

    Qpid JMS and our client write `|global` behind the name where they have no client id, and else nothing.
    """
    return client_id, link_name if client_id else link_name.removesuffix("|global")


def _value(data: Data) -> Any:
    data.rewind()
    return data.get_object() if data.next() else None
