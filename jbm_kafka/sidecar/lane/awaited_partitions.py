"""Log lines while a group gives a member nothing, and the remedy. docs/logging.md lists the lines.

A broker that was killed may leave a request to join without an answer, though it answers everybody else. librdkafka
waits for that as long as a rebalance may take, 300 s, without a word: seen of three workers, in one outage of three.
"""

from __future__ import annotations

import logging

from jbm_kafka.core.destination import Queue
from jbm_kafka.ports import GroupConsumer
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.membership import Membership
from jbm_kafka.sidecar.lane.assignment import ClientTopic

log = logging.getLogger("jbm_kafka.partitions")

PATIENCE_MS = 4_000
"""More than the 3 s that a broker lets an empty group wait for more members (group.initial.rebalance.delay.ms)."""
LONG_MS = 60_000
"""More than it takes to share partitions anew: the session timeout of those that died, and the drain of those that
live."""


class AwaitedPartitions:
    """The waits of one member: for its first partitions, from now on, and for others after it lost some. The owner
    thread's.

    One that passed its last ones on in order waits for nothing: others have them, as they should.
    """

    def __init__(self, data: GroupData, membership: Membership, client: ClientTopic) -> None:
        self._data = data
        self._membership = membership
        self._client = client
        config = data.config
        self._patience_ms = max(LONG_MS, config.session_timeout_ms + config.revoke_drain_ms + PATIENCE_MS)
        """More than others may take, once Kafka answers."""
        self._joins_anew_ms = self._patience_ms
        self._breaks = 0
        self._calm_since_ms = 0
        """Since when no connection was lost; no less since the last client."""
        self._since_ms: int | None = None
        """Since when it was seen to have none."""
        self._has_had = False
        self._is_told = not data.group.is_recorded
        """A line of this wait was written."""

    def look(self, consumer: GroupConsumer) -> None:
        """Tell once a wait, when it takes long; and have the worker join anew where its group may not answer it."""
        if self._data.channels or (not self._has_had and consumer.assignment()):
            self._has_had, self._is_told = True, not self._data.group.is_recorded
            self._since_ms, self._joins_anew_ms = None, self._patience_ms
            return
        if not self._data.group.is_recorded or (self._has_had and not self._membership.is_bereft):
            return
        now_ms = self._data.clock.monotonic_ms()
        if self._since_ms is None:
            self._since_ms = self._calm_since_ms = now_ms
        if (breaks := consumer.breaks()) != self._breaks:
            self._breaks, self._calm_since_ms = breaks, now_ms
        waited_ms = now_ms - self._since_ms
        if self._has_had and now_ms - self._calm_since_ms >= self._joins_anew_ms and not consumer.assignment():
            self._calm_since_ms, self._joins_anew_ms = now_ms, 2 * self._joins_anew_ms
            group = self._data.group
            log.warning(_JOINS_ANEW, group, waited_ms / 1000, group.group_id, self._remedy)
            self._is_told = True
            self._client.is_outdated = True
        if self._is_told:
            return
        # An outage has a line of its own, and after it the group has its time: this line is for what stays.
        calm_ms = now_ms - self._calm_since_ms
        if (calm_ms >= LONG_MS if self._has_had else waited_ms >= PATIENCE_MS) and not consumer.assignment():
            self._is_told = True
            self._tell(consumer, waited_ms / 1000)

    def _tell(self, consumer: GroupConsumer, waited_s: float) -> None:
        group = self._data.group
        if self._has_had:
            text = _SINCE_LOST.format(group=group.group_id)
            log.warning("%s: no partition for %.0f s: %s%s", group, waited_s, text, self._remedy)
        else:
            text = (_OTHERS_HAVE_THEM if consumer.joined() else _BEING_SHARED).format(group=group.group_id)
            log.info("%s: no partition yet, after %.0f s: %s%s", group, waited_s, text, self._remedy)

    @property
    def _remedy(self) -> str:
        destination = self._data.group.destination
        if self._data.config.is_in_memory or not isinstance(destination, Queue):
            return ""
        return f"; who they are: jbm-kafka explain {destination.name}"


_OTHERS_HAVE_THEM = (
    "the other members of group {group} have them all, or give some up, for which they have their revoke_drain_ms"
)
_BEING_SHARED = (
    "group {group} shares them anew, and waits for its members: for one whose sessions hold messages up to its "
    "revoke_drain_ms, for one that died up to its session_timeout_ms"
)
_JOINS_ANEW = (
    "%s: no partition for %.0f s, though Kafka answers: this process joins group %s with a new client, for the answer "
    "to its old one may be lost; where the other members have all partitions it changes nothing%s"
)
_SINCE_LOST = (
    "the other members of group {group} have them all now, or Kafka is away, or it still counts members that are gone, "
    "which a restart of the broker ends"
)
