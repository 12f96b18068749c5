"""Commands to the owners of a queue's partitions; without owners this process becomes the owner (decision 34)."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import GroupMember, Kafka, KafkaAdmin
from jbm_kafka.registry.command_client import CommandClient, places_text, waited_for
from jbm_kafka.registry.own_topics import commands_topic, ensure_commands_topic

log = logging.getLogger(__name__)

Turns = Callable[[Sequence[Answer]], Mapping[str, Any] | None]
"""Gives the next question to one partition's owner, from its answers so far; None: nothing more."""

CALLED = {"dead-letter": "give-up"}
"""Verbs that are other words among owners."""
ASK_TIMEOUT_S = 60.0
"""For answers of receivers. One that has just died is found out by then, and what it had is with others."""
ASK_AGAIN_S = 3.0
"""Owners look every second; one that says nothing for longer may have gone before it answered."""


@dataclass(frozen=True, slots=True)
class OwnersAnswers:
    """Owners' answers to commands in turn."""

    answers: Mapping[int, Sequence[Answer]]
    """Answers by partition, in the order of the questions; the last one may be a refusal."""
    why_unanswered: str
    """Why there are no more."""


class Owners:
    """The owners of the partitions of one consumer group. One thread."""

    def __init__(
        self,
        kafka: Kafka,
        admin: KafkaAdmin,
        *,
        namespace: str,
        group: str,
        topic: str,
        become_owner: Callable[[], AbstractContextManager[object]],
    ) -> None:
        """`topic`: the group's; `become_owner` joins the group, and in its end leaves it."""
        self._kafka = kafka
        self._admin = admin
        self._topic = commands_topic(namespace)
        self._group = group
        self._group_topic = topic
        self._become_owner = become_owner

    def ask(
        self, verb: str, arguments: Mapping[int, Mapping[str, Any]], *, timeout_s: float
    ) -> Mapping[int, Mapping[str, Any]]:
        """Return what the owner of each partition answers to the verb with its arguments; what it did is durable.

        Raises:
            JMSError: not all answered, or one refused; others may have done what was asked.
        """
        asked = self.ask_in_turn(verb, {p: partial(_once, each) for p, each in arguments.items()}, timeout_s=timeout_s)
        unanswered = sorted(arguments.keys() - asked.answers.keys())
        if unanswered:
            raise JMSError(f"{_called(verb)}: {asked.why_unanswered}: again", partitions=unanswered)
        refused = sorted({answer.error for answers in asked.answers.values() for answer in answers if answer.error})
        if refused:
            raise JMSError(f"{_called(verb)}: {'; '.join(refused)}")
        return {partition: answers[0].result for partition, answers in asked.answers.items()}

    def ask_in_turn(self, verb: str, turns: Mapping[int, Turns], *, timeout_s: float) -> OwnersAnswers:
        """Ask the owner of each partition for one thing after the other; after one that it refuses for no more.

        It ends when nobody has answered for `timeout_s`. The log names once the processes that take longer than owners
        need.

        Raises:
            KafkaClientError: Kafka does not let us ask; some may have been done.
        """
        ensure_commands_topic(self._admin, self._topic)
        open_: dict[str, Command] = {}
        answers: dict[int, list[Answer]] = {}
        for partition in turns:
            self._next(open_, verb, partition, turns[partition](()))
        deadline_s = time.monotonic() + timeout_s
        with CommandClient(self._kafka, self._admin, self._topic) as asking, ExitStack() as ours:
            is_member = is_logged = False
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
                if open_ and not (is_logged or is_member):
                    is_logged, silent = True, _partitions(open_.values())
                    left_s = max(0.0, deadline_s - time.monotonic())
                    self._tell_late(verb, silent, left_s)
        silent = _partitions(open_.values())
        names = " and ".join(sorted({member.name for member in self._having(silent)})) if silent else ""
        why = (
            f"{names or 'nobody'} {'did not answer' if names else 'answered'} for {places_text(silent)} within "
            f"{timeout_s:g} s: the process that has that may have died, be frozen or hang, be of an older version, "
            f"be about to go, or not be allowed to read and write the topic {self._topic}"
        )
        return OwnersAnswers(answers, why)

    def _tell_late(self, verb: str, silent: Sequence[int], seconds: float) -> None:
        waits = waited_for(self._having(silent), silent, seconds)
        log.warning("%s %s %s", _called(verb), self._group_topic, waits)

    def _having(self, partitions: Collection[int]) -> Sequence[GroupMember]:
        """The members that have these partitions now."""
        members = self._admin.members(self._group, self._group_topic)
        return [member for member in members if member.partitions & set(partitions)]

    def _next(
        self, open_: dict[str, Command], verb: str, partition: int, arguments: Mapping[str, Any] | None
    ) -> Command | None:
        if arguments is None:
            return None
        asked_at_ms = time.time_ns() // 1_000_000
        command = Command(secrets.token_hex(8), self._group, partition, verb, arguments, asked_at_ms)
        open_[command.id] = command
        return command


def _called(verb: str) -> str:
    """As whoever typed it knows it."""
    return CALLED.get(verb, verb)


def _once(arguments: Mapping[str, Any], answers: Sequence[Answer]) -> Mapping[str, Any] | None:
    return None if answers else arguments


def _partitions(commands: Iterable[Command]) -> Sequence[int]:
    return sorted(command.partition for command in commands)
