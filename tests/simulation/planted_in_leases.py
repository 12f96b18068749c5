"""Faults planted into what processes hold together, each a way in which a naive version breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from jbm_kafka.codec.registry_records import ClientRecord
from jbm_kafka.core.destination import Queue
from jbm_kafka.registry import client_ids
from jbm_kafka.registry.client_ids import ClientIds
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.selector_sets import SelectorSets
from tests.simulation.planted_in_subscriptions import other_processes_are_thought_dead

Plant = Callable[[pytest.MonkeyPatch], None]


def the_dead_are_thought_alive(patch: pytest.MonkeyPatch) -> None:
    """As with a lease that no clock and no broker ends."""

    def living(self: ProcessLiveness, holders: Iterable[str]) -> frozenset[str]:
        return frozenset(holders)

    patch.setattr(ProcessLiveness, "living", living)


def who_selects_is_blind_to_who_does_not(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SelectorSets, "_wait_for_members_without", lambda self, queue, mine, deadline_ms: None)
    real = SelectorSets.check

    def check(self: SelectorSets, queue: Queue) -> None:
        if queue in self._held:
            real(self, queue)

    patch.setattr(SelectorSets, "check", check)


def who_comes_back_does_not_look(patch: pytest.MonkeyPatch) -> None:
    """Thought dead, it goes on with what it had."""
    patch.setattr(SelectorSets, "_hold_again", lambda self, queue, mine: None)


def who_comes_back_without_partitions_does_not_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SelectorSets, "_look_again", lambda self: None)


def who_comes_back_sees_only_who_is_recorded(patch: pytest.MonkeyPatch) -> None:
    """One without selectors, who came meanwhile, is not."""
    patch.setattr(SelectorSets, "_check_newcomers", lambda self, queue, mine, until_ms: None)


def who_closes_all_keeps_the_lease(patch: pytest.MonkeyPatch) -> None:
    def withdraw(self: SelectorSets, queue: Queue) -> None:
        del self._held[queue]

    patch.setattr(SelectorSets, "_withdraw", withdraw)


def only_the_first_selector_counts(patch: pytest.MonkeyPatch) -> None:
    """Of one process: what comes later is used without a word to others."""
    real = SelectorSets.claim

    def claim(self: SelectorSets, queue: Queue, *, is_joining: bool) -> None:
        if queue not in self._held:
            real(self, queue, is_joining=is_joining)

    patch.setattr(SelectorSets, "claim", claim)


def a_client_id_is_taken_without_comparing(patch: pytest.MonkeyPatch) -> None:
    def claim(values: Mapping[bytes, bytes], lives: Callable[[str], bool], client_id: str, mine: ClientRecord) -> Any:
        return real({}, lives, client_id, mine)

    real = client_ids._claim
    patch.setattr(client_ids, "_claim", claim)


def a_client_id_that_was_let_go_stays(patch: pytest.MonkeyPatch) -> None:
    def release(self: ClientIds, client_id: str, connection_id: str) -> None:
        self._held.pop(client_id, None)

    patch.setattr(ClientIds, "release", release)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    other_processes_are_thought_dead: (
        "others_are_refused",
        "those_who_receive_select_alike",
        "one_has_a_client_id",
        "let_in_when_nobody_minds",
    ),
    the_dead_are_thought_alive: ("let_in_when_nobody_minds", "a_free_client_id_is_had"),
    who_selects_is_blind_to_who_does_not: (
        "others_are_refused",
        "those_who_receive_select_alike",
        "let_in_when_nobody_minds",
    ),
    who_comes_back_does_not_look: ("others_are_refused", "those_who_receive_select_alike", "the_refused_is_told"),
    who_comes_back_without_partitions_does_not_look: ("the_refused_is_told", "those_who_receive_select_alike"),
    who_comes_back_sees_only_who_is_recorded: ("the_refused_is_told", "those_who_receive_select_alike"),
    who_closes_all_keeps_the_lease: ("let_in_when_nobody_minds",),
    only_the_first_selector_counts: (
        "others_are_refused",
        "those_who_receive_select_alike",
        "let_in_when_nobody_minds",
    ),
    a_client_id_is_taken_without_comparing: ("one_has_a_client_id",),
    a_client_id_that_was_let_go_stays: ("a_free_client_id_is_had",),
}
"""Each fault with the promises that may notice it first."""
