"""Faults planted into pauses, each a way in which a naive version breaks a promise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from jbm_kafka.codec.pause_record import NOTHING, Pause
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink
from jbm_kafka.registry.pauses import Pauses
from jbm_kafka.sidecar.channel.owned_channel import owned
from jbm_kafka.sidecar.destinations import Destinations
from jbm_kafka.sidecar.lane.group_worker import GroupWorkerParts
from jbm_kafka.sidecar.sidecar import Sidecar
from jbm_kafka.sidecar.stages.dispatch import Dispatch

Plant = Callable[[pytest.MonkeyPatch], None]


def one_process_ignores_it(patch: pytest.MonkeyPatch) -> None:
    real = Sidecar._group_worker_parts

    def parts(self: Sidecar, pauses: Pauses) -> GroupWorkerParts:
        made = real(self, pauses)
        if ".m0-" not in self._stores.transactional_id:
            return made
        return replace(made, pausing=replace(made.pausing, is_paused=lambda name: False))

    patch.setattr(Sidecar, "_group_worker_parts", parts)


def nobody_hears_of_one_that_comes_later(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Destinations, "follow_settings", lambda self: None)


def what_is_unread_stays_with_its_receiver(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Dispatch, "take_back", lambda self: setattr(self, "has_unmet_credit", False))


def what_is_acknowledged_on_arrival_is_handed_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PreAcknowledgedLink, "keep_back", lambda self: None)


def what_is_unread_counts_as_an_attempt(patch: pytest.MonkeyPatch) -> None:
    def take_back(self: Dispatch) -> None:
        self.has_unmet_credit = False
        for link in self._data.links.values():
            for delivery in link.take_unread() if link.buffer else ():
                if not delivery.lease.is_revoked:
                    self._settle.give_back(
                        owned(delivery.lease), link.terms.session_id, [Modified(delivery.offset, True)]
                    )

    patch.setattr(Dispatch, "take_back", take_back)


def it_never_ends(patch: pytest.MonkeyPatch) -> None:
    real, seen = Pauses.of, dict[str, Pause]()

    def of(self: Pauses, name: str) -> Pause:
        found = real(self, name)
        if found != NOTHING:
            seen[name] = found
        return seen.get(name, found)

    patch.setattr(Pauses, "of", of)


def sends_are_let_through(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pauses, "check_sendable", lambda self, destination: None)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    one_process_ignores_it: ("nothing_while_paused",),
    nobody_hears_of_one_that_comes_later: ("nothing_while_paused", "refused_while_paused"),
    what_is_unread_stays_with_its_receiver: ("nothing_while_paused",),
    what_is_acknowledged_on_arrival_is_handed_over: ("nothing_while_paused",),
    what_is_unread_counts_as_an_attempt: ("attempts_are_", "out_of_attempts"),
    it_never_ends: ("everything_is_finished", "sent_when_resumed"),
    sends_are_let_through: ("refused_while_paused",),
}
"""Each fault with the promises that may notice it first."""
