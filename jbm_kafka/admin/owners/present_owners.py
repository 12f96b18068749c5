"""Questions to the processes that own partitions now. No answer is an answer, too."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from jbm_kafka.codec.command_records import Answer, Command
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError
from jbm_kafka.registry.command_client import CommandClient
from jbm_kafka.registry.own_topics import commands_topic, ensure_commands_topic

PERHAPS_S = 4.0
"""Owners look every second, so each that is there has looked by then, twice."""


@dataclass(slots=True)
class OwnerAnswers:
    """The answers of partitions' owners."""

    results: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    """Results by partition."""
    silent: dict[int, str] = field(default_factory=dict)
    """Reasons why a partition that was asked has no result; empty: no answer in time."""
    not_asked: str = ""
    """Why not all could be asked, or heard; empty: they could."""


class PresentOwners:
    """The present owners of the partitions of one group. One thread."""

    def __init__(self, kafka: Kafka, admin: KafkaAdmin, *, namespace: str, group: str) -> None:
        self._kafka = kafka
        self._admin = admin
        self._topic = commands_topic(namespace)
        self._group = group

    def ask(
        self,
        verb: str,
        arguments: Mapping[int, Mapping[str, Any]],
        *,
        timeout_s: float,
        late: Callable[[Collection[int], float], None] = lambda partitions, seconds: None,
        perhaps: Collection[int] = (),
    ) -> OwnerAnswers:
        """Return what each of these partitions' owners says, of those that say it in time.

        Args:
            late: is called once, where some are waited for longer than an owner takes, with those and for how many
                seconds more at most.
            perhaps: partitions that no member of the group has now. A process that gives one up answers until its
                handlers are done; for one that may be gone the wait is short.
        """
        found = OwnerAnswers(silent=dict.fromkeys(arguments, ""))
        if not arguments:
            return found
        asked_at_ms = time.time_ns() // 1_000_000
        commands = [Command(secrets.token_hex(8), self._group, p, verb, v, asked_at_ms) for p, v in arguments.items()]

        def patience_s(still_open: Collection[Command]) -> float:
            is_sure = any(command.partition not in perhaps for command in still_open)
            return timeout_s if is_sure else min(timeout_s, PERHAPS_S)

        def answered(command: Command, answer: Answer) -> None:
            if answer.error:
                found.silent[command.partition] = answer.error
            else:
                del found.silent[command.partition]
                found.results[command.partition] = answer.result

        def are_late(still_open: Collection[Command], seconds: float) -> None:
            late([command.partition for command in still_open], seconds)

        try:
            ensure_commands_topic(self._admin, self._topic)
            with CommandClient(self._kafka, self._admin, self._topic) as asking:
                asking.ask(commands, patience_s=patience_s, answered=answered, late=are_late)
        except KafkaClientError as error:
            found.silent.clear()  # nobody can be blamed for no answer
            found.not_asked = str(error)
        return found
