"""What receivers have in hand, told by the processes that own the partitions (decision 42).

Nobody else knows: what is in hand is recorded nowhere. An owner answers when all that was settled before is in the
changelog, so that whoever reads that afterwards sees each message either there or in a hand.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from jbm_kafka.codec.command_records import IN_HAND, Answer, Command
from jbm_kafka.ports import GroupMember, Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.channel_group import ChannelGroup
from jbm_kafka.sidecar.conversation import Conversation, places_text, waited_for
from jbm_kafka.sidecar.hand import Hand, hand_of, heard
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.own_topics import commands_topic

log = logging.getLogger(__name__)

OWN_TIMEOUT_S = 2.0
OTHERS_TIMEOUT_S = 5.0
"""Owners look every second, and a checkpoint is some milliseconds; who needs longer is frozen, or about to go."""


class Hands:
    """Of one cluster and namespace, as one process finds them out. One thread."""

    def __init__(
        self,
        kafka: Kafka,
        *,
        namespace: str,
        ours: GroupWorker | None,
        tell: Callable[[str], object] = log.info,
    ) -> None:
        """`ours`: what serves the queue or subscription in this process, if anything does.

        `tell`: is called with a line that says whom it waits for, and how long at most, when somebody takes long.
        """
        self._kafka = kafka
        self._tell = tell
        self._topic = commands_topic(namespace)
        self._ours = ours if ours is not None and ours.is_alive else None

    def of(self, group: ChannelGroup, held: Collection[int], admin: KafkaAdmin) -> Mapping[int, Hand]:
        """The hand of each of these partitions; of one whose owner does not say there is none, and a warning.

        Raises:
            KafkaClientError: it cannot be found out whether the group has members.
        """
        found = self._own()
        others = sorted(partition for partition in held if partition not in found)
        if others and admin.group_members(group.group_id) > self._own_members():
            found.update(self._asked(group, others, admin))
        return found

    def _own_members(self) -> int:
        consumer = None if self._ours is None else self._ours.data.consumer
        return 0 if consumer is None or not consumer.joined() else 1

    def _own(self) -> dict[int, Hand]:
        """Of the partitions of this process, once what was settled before is recorded."""
        ours = self._ours
        found: dict[int, Hand] = {}
        if ours is None:
            return found
        recorded: list[Completion] = []
        done = Completion()

        def look() -> None:
            for partition, channel in ours.data.channels.items():
                found[partition] = hand_of(channel.state)
                recorded.append(Completion())
                channel.checkpoints.wait_durable(recorded[-1])
            done.complete()

        ours.post(look)
        ends_at_s = time.monotonic() + OWN_TIMEOUT_S
        done.wait(OWN_TIMEOUT_S, about=f"browse {ours.data.group}")
        for each in recorded:
            # Of one that is lost meanwhile, or of a Kafka that does not answer, what is recorded is shown.
            each.wait_done(max(0.0, ends_at_s - time.monotonic()))
        return found

    def _asked(self, group: ChannelGroup, partitions: Sequence[int], admin: KafkaAdmin) -> Mapping[int, Hand]:
        asked_at_ms = time.time_ns() // 1_000_000
        commands = [Command(secrets.token_hex(8), group.group_id, p, IN_HAND, {}, asked_at_ms) for p in partitions]
        found: dict[int, Hand] = {}
        refusals: set[str] = set()
        owners: Mapping[int, GroupMember] = {}

        def answered(command: Command, answer: Answer) -> None:
            if answer.error:
                refusals.add(answer.error)
            else:
                found[command.partition] = heard(answer.result)

        def late(still_open: Collection[Command], seconds: float) -> None:
            nonlocal owners
            silent = [command.partition for command in still_open]
            owners = _owners(silent, admin.members(group.group_id, group.topic))
            self._tell(f"{group}: {waited_for(owners.values(), silent, seconds)}")

        try:
            with Conversation(self._kafka, admin, self._topic) as asking:
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
        """Say of partitions of which nobody has told anything who it was, and what that means for what is shown."""
        gone: Mapping[int, GroupMember] = {}
        with suppress(KafkaClientError):  # nobody tells: as if they were members still
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
            who = _names([owners[p] for p in unknown if p in owners]) or "who has them"
            log.warning(
                "%s: what receivers have in hand of %s is not known, and is shown as if it waited: %s",
                group,
                places_text(unknown),
                "; ".join(sorted(refusals)) or f"{who} did not answer within {OTHERS_TIMEOUT_S:g} s",
            )


def _owners(partitions: Collection[int], members: Collection[GroupMember]) -> Mapping[int, GroupMember]:
    return {partition: each for each in members for partition in each.partitions & set(partitions)}


def _names(members: Collection[GroupMember]) -> str:
    return " and ".join(sorted({member.name for member in members}))
