"""Log lines about an application that is in one message for long: it works, or it hangs.

Nobody else can tell while the process lives: its group hears its heartbeats. docs/logging.md lists the lines.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from jbm_kafka.core.channel.partition_names import named
from jbm_kafka.core.log_fields import log_fields
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.operators.current_delivery import CurrentDelivery, current_delivery_of
from jbm_kafka.sidecar.operators.waiting_behind import waiting_behind

log = logging.getLogger("jbm_kafka.messages")

LOOK_MS = 5_000
FIRST_MS = 60_000
"""Told after so long, and again whenever it has doubled: six lines in an hour."""
WARNING_MS = 4 * FIRST_MS
"""From then on it is a warning though nothing waits behind it: the third line, before five minutes have passed."""
EACH_MAX = 5
"""So many of one look have a line of their own; the others are counted."""


class LongWork:
    """The long work of one group worker's receivers. The owner thread's."""

    def __init__(self, data: GroupData) -> None:
        self._data = data
        self._looked_at_ms = 0
        self._logged: dict[str, tuple[int, int]] = {}
        """After how many calls of its application, and for how long, a link was logged last, by its id."""

    def look(self) -> None:
        """Log those that are in a message for longer than was logged before."""
        now_ms = self._data.clock.monotonic_ms()
        if now_ms - self._looked_at_ms < LOOK_MS or self._data.group.is_temporary:
            return
        self._looked_at_ms = now_ms
        found = list(self._long_ones())
        if not found:
            return
        long_ids = {link.terms.link_id for link in self._data.links.values() if self._is_long(link)}
        for link, taken in found[:EACH_MAX]:
            _tell(link, taken, waiting_behind(self._data, link, taken, long_ids))
        if len(found) > EACH_MAX:
            log.log(
                max(_level(taken) for _, taken in found[EACH_MAX:]),
                "%s: %d more receivers of this process are in one message for a minute or longer",
                self._data.group,
                len(found) - EACH_MAX,
            )

    def _is_long(self, link: Link) -> bool:
        taken = current_delivery_of(self._data, link)
        return taken is not None and taken.ago_ms >= FIRST_MS

    def _long_ones(self) -> Iterator[tuple[Link, CurrentDelivery]]:
        logged, self._logged = self._logged, {}
        for link_id, link in self._data.links.items():
            receives = link.demand.receives
            before_receives, before_ms = logged.get(link_id, (receives, 0))
            limit_ms = 2 * before_ms if before_ms and before_receives == receives else FIRST_MS
            taken = current_delivery_of(self._data, link)
            if taken is None:
                continue
            if taken.ago_ms >= limit_ms:
                self._logged[link_id] = (receives, taken.ago_ms)
                yield link, taken
            elif link_id in logged and before_receives == receives:
                self._logged[link_id] = logged[link_id]


def _level(taken: CurrentDelivery) -> int:
    return logging.WARNING if taken.ago_ms >= WARNING_MS else logging.INFO


def _tell(link: Link, taken: CurrentDelivery, behind: Mapping[int, int]) -> None:
    level = logging.WARNING if behind else _level(taken)
    log.log(
        level,
        "%s[%d] offset %d: %s for %.0f s%s%s%s; id %s",
        taken.topic,
        taken.partition,
        taken.offset,
        "a listener is in it" if link.demand.is_in_listener else "received and not acknowledged, and nothing was asked",
        taken.ago_ms / 1000,
        f", client id {link.terms.client_id}" if link.terms.client_id else "",
        _what_waits(behind, has_unit=taken.has_unit),
        "; if it hangs, stop this process, and others get what it has" if level == logging.WARNING else "",
        taken.message_id,
        extra=log_fields(taken.topic, taken.partition, taken.offset, taken.message_id, reason="slow"),
    )


def _what_waits(behind: Mapping[int, int], *, has_unit: bool) -> str:
    if not behind:
        return "; its unit waits for it" if has_unit else ""
    count = sum(behind.values())
    waits = "1 message waits" if count == 1 else f"{count} messages wait"
    return f"; {waits} behind it in this process ({named(behind)})"
