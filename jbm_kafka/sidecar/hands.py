"""What receivers have in hand, told by the processes that own the partitions (decision 42).

Nobody else knows: what is in hand is recorded nowhere. An owner answers when all that was settled before is in the
changelog, so that whoever reads that afterwards sees each message either there or in a hand.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Collection, Mapping, Sequence

from jbm_kafka.codec.command_records import IN_HAND, Command
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.channel_group import ChannelGroup
from jbm_kafka.sidecar.conversation import Conversation
from jbm_kafka.sidecar.group_worker import GroupWorker
from jbm_kafka.sidecar.hand import Hand, hand_of, heard
from jbm_kafka.sidecar.own_topics import commands_topic

log = logging.getLogger(__name__)

OWN_TIMEOUT_S = 2.0
OTHERS_TIMEOUT_S = 5.0
"""Owners look every second, and a checkpoint is some milliseconds; who needs longer is frozen, or about to go."""
ASK_AGAIN_S = 2.0


class Hands:
    """Of one cluster and namespace, as one process finds them out. One thread."""

    def __init__(self, kafka: Kafka, *, namespace: str, ours: GroupWorker | None) -> None:
        """`ours`: what serves the queue or subscription in this process, if anything does."""
        self._kafka = kafka
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
        open_ = {command.id: command for command in commands}
        found: dict[int, Hand] = {}
        refusals: set[str] = set()
        try:
            with Conversation(self._kafka, admin, self._topic) as asking:
                ends_at_s = time.monotonic() + OTHERS_TIMEOUT_S
                while open_ and time.monotonic() < ends_at_s:
                    asking.send(open_.values())
                    again_at_s = min(time.monotonic() + ASK_AGAIN_S, ends_at_s)
                    while open_ and time.monotonic() < again_at_s:
                        for answer in asking.answers():
                            command = open_.pop(answer.id, None)
                            if command is not None and not answer.error:
                                found[command.partition] = heard(answer.result)
                            elif command is not None:
                                refusals.add(answer.error)
        except KafkaClientError as error:
            refusals.add(str(error))
        silent = [str(partition) for partition in partitions if partition not in found]
        if silent:
            why = "; ".join(sorted(refusals)) or f"who has them did not answer within {OTHERS_TIMEOUT_S:g} s"
            log.warning(
                "%s: what receivers have in hand of partition %s is not known, and is shown as if it waited: %s",
                group,
                ", ".join(silent),
                why,
            )
        return found
