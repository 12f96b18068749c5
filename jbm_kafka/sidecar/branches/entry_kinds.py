"""Whether every process that may open a group's channels reads a kind of changelog entry: decision 76.

A process closes a partition whose changelog has an entry of a kind that it does not know. So nobody writes one of a
later kind while such a process is a member of the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.channel.process_names import kinds_read_by
from jbm_kafka.ports import Clock, KafkaAdmin

LOOK_MS = 1_000
"""A group whose members all read a kind is asked again after so long."""


class EntryKinds:
    """By the members that the groups' coordinators list now. Any thread may call it."""

    def __init__(self, admin: KafkaAdmin, clock: Clock) -> None:
        self._admin = admin
        self._clock = clock
        self._all_read_ms: dict[tuple[str, str], int] = {}
        """By group and kind, when all members read it, monotonic."""

    def members_without(self, kind: str, group: str, topic: str) -> Sequence[str]:
        """Return the members of a group, by their names for people, that do not read entries of this kind.

        A member whose `client.id` the user chose does not tell, and is left out. Where all read it the coordinator is
        asked again only after LOOK_MS.

        Raises:
            KafkaClientError: the coordinator does not answer.
        """
        asked = group, kind
        now_ms = self._clock.monotonic_ms()
        looked_at_ms = self._all_read_ms.get(asked)
        if looked_at_ms is not None and now_ms - looked_at_ms < LOOK_MS:
            return ()
        members = self._admin.members(group, topic)
        without = [
            each.name for each in members if (read := kinds_read_by(each.client_id)) is not None and kind not in read
        ]
        if not without:
            self._all_read_ms[asked] = now_ms
        return without
