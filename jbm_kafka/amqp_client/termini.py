"""Sources and targets as the server understands them: Qpid JMS's words, and a few of ours."""

from __future__ import annotations

import secrets
from typing import Any

from proton import UNDESCRIBED, Array, Data, Described, Terminus, symbol, ulong
from proton import Link as ProtonLink

from jbm_kafka.core.destination import Destination, Queue
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source, Subscription, SubscriptionKind, destination_of
from jbm_kafka.core.wrong_values import wrong_value

_SELECTOR = 0x0000468C00000004
_NO_LOCAL = 0x0000468C00000003


def receiver_of(session: Any, source: Source, selector: str, *wanted: str) -> Any:
    """Return a receiver of a queue or a subscription, not opened; `selector` is "" for none."""
    destination = destination_of(source)
    name, more = _name(source)
    link = session.receiver(name)
    _fill(link.source, destination, *more, *wanted)
    no_local = isinstance(source, Subscription) and source.no_local
    filters: dict[Any, Any] = {}
    if selector:
        filters[symbol("jms-selector")] = Described(ulong(_SELECTOR), selector)
    if no_local:
        filters[symbol("no-local")] = Described(ulong(_NO_LOCAL), "NoLocalFilter{}")
    if filters:
        link.source.filter.put_object(filters)
    if isinstance(source, Subscription) and source.is_durable:
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER
    link.snd_settle_mode, link.rcv_settle_mode = ProtonLink.SND_UNSETTLED, ProtonLink.RCV_FIRST
    return link


def _name(source: Source) -> tuple[str, list[str]]:
    """Return the link's name, by which the server knows a subscription, and its capabilities."""
    made_up = f"jbm-{secrets.token_hex(8)}"
    if not isinstance(source, Subscription) or source.kind is SubscriptionKind.PRIVATE:
        return made_up, []
    name = _whole(source.name)
    if not source.is_shared:
        return name, []
    everybody = [] if source.client_id else ["global"]
    return f"{name}|{''.join(everybody)}-{made_up}", ["shared", *everybody]


def _whole(name: str) -> str:
    """Return the name. Raises InvalidSettingError: the engine would cut it."""
    if "\0" in name:
        raise wrong_value("name", name, "it has a NUL, which no subscription's name may have over AMQP; leave it out")
    return name


def lookup_of(session: Any, client_id: str, name: str) -> Any:
    """Return a receiver that asks what a durable subscription is; ending it ends that."""
    link = session.receiver(_whole(name) if client_id else f"{_whole(name)}|global")
    link.source.type = Terminus.UNSPECIFIED
    link.target.type = Terminus.TARGET
    return link


def browser_of(session: Any, queue: Queue, selector: Selector | None, wanted: str) -> Any:
    """Return a receiver link that takes copies: what it gets is settled on arrival, and stays in the queue."""
    link = receiver_of(session, queue, "" if selector is None else selector.text, wanted)
    link.source.distribution_mode = Terminus.DIST_MODE_COPY
    link.snd_settle_mode = ProtonLink.SND_SETTLED
    return link


def sender_of(session: Any, destination: Destination, address: str | None = None) -> Any:
    """Return a sender to a destination; `address` is what the server calls it, where that is not its name."""
    link = session.sender(f"jbm-{secrets.token_hex(8)}")
    _fill(link.target, destination)
    if address is not None and address != destination.name:
        link.target.address = address
        if isinstance(destination, Queue):  # RabbitMQ makes what is not there, and not to last unless it is told
            link.target.durability = Terminus.DELIVERIES
    link.source.address = link.name
    return link


def temporary_of(session: Any, kind: str) -> Any:
    """Return a sender to a temporary destination that the server makes, and that lives as long."""
    link = session.sender(f"jbm-{secrets.token_hex(8)}")
    link.target.dynamic = True
    link.target.expiry_policy = Terminus.EXPIRE_WITH_LINK
    link.target.capabilities.put_object(symbol(kind))
    lasts = {symbol("lifetime-policy"): Described(symbol("amqp:delete-on-close:list"), [])}
    link.target.properties.put_object(lasts)
    link.source.address = link.name
    return link


def coordinator_of(session: Any) -> Any:
    """Return a sender to what declares transactions."""
    link = session.sender(f"jbm-{secrets.token_hex(8)}")
    link.target.type = Terminus.COORDINATOR
    link.target.capabilities.put_object(symbol("amqp:local-transactions"))
    link.source.address = link.name
    return link


def _fill(terminus: Terminus, destination: Destination, *more: str) -> None:
    terminus.address = destination.name
    names = [destination.kind, *more]
    held: Any = Array(UNDESCRIBED, Data.SYMBOL, *(symbol(each) for each in names))  # type: ignore[arg-type]
    terminus.capabilities.put_object(held)
