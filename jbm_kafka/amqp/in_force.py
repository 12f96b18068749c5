"""The answer to an attach as it tells our end of the link: what is in force there, and nothing else.

A client takes what comes back for granted. So what was not understood, and what is not done here, does not come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from proton import UNDESCRIBED, Array, Data, Described, Terminus, symbol
from proton import Link as ProtonLink

from jbm_kafka.amqp.terminus import Filters, symbols
from jbm_kafka.amqp_wire.engine_objects import EngineLink
from jbm_kafka.core.destination import Destination, Topic
from jbm_kafka.core.subscription import Source, Subscription, destination_of

OUTCOMES: Final = ("amqp:accepted:list", "amqp:rejected:list", "amqp:released:list", "amqp:modified:list")
LOCAL_TRANSACTIONS: Final = "amqp:local-transactions"
_LIFETIME: Final = {symbol("lifetime-policy"): Described(symbol("amqp:delete-on-close:list"), [])}


def settle_modes(link: EngineLink) -> None:
    """A message is settled here before it is sent, or never; of what the client decides its own word holds."""
    if link.is_sender:
        is_settled = link.remote_snd_settle_mode == ProtonLink.SND_SETTLED
        link.snd_settle_mode = ProtonLink.SND_SETTLED if is_settled else ProtonLink.SND_UNSETTLED
        link.rcv_settle_mode = link.remote_rcv_settle_mode
    else:
        link.snd_settle_mode, link.rcv_settle_mode = link.remote_snd_settle_mode, ProtonLink.RCV_FIRST


def tell_source(
    link: EngineLink, source: Source, filters: Filters, more: Iterable[str] = (), *, is_browser: bool = False
) -> None:
    """Tell what a receiver is served from; `more`: what else is done of the capabilities that it asked for. A temporary
    destination tells its name.

    A temporary destination that was made for it has been written there as its address, dynamic.
    """
    destination, terminus = destination_of(source), link.source
    held = {destination.kind, *more}
    is_durable, no_local = False, False
    if isinstance(source, Subscription):
        held |= {"shared"} if source.is_shared else set()
        held |= {"global"} if source.is_shared and not source.client_id else set()
        is_durable, no_local = source.is_durable, source.no_local
    if is_browser:
        link.snd_settle_mode = ProtonLink.SND_SETTLED
    _tell(link.source, link.remote_source, held, is_durable=is_durable)
    is_copy = is_browser or isinstance(destination, Topic)
    terminus.distribution_mode = Terminus.DIST_MODE_COPY if is_copy else Terminus.DIST_MODE_MOVE
    _put(terminus.filter, filters.in_force(no_local=no_local))
    if link.snd_settle_mode != ProtonLink.SND_SETTLED:
        asked = symbols(link.remote_source.outcomes)
        _put_symbols(terminus.outcomes, [each for each in OUTCOMES if each in asked] or OUTCOMES)


def tell_stored(link: EngineLink, topic: Topic) -> None:
    """Tell of a durable subscription that was only asked for."""
    link.source.type, link.source.address = Terminus.SOURCE, topic.name
    _tell(link.source, link.remote_source, [topic.kind], is_durable=True)
    link.source.distribution_mode = Terminus.DIST_MODE_COPY


def tell_target(link: EngineLink, destination: Destination | None) -> None:
    """Tell where a sender's messages go; None: each says it. A temporary destination as of `tell_source`."""
    _tell(link.target, link.remote_target, [] if destination is None else [destination.kind], is_durable=False)


def tell_coordinator(link: EngineLink) -> None:
    """Tell that it declares transactions."""
    link.target.type = Terminus.COORDINATOR
    _put_symbols(link.target.capabilities, [LOCAL_TRANSACTIONS])


def _tell(terminus: Terminus, asked: Terminus, held: Iterable[str], *, is_durable: bool) -> None:
    if not terminus.address:
        terminus.type = asked.type
        if asked.address is not None:
            terminus.address = asked.address
    terminus.durability = Terminus.DELIVERIES if is_durable else Terminus.NONDURABLE
    terminus.expiry_policy = Terminus.EXPIRE_NEVER if is_durable else Terminus.EXPIRE_WITH_LINK
    if terminus.dynamic:
        _put(terminus.properties, _LIFETIME)
    _put_symbols(terminus.capabilities, sorted(held))


def _put(data: Data, held: Mapping[Any, Any]) -> None:
    if held:
        data.put_object(dict(held))


def _put_symbols(data: Data, names: Iterable[str]) -> None:
    held: Any = Array(UNDESCRIBED, Data.SYMBOL, *(symbol(each) for each in names))  # type: ignore[arg-type]
    if held.elements:
        data.put_object(held)
