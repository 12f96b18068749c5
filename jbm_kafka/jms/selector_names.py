"""Selectors that name what is an attribute of a message in Python: legal, for a property may be called so, and mostly a
mistake, since no message has such a property.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.selectors.selector import Selector

log = logging.getLogger(__name__)

_INSTEAD: Mapping[str, str] = MappingProxyType(
    {
        "body": "the body no selector can see",
        "correlation_id": "the header is JMSCorrelationID",
        "delivery_count": "the delivery count no selector can see",
        "message_id": "the header is JMSMessageID",
        "priority": "the header is JMSPriority",
        "unit_of_order": "the unit of order is JMSXGroupID",
    }
)
"""Not `type` or `timestamp`, which applications call their own properties."""
_TOLD_MAX = 256
"""So many names at destinations are remembered as told of; a program has a few."""


def tell_of_attributes(destination: Destination, selector: Selector | None) -> None:
    """Warns of such names, of each once for a destination. Not of the whole text: what it compares with may be a
    customer, and logs are read by many.
    """
    if selector is not None:
        for name in sorted(_INSTEAD.keys() & selector.names):
            _tell(destination, name)


@lru_cache(_TOLD_MAX)
def _tell(destination: Destination, name: str) -> None:
    log.warning(
        "%s: a selector names %s, which is a property that senders set, and no header; %s",
        destination,
        name,
        _INSTEAD[name],
    )
