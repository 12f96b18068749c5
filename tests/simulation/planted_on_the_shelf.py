"""Faults planted into the shelf, each a way in which what waits on disk is lost, early, or comes twice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from jbm_kafka.core.channel.cold_index import ColdIndex, Place
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.unsettled import UnsettledOffsets
from jbm_kafka.memory.memory_log import MemoryRecord
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.stages import shelved
from jbm_kafka.sidecar.stages.shelved import ShelvedMessages

Plant = Callable[[pytest.MonkeyPatch], None]


def one_that_is_put_there_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = ColdIndex.put
    patch.setattr(ColdIndex, "put", lambda self, place, offsets: real(self, place, offsets[:-1] or offsets))


def what_has_come_back_stays_there(patch: pytest.MonkeyPatch) -> None:
    """So it comes again."""
    real = ShelvedMessages._take

    def take(self: ShelvedMessages, channel: OwnedChannel, place: Place, *rest: Any) -> Sequence[Reference]:
        references = real(self, channel, place, *rest)
        rows: list[tuple[bytes, int, KafkaRecord]] = []
        for reference in references:
            assert isinstance(reference.record, MemoryRecord)
            rows.append((shelved._store_key(place), reference.offset, reference.record))
        self._store.put(channel.name, rows)
        channel.state.shelf.put(place, [reference.offset for reference in references])
        return references

    patch.setattr(ShelvedMessages, "_take", take)


def its_time_never_comes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ColdIndex, "pass_time", lambda self, now_ms: None)


def a_selector_that_comes_is_not_asked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ColdIndex, "ask_anew", lambda self: None)


def what_comes_back_need_not_wait(patch: pytest.MonkeyPatch) -> None:
    real = shelved._of_place

    def of_place(records: Sequence[KafkaRecord], standing: UnsettledOffsets) -> Sequence[Reference]:
        references = real(records, standing)
        for reference in references:
            reference.delivery_time_ms = 0
        return references

    patch.setattr(shelved, "_of_place", of_place)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    one_that_is_put_there_is_forgotten: ("chosen_ones_come", "everything_is_finished", "unit_in_order"),
    what_has_come_back_stays_there: ("group worker", "nothing_comes_after_its_end"),  # an assertion of its own stops it
    its_time_never_comes: ("chosen_ones_come", "everything_is_finished"),
    a_selector_that_comes_is_not_asked: ("chosen_ones_come", "everything_is_finished"),
    what_comes_back_need_not_wait: ("not_before_its_time",),
}
"""Each fault with the promises that may notice it first."""
