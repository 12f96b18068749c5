"""Which messages receivers have unacknowledged: a query to the processes that own the partitions (decision 42).

It is recorded nowhere, so only the owners know. An owner answers once all that was settled before is in the changelog,
so that a reader of the changelog sees each message either there or in the answer.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from jbm_kafka.browsing.unacknowledged_offsets import UnacknowledgedOffsets, from_answer
from jbm_kafka.codec.command_records import IN_HAND, Answer, Command
from jbm_kafka.ports import GroupMember, Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.registry.command_client import CommandClient, places_text, waited_for
from jbm_kafka.registry.own_topics import commands_topic

log = logging.getLogger(__name__)

OWN_TIMEOUT_S = 2.0
OTHERS_TIMEOUT_S = 5.0
"""Owners look every second, and a checkpoint takes milliseconds; an owner that needs longer is frozen, or leaves."""


class OwnPartitions(Protocol):
    """The partitions of a queue or subscription that this process owns."""

    @property
    def memberships(self) -> int:
        """How many members of the group this process is: 0 or 1."""

    def unacknowledged(self) -> dict[int, UnacknowledgedOffsets]:
        """Return what is in hand by partition, once what was settled before is recorded, or after OWN_TIMEOUT_S."""


class UnacknowledgedQuery:
    """Asks the owners in one cluster and namespace which messages are unacknowledged. One thread."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        namespace: str,
        ours: OwnPartitions | None,
        tell: Callable[[str], object] = log.info,
    ) -> None:
        """`ours`: what serves the queue or subscription in this process, if anything does.

        `tell`: is called, when an answer takes long, with a line that names the awaited members and the longest wait.
        """
        self._kafka = kafka
        self._tell = tell
        self._topic = commands_topic(namespace)
        self._ours = ours

    def of(self, group: ChannelGroup, held: Collection[int], admin: KafkaAdmin) -> Mapping[int, UnacknowledgedOffsets]:
        """Return by partition what is unacknowledged; one whose owner does not answer is missing, with a warning.

        Raises:
            KafkaClientError: it cannot be found out whether the group has members.
        """
        # Before and after: a member of ours that leaves or joins meanwhile is counted by the group, and asked in vain.
        before = 0 if self._ours is None else self._ours.memberships
        found = {} if self._ours is None else self._ours.unacknowledged()
        others = sorted(partition for partition in held if partition not in found)
        members = admin.group_members(group.group_id) if others else 0
        if members > max(before, 0 if self._ours is None else self._ours.memberships):
            found.update(self._asked(group, others, admin))
        return found

    def _asked(
        self, group: ChannelGroup, partitions: Sequence[int], admin: KafkaAdmin
    ) -> Mapping[int, UnacknowledgedOffsets]:
        asked_at_ms = time.time_ns() // 1_000_000
        commands = [Command(secrets.token_hex(8), group.group_id, p, IN_HAND, {}, asked_at_ms) for p in partitions]
        found: dict[int, UnacknowledgedOffsets] = {}
        refusals: set[str] = set()
        owners: Mapping[int, GroupMember] = {}

        def answered(command: Command, answer: Answer) -> None:
            if answer.error:
                refusals.add(answer.error)
            else:
                found[command.partition] = from_answer(answer.result)

        def late(still_open: Collection[Command], seconds: float) -> None:
            nonlocal owners
            silent = [command.partition for command in still_open]
            owners = _owners(silent, admin.members(group.group_id, group.topic))
            self._tell(f"{group}: {waited_for(owners.values(), silent, seconds)}")

        try:
            with CommandClient(self._kafka, admin, self._topic) as asking:
                asking.ask(commands, patience_s=lambda _: OTHERS_TIMEOUT_S, answered=answered, late=late)
        except KafkaClientError as error:
            refusals.add(str(error))
        silent = [partition for partition in partitions if partition not in found]
        if silent:
            self._warn(group, silent, owners, refusals, admin)
        return found

    def _warn(
        self,
        group: ChannelGroup,
        silent: Sequence[int],
        owners: Mapping[int, GroupMember],
        refusals: Collection[str],
        admin: KafkaAdmin,
    ) -> None:
        """Warn which owners did not answer, and how their partitions are shown."""
        gone: Mapping[int, GroupMember] = {}
        with suppress(KafkaClientError):  # no answer: as if they were members still
            if not refusals:
                present = {each.member_id for each in admin.members(group.group_id, group.topic)}
                gone = {p: m for p, m in owners.items() if m.member_id not in present and p in silent}
        if gone:
            log.warning(
                "%s: %s did not answer within %g s, and the group has put it out meanwhile: what it had in hand of "
                "%s waits again, or is with others by now",
                group,
                _names(gone.values()),
                OTHERS_TIMEOUT_S,
                places_text(gone),
            )
        unknown = [partition for partition in silent if partition not in gone]
        if unknown:
            names = _names([owners[p] for p in unknown if p in owners]) or "their owners"
            log.warning(
                "%s: what receivers have in hand of %s is not known, and is shown as if it waited: %s",
                group,
                places_text(unknown),
                "; ".join(sorted(refusals)) or f"{names} did not answer within {OTHERS_TIMEOUT_S:g} s",
            )


def _owners(partitions: Collection[int], members: Collection[GroupMember]) -> Mapping[int, GroupMember]:
    return {partition: each for each in members for partition in each.partitions & set(partitions)}


def _names(members: Collection[GroupMember]) -> str:
    return " and ".join(sorted({member.name for member in members}))
