"""Faults planted into what is kept for an operator, and into what he asks of owners."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import pytest

from jbm_kafka.core.channel import settlement
from jbm_kafka.core.channel.changes import Released, ReturnedMessage
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.cold_index import ColdIndex
from jbm_kafka.core.channel.departure import OUT_OF_ATTEMPTS
from jbm_kafka.core.channel.on_hold import decide_released
from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.redelivery_states import RedeliveryState, RedeliveryStates
from jbm_kafka.core.channel.unit_of_order import Gate, Gates
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.operators import owner_commands
from jbm_kafka.sidecar.operators.owner_commands import OwnerCommands

Plant = Callable[[pytest.MonkeyPatch], None]


def a_release_is_of_everything(patch: pytest.MonkeyPatch) -> None:
    real = decide_released

    def all_released(state: ChannelState, offsets: Collection[int], *, again: bool) -> Released:
        return real(state, list(state.redeliveries) if offsets else [], again=again)

    patch.setattr(owner_commands, "decide_released", all_released)


def what_is_out_of_attempts_leaves_by_itself(patch: pytest.MonkeyPatch) -> None:
    real = settlement._returned_message

    def returned_message(state: ChannelState, *rest: Any) -> ReturnedMessage:
        message = real(state, *rest)
        if message.reason != settlement.HELD_FOR_OPERATOR:
            return message
        return ReturnedMessage(message.offset, message.attempts, 0, 0, OUT_OF_ATTEMPTS)

    patch.setattr(settlement, "_returned_message", returned_message)


def what_is_kept_lets_the_next_by(patch: pytest.MonkeyPatch) -> None:
    real = Gates.list_head

    def list_head(self: Gates, gate: Gate, *, due_at_ms: int, blocked: bool = False, must_leave: bool = False) -> None:
        if due_at_ms >= FOREVER_MS and len(gate.waiting) > 1:
            gate.waiting.rotate(-1)
            due_at_ms = 0
        real(self, gate, due_at_ms=due_at_ms, blocked=blocked, must_leave=must_leave)

    patch.setattr(Gates, "list_head", list_head)


def a_release_forgets_the_attempts(patch: pytest.MonkeyPatch) -> None:
    def release(self: OwnerCommands, channel: OwnedChannel, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        released = decide_released(channel.state, arguments["offsets"], again=True)
        channel.state.apply(released)
        return {"offsets": [message.offset for message in released.messages]}

    patch.setattr(OwnerCommands, "_release", release)


def what_was_let_go_stays_on_the_shelf(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ColdIndex, "fetch", lambda self, offsets, *, back_at_ms: None)


def a_row_loses_an_attempt(patch: pytest.MonkeyPatch) -> None:
    """What a checkpoint has written is kept otherwise than before."""
    real = RedeliveryStates._row_of

    def row_of(self: RedeliveryStates, state: RedeliveryState) -> bytes | None:
        return real(self, replace(state, attempts=max(state.attempts - 1, 0)))

    patch.setattr(RedeliveryStates, "_row_of", row_of)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    a_release_is_of_everything: ("only_what_was_released_is_dead",),
    what_is_out_of_attempts_leaves_by_itself: ("only_what_was_released_is_dead",),
    what_is_kept_lets_the_next_by: ("unit_in_order",),
    a_release_forgets_the_attempts: ("attempts_are_", "attempts_only_grow"),
    what_was_let_go_stays_on_the_shelf: ("everything_is_finished",),
    a_row_loses_an_attempt: ("replay_equals_live", "attempts_"),
}
"""Each fault with the promises that may notice it first."""
