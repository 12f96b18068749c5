"""Asks the owners of a queue's partitions to do something, and becomes their owner when there is none (decision 34)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import Kafka, KafkaAdmin
from jbm_kafka.sidecar.conversation import Conversation
from jbm_kafka.sidecar.own_topics import commands_topic
from jbm_kafka.sidecar.topic_configs import COMMANDS_CONFIG

Turns = Callable[[Sequence[Answer]], Mapping[str, Any] | None]
"""What one partition's owner is asked next, when it answered so before; None: nothing more."""

ASK_AGAIN_S = 3.0
"""Owners look every second; one that says nothing for longer may have gone before it answered."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What owners were asked, and answered."""

    answers: Mapping[int, Sequence[Answer]]
    """By partition, in the order of what was asked; the last one may be a refusal."""
    why_unanswered: str
    """Why there are no more."""


class Owners:
    """Of the partitions of one consumer group. One thread."""

    def __init__(
        self,
        kafka: Kafka,
        admin: KafkaAdmin,
        *,
        namespace: str,
        group: str,
        become_owner: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """`become_owner` joins the group, and in its end leaves it."""
        self._kafka = kafka
        self._admin = admin
        self._topic = commands_topic(namespace)
        self._group = group
        self._become_owner = become_owner

    def ask(
        self, verb: str, arguments: Mapping[int, Mapping[str, Any]], *, timeout_s: float
    ) -> Mapping[int, Mapping[str, Any]]:
        """What the owner of each partition answers to the verb with its arguments; what it did is durable.

        Raises:
            JMSError: not all answered, or one refused; others may have done what was asked.
        """
        asked = self.ask_in_turn(verb, {p: partial(_once, each) for p, each in arguments.items()}, timeout_s=timeout_s)
        unanswered = sorted(arguments.keys() - asked.answers.keys())
        if unanswered:
            raise JMSError(f"{verb}: {asked.why_unanswered}: again", partitions=unanswered)
        refused = sorted({answer.error for answers in asked.answers.values() for answer in answers if answer.error})
        if refused:
            raise JMSError(f"{verb}: {'; '.join(refused)}")
        return {partition: answers[0].result for partition, answers in asked.answers.items()}

    def ask_in_turn(self, verb: str, turns: Mapping[int, Turns], *, timeout_s: float) -> Asked:
        """Ask the owner of each partition for one thing after the other; after one that it refuses for no more.

        It ends when nobody has answered for `timeout_s`.

        Raises:
            KafkaClientError: Kafka does not let us ask; some may have been done.
        """
        self._admin.create_topic(self._topic, partitions=1, config=COMMANDS_CONFIG)
        open_: dict[str, Command] = {}
        answers: dict[int, list[Answer]] = {}
        for partition in turns:
            self._next(open_, verb, partition, turns[partition](()))
        deadline_s = time.monotonic() + timeout_s
        with Conversation(self._kafka, self._admin, self._topic) as asking, ExitStack() as ours:
            is_member = False
            while open_ and time.monotonic() < deadline_s:
                if not is_member and not self._admin.group_members(self._group):
                    ours.enter_context(self._become_owner())
                    is_member = True
                asking.send(open_.values())
                ask_again_s = min(time.monotonic() + ASK_AGAIN_S, deadline_s)
                while open_ and time.monotonic() < ask_again_s:
                    for answer in asking.answers():
                        if open_.pop(answer.id, None) is None:
                            continue
                        deadline_s = time.monotonic() + timeout_s
                        so_far = answers.setdefault(answer.partition, [])
                        so_far.append(answer)
                        arguments = None if answer.error else turns[answer.partition](so_far)
                        following = self._next(open_, verb, answer.partition, arguments)
                        if following is not None:
                            asking.send([following])
        why = (
            f"nobody answered for {_places(open_.values())} within {timeout_s:g} s: who has them may be an older "
            f"version, not be allowed to read and write the topic {self._topic}, or about to go"
        )
        return Asked(answers, why)

    def _next(
        self, open_: dict[str, Command], verb: str, partition: int, arguments: Mapping[str, Any] | None
    ) -> Command | None:
        if arguments is None:
            return None
        asked_at_ms = time.time_ns() // 1_000_000
        command = Command(secrets.token_hex(8), self._group, partition, verb, arguments, asked_at_ms)
        open_[command.id] = command
        return command


def _once(arguments: Mapping[str, Any], answers: Sequence[Answer]) -> Mapping[str, Any] | None:
    return None if answers else arguments


def _places(commands: Any) -> str:
    partitions = sorted(command.partition for command in commands)
    return f"partition{'s' if len(partitions) > 1 else ''} {', '.join(map(str, partitions))}"
