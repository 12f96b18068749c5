"""Faults planted into what operators do to a subscription's messages, each of which harms another subscription's."""

from __future__ import annotations

from typing import Any

import pytest

from jbm_kafka.codec.command_records import Command
from jbm_kafka.core.channel.operator_removal import OperatorRemoval
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.operators.operator_departures import OperatorDepartures
from tests.simulation.planted_in_moves import Plant


def every_subscription_of_the_topic_carries_it_out(patch: pytest.MonkeyPatch) -> None:
    """As if commands named a partition of the topic alone."""
    real = GroupWorkers.command

    def command(self: GroupWorkers, asked: Command, reply: Any) -> None:
        real(self, asked, reply)
        of = self.of(asked.group)
        if of is None:
            return
        for other in self.all():
            if other is not of and other.is_alive and other.data.group.topic == of.data.group.topic:
                other.command(asked, lambda answer: None)

    patch.setattr(GroupWorkers, "command", command)


def a_message_is_copied_for_one_subscription_only(patch: pytest.MonkeyPatch) -> None:
    """As if a copy were known by its message alone."""
    real = OperatorDepartures._copies
    copied_for: dict[bytes | None, str] = {}

    def copies(self: OperatorDepartures, errand: Any, found: OperatorRemoval, target: Any) -> Any:
        leaving, copied, too_large, behind = real(self, errand, found, target)
        group = self._data.group.group_id
        mine = [copy for copy in copied if copied_for.setdefault(copy.value, group) == group]
        return leaving, mine, too_large, behind

    patch.setattr(OperatorDepartures, "_copies", copies)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    every_subscription_of_the_topic_carries_it_out: ("exactly_one_dead_letter", "nothing_is_lost", "moved_when_asked"),
    a_message_is_copied_for_one_subscription_only: ("nothing_is_lost", "answered_is_done"),
}
"""Each fault with the promises that may notice it first."""
