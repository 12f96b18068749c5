"""Checks what a receiver is allowed first: a queue with its selector, or a subscription."""

from __future__ import annotations

from functools import partial

from jbm_kafka.core.subscription import Source, Subscription
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.provider import Provider


def begin_use(provider: Provider, source: Source, link: Link, selector: str) -> None:
    """Use the source until the link has left, which it tells as before; of a temporary queue nothing is to be said.

    `selector`: a queue's receiver's, in its normal form.

    Raises:
        IllegalStateError, InvalidDestinationError, JMSError: it cannot be used.
    """
    if isinstance(source, Subscription):
        provider.subscribe(source)
        end = partial(provider.end_use, source)
    elif source.is_temporary:
        return
    else:
        provider.use_selector(source, selector)
        end = partial(provider.end_use_of_selector, source, selector)
    link.notices.tell_left(end)
