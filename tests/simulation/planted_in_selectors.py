"""Faults planted into selectors of queues, each a way in which a naive version breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from jbm_kafka.core.channel import offer
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.unit_of_order import Gate, Gates
from jbm_kafka.sidecar.channel.selections import Selections

Plant = Callable[[pytest.MonkeyPatch], None]


def a_selector_is_asked_of_the_message_before(patch: pytest.MonkeyPatch) -> None:
    real = Selections.look

    def look(self: Selections, references: Iterable[Reference]) -> None:
        asked = list(references)
        real(self, asked)
        if self.is_selecting:
            chosen = [reference.chosen_by for reference in asked]
            for reference, chosen_by in zip(asked[1:], chosen, strict=False):
                reference.chosen_by = chosen_by

    patch.setattr(Selections, "look", look)


def a_head_that_nobody_chooses_lets_the_next_by(patch: pytest.MonkeyPatch) -> None:
    real = Gates.list_head

    def list_head(self: Gates, gate: Gate, *, due_at_ms: int, blocked: bool = False, must_leave: bool = False) -> None:
        real(self, gate, due_at_ms=due_at_ms, blocked=blocked, must_leave=must_leave)
        chosen = (each for each in list(gate.waiting)[1:] if each.chosen_by & self.present)
        by = next(chosen, None) if gate.is_unchosen else None
        if by is not None:
            gate.waiting.remove(by)
            gate.waiting.appendleft(by)
            real(self, gate, due_at_ms=due_at_ms, blocked=blocked, must_leave=must_leave)

    patch.setattr(Gates, "list_head", list_head)


def what_nobody_chose_stays_so(patch: pytest.MonkeyPatch) -> None:
    real = Gates.list_head

    def list_head(self: Gates, gate: Gate, *, due_at_ms: int, blocked: bool = False, must_leave: bool = False) -> None:
        if not gate.is_unchosen or due_at_ms or must_leave:
            real(self, gate, due_at_ms=due_at_ms, blocked=blocked, must_leave=must_leave)

    patch.setattr(Gates, "list_head", list_head)


def a_selector_that_comes_is_not_asked_of_what_is_there(patch: pytest.MonkeyPatch) -> None:
    def in_memory(self: ChannelState) -> Iterator[Reference]:
        return iter(())

    patch.setattr(ChannelState, "in_memory", in_memory)


def a_run_of_a_unit_goes_on_whoever_chooses_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offer._Offering, "_is_for_others", lambda self, reference: False)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    a_selector_is_asked_of_the_message_before: ("only_what_it_chooses", "chosen_ones_come"),
    a_head_that_nobody_chooses_lets_the_next_by: ("unit_in_order", "one_session_at_a_time"),
    what_nobody_chose_stays_so: ("chosen_ones_come", "everything_is_finished"),
    a_selector_that_comes_is_not_asked_of_what_is_there: ("only_what_it_chooses", "chosen_ones_come"),
    a_run_of_a_unit_goes_on_whoever_chooses_it: ("only_what_it_chooses",),
}
"""Each fault with the promises that may notice it first."""
