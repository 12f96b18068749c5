"""This process as the only member of consumer groups, so that what it writes of them is refused once it is not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.ports import GroupConsumer, Kafka, KafkaAdmin, Unreachable
from jbm_kafka.registry.channel_group import ChannelGroup

CLIENT_ID = "jbm-import"
"""The client id by which the members that this module makes are told from receivers."""
SESSION_TIMEOUT_MS = 10_000
REBALANCE_TIMEOUT_MS = 120_000
JOIN_TIMEOUT_S = 30.0
LEAVES_S = 2.0
"""A process that has just closed may still be a member. One that is so for longer is a receiver."""
GONE_S = 15.0
"""An import that was killed is a member for its session timeout."""
LOOK_S = 0.1
MEMORY_BYTES = 2**20


class SoleMember:
    """The only member of a group; it reads nothing. One thread."""

    def __init__(self, kafka: Kafka, group: ChannelGroup) -> None:
        self._group = group
        self._is_disturbed = False
        self._consumer: GroupConsumer = kafka.group_consumer(
            group=group.group_id,
            topic=group.topic,
            partitions=group.partitions,
            listener=self,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            memory_bytes=MEMORY_BYTES,
            client_id=CLIENT_ID,
        )

    def on_assigned(self, partitions: Sequence[int]) -> Mapping[int, int]:
        """Nothing of them is read."""
        return {}

    def on_revoked(self, partitions: Sequence[int]) -> None:
        self._is_disturbed = True

    def on_lost(self, partitions: Sequence[int]) -> None:
        self._is_disturbed = True

    def join(self) -> None:
        """Be the only one.

        Raises:
            IllegalStateError: others came meanwhile.
            Unreachable: nobody lets it in.
        """
        deadline_s = time.monotonic() + JOIN_TIMEOUT_S
        while len(self._consumer.assignment()) < self._group.partitions and time.monotonic() < deadline_s:
            self._consumer.consume(1, LOOK_S)
        if not self._consumer.joined():
            raise Unreachable(f"group {self._group.group_id}: it was not joined within {JOIN_TIMEOUT_S:g} s")
        self.metadata()

    def metadata(self) -> object:
        """Return what a transaction needs to be refused once others are members.

        Raises:
            IllegalStateError: they are already.
        """
        self._consumer.consume(1, 0)
        if self._is_disturbed or len(self._consumer.assignment()) < self._group.partitions:
            raise IllegalStateError(
                f"{self._group}: this command is not the only one there any more: another process receives from it, or "
                f"Kafka did not answer for a while; stop what receives, and do it again: what was done is not done "
                f"twice",
                destination=self._group.destination.name,
            )
        return self._consumer.group_metadata()

    def close(self) -> None:
        self._consumer.close()


def received_from(group: ChannelGroup, who: str = "a process") -> IllegalStateError:
    """The error where others receive."""
    return IllegalStateError(
        f"{group}: {who} receives from it, and what it would write of these messages and this command cannot both "
        f"count: stop what receives, and do it again; what was done is not done twice",
        destination=group.destination.name,
    )


@contextmanager
def sole_members(kafka: Kafka, admin: KafkaAdmin, groups: Sequence[ChannelGroup]) -> Iterator[list[SoleMember]]:
    """One for each group, joined; they leave at the end.

    Raises:
        IllegalStateError: others receive from one of them.
    """
    for group in groups:
        _wait_empty(admin, group)
    with ExitStack() as closing:
        members = []
        for group in groups:
            member = SoleMember(kafka, group)
            closing.callback(member.close)
            member.join()
            members.append(member)
        yield members


def _wait_empty(admin: KafkaAdmin, group: ChannelGroup) -> None:
    begun_s = time.monotonic()
    while admin.group_members(group.group_id):
        members = admin.members(group.group_id, group.topic)
        are_ours = members and all(each.client_id.endswith(f"/{CLIENT_ID}") for each in members)
        if time.monotonic() - begun_s > (GONE_S if are_ours else LEAVES_S):
            raise received_from(group, " and ".join(sorted({each.name for each in members})) or "a process")
        time.sleep(LOOK_S)
