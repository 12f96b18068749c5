"""Faults planted into what operators do to messages, each a way in which a naive version breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jbm_kafka.admin.messages.batches import Portions
from jbm_kafka.codec.command_records import Answer
from jbm_kafka.core.channel.changes import Acknowledged
from jbm_kafka.core.channel.departure import DEPARTS_BY, Departure
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.operator_removal import OperatorRemoval, find
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.ports import Outgoing
from jbm_kafka.sidecar.channel.departure_records import copy_of as copy_of_departure
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.operators import operator_departures
from jbm_kafka.sidecar.operators.operator_departures import OperatorDepartures
from tests.simulation.planted import send_before_the_transaction

Plant = Callable[[pytest.MonkeyPatch], None]


def copies_go_before_the_transaction(patch: pytest.MonkeyPatch) -> None:
    send_before_the_transaction(patch, lambda about: about.startswith("move of"))


def who_asks_again_gets_more_copies(patch: pytest.MonkeyPatch) -> None:
    """As after a crash between the copy and what it settles."""
    real = OperatorDepartures._copies

    def copies(self: OperatorDepartures, errand: Any, found: OperatorRemoval, target: Any) -> Any:
        leaving, copied, too_large, behind = real(self, errand, found, target)
        settled = [errand.known[offset] for offset in found.gone if offset in errand.known]
        again = replace(found, takeable=settled)
        return leaving, [*copied, *real(self, errand, again, target)[1]], too_large, behind

    patch.setattr(OperatorDepartures, "_copies", copies)


def the_last_of_a_unit_goes_first(patch: pytest.MonkeyPatch) -> None:
    real = OperatorDepartures._copies

    def copies(self: OperatorDepartures, errand: Any, found: OperatorRemoval, target: Any) -> Any:
        leaving, copied, too_large, behind = real(self, errand, found, target)
        return leaving, copied[::-1], too_large, behind

    patch.setattr(OperatorDepartures, "_copies", copies)


def what_is_behind_in_a_unit_goes_too(patch: pytest.MonkeyPatch) -> None:
    def find_all(state: Any, offsets: Any, known: Any, *, whole_units: bool) -> OperatorRemoval:
        return find(state, offsets, known, whole_units=False)

    patch.setattr(operator_departures, "find", find_all)


def a_later_portion_passes_what_stayed(patch: pytest.MonkeyPatch) -> None:
    def stuck(self: Portions, answers: Sequence[Answer]) -> frozenset[str]:
        return frozenset()

    patch.setattr(Portions, "_stuck", stuck)


def what_somebody_works_on_is_taken(patch: pytest.MonkeyPatch) -> None:
    def take_back(self: OperatorDepartures, channel: OwnedChannel, offsets: Sequence[int]) -> None:
        real(self, channel, offsets)
        for session, hand in list(channel.state.in_hand.items()):
            mine = set(hand).intersection(offsets).difference(channel.checkpoints.tentative)
            if session != DEPARTING and mine:
                self._settle.give_back(channel, session, [Modified(offset, counted=False) for offset in mine])

    real = OperatorDepartures._take_back_unread
    patch.setattr(OperatorDepartures, "_take_back_unread", take_back)


def it_is_answered_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    """A crash brings back what was removed."""
    real = OperatorDepartures._send

    def send(
        self: OperatorDepartures, errand: Any, route: Any, leaving: Any, copies: Any, result: dict[str, Any]
    ) -> None:
        real(self, errand, route, leaving, copies, result)
        self._answer(errand, Answer(errand.command.id, errand.channel.partition, result))

    patch.setattr(OperatorDepartures, "_send", send)


def what_cannot_be_written_is_gone_all_the_same(patch: pytest.MonkeyPatch) -> None:
    def put_back(self: OperatorDepartures, channel: OwnedChannel, references: Sequence[Any]) -> None:
        offsets = [reference.offset for reference in references]
        channel.state.apply(Acknowledged(DEPARTING, offsets, transition=DEPARTS_BY[MessageFate.REMOVED]))

    patch.setattr(OperatorDepartures, "_put_back", put_back)


def what_cannot_be_written_is_held_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OperatorDepartures, "_put_back", lambda self, channel, references: None)


def a_moved_message_loses_its_unit(patch: pytest.MonkeyPatch) -> None:
    real = copy_of_departure

    def copy_of(departure: Departure, **options: Any) -> tuple[Outgoing, bool]:
        copy, has_body = real(departure, **options)
        return Outgoing(copy.topic, copy.partition, None, copy.value, copy.headers), has_body

    patch.setattr(operator_departures, "copy_of", copy_of)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    copies_go_before_the_transaction: ("exactly_one_dead_letter", "nothing_is_lost"),
    who_asks_again_gets_more_copies: ("exactly_one_dead_letter", "one_copy_of_each"),
    the_last_of_a_unit_goes_first: ("units_move_in_order",),
    what_is_behind_in_a_unit_goes_too: ("units_move_whole", "unit_in_order"),
    a_later_portion_passes_what_stayed: ("units_move_whole", "units_move_in_order"),
    what_somebody_works_on_is_taken: ("in_hand_stays", "one_session_at_a_time"),
    it_is_answered_before_it_is_durable: ("answered_is_done",),
    what_cannot_be_written_is_gone_all_the_same: ("nothing_is_lost",),
    what_cannot_be_written_is_held_for_ever: ("all_is_moved", "everything_is_finished"),
    a_moved_message_loses_its_unit: ("units_stay",),
}
"""Each fault with the promises that may notice it first."""
