"""The counts of the queues and subscriptions that this process has served, whichever group worker counted them."""

from __future__ import annotations

import threading

from jbm_kafka.core.channel.counters import SourceCounters
from jbm_kafka.core.statistics import DestinationStatistics
from jbm_kafka.core.subscription import SubscriptionKind
from jbm_kafka.core.temporary_name import TEMPORARY_TOPIC
from jbm_kafka.registry.channel_group import ChannelGroup

ENDED_MAX = 100
"""So many that ended are remembered, those that ended last: a client may make up names of subscriptions without end."""
SourceKey = tuple[str, str]
"""A destination and a subscription, as `DestinationStatistics` has them."""


def key_of(group: ChannelGroup) -> SourceKey:
    """Names that are made up are left out: of them there is no end."""
    if group.is_temporary:
        return TEMPORARY_TOPIC, ""
    subscription = group.subscription
    is_named = subscription is not None and subscription.kind is not SubscriptionKind.PRIVATE
    return group.destination.name, subscription.full_name if subscription is not None and is_named else ""


class CountedSources:
    """Any thread; the lock is taken when a group worker begins, and for a look."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: list[tuple[SourceKey, SourceCounters]] = []
        self._ended: dict[SourceKey, DestinationStatistics] = {}
        self._reconnects = self._rebalances = 0
        """The counts of group workers that have ended."""

    def begin(self, group: ChannelGroup) -> SourceCounters:
        """For one more group worker, which says when it has ended."""
        counters = SourceCounters()
        with self._lock:
            self._fold()
            self._live.append((key_of(group), counters))
        return counters

    def look(self) -> tuple[dict[SourceKey, DestinationStatistics], int, int]:
        """Return what was counted of each; and reconnects and rebalances of all."""
        with self._lock:
            self._fold()
            rows, reconnects, rebalances = dict(self._ended), self._reconnects, self._rebalances
            for key, counters in self._live:
                rows[key] = rows.get(key, DestinationStatistics(destination=key[0], subscription=key[1])) + _row(
                    key, counters
                )
                reconnects += counters.reconnects
                rebalances += counters.rebalances
        return rows, reconnects, rebalances

    def _fold(self) -> None:
        for key, counters in [row for row in self._live if row[1].has_ended]:
            row, before = _row(key, counters), self._ended.pop(key, None)
            self._ended[key] = row if before is None else before + row
            self._reconnects += counters.reconnects
            self._rebalances += counters.rebalances
            self._live.remove((key, counters))
        while len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]


def _row(key: SourceKey, counters: SourceCounters) -> DestinationStatistics:
    return DestinationStatistics(
        destination=key[0],
        subscription=key[1],
        handed_over=counters.handed_over,
        acknowledged=counters.acknowledged,
        returned=counters.returned,
        given_up=counters.given_up,
        expired=counters.expired,
        send_to_acknowledge_seconds=counters.send_to_acknowledge.histogram(),
    )
