"""Faults planted into the product, each a way in which a naive version breaks a promise."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jbm_kafka.core.channel import offer
from jbm_kafka.core.channel.changes import Acknowledged, OfferedRaised
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.channel.unsettled import UnsettledOffsets
from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.core.receiving.unacknowledged import Unacknowledged
from jbm_kafka.jms.settling.acknowledge import (
    AcknowledgeStrategy,
    AutoAcknowledge,
    ClientAcknowledge,
    ExplicitAcknowledge,
    give_back,
)
from jbm_kafka.jms.settling.lazy_acknowledge import LazyAcknowledge
from jbm_kafka.jms.settling.transacted_acknowledge import TransactedAcknowledge
from jbm_kafka.memory.memory_producer import MemoryTransactionalProducer
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink
from jbm_kafka.ports.steps import Steps, Wait
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.offered_mark import OfferedMark
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FreezeRequest, FrozenChannel, FrozenGroup, Settling, Transfer
from jbm_kafka.sidecar.checkpoints.transaction import TransactionWriter
from jbm_kafka.sidecar.stages.checkpoint_part import CheckpointPart
from jbm_kafka.sidecar.stages.settle import Settle

Plant = Callable[[pytest.MonkeyPatch], None]


def send_before_the_transaction(patch: pytest.MonkeyPatch, is_meant: Callable[[str], bool]) -> None:
    """What some transfers copy is there whatever becomes of their transaction; `is_meant`: by what they are about."""
    real = TransactionWriter.commit

    def commit(
        self: TransactionWriter, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer], name: str
    ) -> Steps:
        inside = []
        for transfer in transfers:
            if is_meant(transfer.about):
                sender = self._kafka.sender()
                for record in transfer.sends:
                    sender.send(record, None)
                sender.flush(1.0)
                transfer = replace(transfer, sends=())
            inside.append(transfer)
        yield from real(self, frozen, inside, name)

    patch.setattr(TransactionWriter, "commit", commit)


def dead_letter_outside_the_transaction(patch: pytest.MonkeyPatch) -> None:
    send_before_the_transaction(patch, lambda about: about.endswith("to DLQ"))


def journal_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    real = TransactionWriter._produce

    def produce(
        self: TransactionWriter, producer: Any, frozen: Sequence[FrozenGroup], transfers: Sequence[Transfer]
    ) -> Steps:
        yield from real(self, producer, frozen, transfers)
        self.write_journal(frozen)

    patch.setattr(TransactionWriter, "_produce", produce)


def acknowledged_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    real = CheckpointPart._freeze_channel

    def freeze(self: CheckpointPart, channel: OwnedChannel, name: str, settlings: Sequence[Settling]) -> FrozenChannel:
        for settling in settlings:
            channel.state.apply(Acknowledged(settling.session, settling.offsets, transition=settling.transition))
        return real(self, channel, name, ())

    patch.setattr(CheckpointPart, "_freeze_channel", freeze)


def handed_over_before_it_is_reserved(patch: pytest.MonkeyPatch) -> None:
    real = OfferedMark.raise_ahead

    def raise_ahead(self: OfferedMark, now_ms: int, *, is_reached: bool = False) -> None:
        real(self, now_ms, is_reached=is_reached)
        self._state.apply(OfferedRaised(self.target))
        self.target = self._state.offered_position

    patch.setattr(OfferedMark, "raise_ahead", raise_ahead)


def group_metadata_read_when_it_is_used(patch: pytest.MonkeyPatch) -> None:
    """What does not fence: the metadata of the moment belongs to whoever the process is by now."""
    real = MemoryTransactionalProducer.send_offsets

    class Late:
        def __init__(self, data: GroupData) -> None:
            self.data = data

    def answer(frozen: FrozenGroup) -> FrozenGroup:
        if frozen.group_metadata is None:
            return frozen
        assert isinstance(frozen.participant, CheckpointPart)
        return replace(frozen, group_metadata=Late(frozen.participant._data))

    def send_offsets(self: MemoryTransactionalProducer, metadata: object, *rest: Any) -> None:
        if isinstance(metadata, Late):
            assert metadata.data.consumer is not None
            metadata = metadata.data.consumer.group_metadata()
        real(self, metadata, *rest)

    real_answer = FreezeRequest.answer
    patch.setattr(FreezeRequest, "answer", lambda self, reply: real_answer(self, answer(reply)))
    patch.setattr(MemoryTransactionalProducer, "send_offsets", send_offsets)


def stragglers_are_handed_out(patch: pytest.MonkeyPatch) -> None:
    real = Link.give_back

    def give_back(self: Link, *args: Any, **options: Any) -> None:
        real(self, *args, **options)
        self.hand.fenced.clear()

    patch.setattr(Link, "give_back", give_back)


def what_is_in_hand_has_no_place_in_the_prefetch(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ExplicitAcknowledge, "count", lambda self, link: 0)


def an_unknown_outcome_counts_as_failed(patch: pytest.MonkeyPatch) -> None:
    def find_out(
        self: TransactionWriter, frozen: Sequence[FrozenGroup], name: str, *_: object
    ) -> Generator[Wait, None, bool]:
        yield Wait()
        return False

    patch.setattr(TransactionWriter, "find_out", find_out)


def an_unknown_outcome_counts_as_committed(patch: pytest.MonkeyPatch) -> None:
    def find_out(
        self: TransactionWriter, frozen: Sequence[FrozenGroup], name: str, *_: object
    ) -> Generator[Wait, None, bool]:
        yield Wait()
        return True

    patch.setattr(TransactionWriter, "find_out", find_out)


def an_aborted_checkpoint_counts_as_recorded(patch: pytest.MonkeyPatch) -> None:
    real = CheckpointPart.finish

    def finish(self: CheckpointPart, frozen: FrozenGroup, *, durable: bool) -> None:
        for part in frozen.channels if not durable else ():
            part.channel.state.apply(part.freeze.durable)
        real(self, frozen, durable=durable)
        for part in frozen.channels if not durable else ():
            part.channel.state.durable.dirty_blocks.clear()
            part.channel.state.durable.dirty_held.clear()
            part.channel.state.durable.is_dirty = False

    patch.setattr(CheckpointPart, "finish", finish)


def the_watermark_passes_what_is_owed(patch: pytest.MonkeyPatch) -> None:
    real = UnsettledOffsets.first_without

    def first_without(self: UnsettledOffsets, default: int, also: Any, parked: UnsettledOffsets) -> int:
        return max([real(self, default, also, parked), *(int(offset) + 1 for offset in also)])

    patch.setattr(UnsettledOffsets, "first_without", first_without)


def what_a_rebalance_takes_counts(patch: pytest.MonkeyPatch) -> None:
    def take(self: Settle, channel: OwnedChannel) -> None:
        for session, held in list(channel.state.in_hand.items()):
            if session != DEPARTING:
                self.give_back(channel, session, [Modified(offset, counted=True, delay_ms=0) for offset in held])
        real(self, channel)

    real = Settle.take_from_sessions
    patch.setattr(Settle, "take_from_sessions", take)


def auto_acknowledges_when_it_hands_over(patch: pytest.MonkeyPatch) -> None:
    real = AutoAcknowledge.handed_over

    def handed_over(self: AutoAcknowledge, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        strategy = real(self, link, delivery)
        self.before_receive()
        return strategy

    patch.setattr(AutoAcknowledge, "handed_over", handed_over)


def client_acknowledges_later_ones_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Unacknowledged, "through", lambda self, last: self.at(places.SEEN))


def a_commit_leaves_one_out(patch: pytest.MonkeyPatch) -> None:
    real = TransactedAcknowledge._take_part
    patch.setattr(TransactedAcknowledge, "_take_part", lambda *args: dict(list(real(*args).items())[:1]))


def a_nack_counts_the_whole_unit(patch: pytest.MonkeyPatch) -> None:
    def nack_item(self: ClientAcknowledge, item: Delivery, delay_ms: int | None) -> None:
        rows = self._unacknowledged.unit_from(item)
        self._unacknowledged.apply(places.GIVE_BACK, rows)
        give_back(rows, delay_ms)

    patch.setattr(ClientAcknowledge, "nack_item", nack_item)


def dups_ok_finishes_when_it_hands_over(patch: pytest.MonkeyPatch) -> None:
    real = LazyAcknowledge.handed_over

    def handed_over(self: LazyAcknowledge, link: Link, delivery: Delivery) -> AcknowledgeStrategy:
        strategy = real(self, link, delivery)
        self._finish()
        return strategy

    patch.setattr(LazyAcknowledge, "handed_over", handed_over)


def dups_ok_forgets_its_number(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LazyAcknowledge, "_note_count_max", lambda self: setattr(self, "_count_max", 1_000))


def dups_ok_gives_back_what_it_finished(patch: pytest.MonkeyPatch) -> None:
    real = LazyAcknowledge.abandon

    def abandon(self: LazyAcknowledge) -> None:
        give_back(self._leave(places.GIVE_BACK))
        real(self)

    patch.setattr(LazyAcknowledge, "abandon", abandon)


def pre_acknowledges_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PreAcknowledgedLink, "_put", Link._put)


def a_selector_that_comes_is_not_asked_of_what_is_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChannelState, "in_memory", lambda self: iter(()))


def a_run_of_a_unit_goes_on_whoever_chooses_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(offer._Offering, "_is_for_others", lambda self, reference: False)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    what_is_in_hand_has_no_place_in_the_prefetch: ("within_its_prefetch",),
    dead_letter_outside_the_transaction: ("exactly_one_dead_letter", "nothing_is_lost"),
    journal_before_the_commit: ("journal_follows_the_changelog",),
    acknowledged_before_the_commit: (
        "nothing_is_lost",
        "sends_once_iff_committed",
        "unit_in_order",
        "one_session_at_a_time",
    ),
    handed_over_before_it_is_reserved: ("reserved_before_handed_over", "replay_equals_live"),
    group_metadata_read_when_it_is_used: ("at_most_one_owner_writes", "nothing_is_lost", "journal_follows"),
    stragglers_are_handed_out: ("unit_in_order",),
    an_unknown_outcome_counts_as_failed: ("sends_once_iff_committed", "exactly_one_dead_letter"),
    an_unknown_outcome_counts_as_committed: ("sends_once", "replay_equals", "durable_when_told", "journal_follows"),
    an_aborted_checkpoint_counts_as_recorded: (
        "replay_equals_live",
        "reserved_before_handed_over",
        "attempt_recorded_before_handed_over",
    ),
    what_a_rebalance_takes_counts: ("attempts_are_somebodys",),
    auto_acknowledges_when_it_hands_over: ("nothing_is_lost", "unit_in_order"),
    client_acknowledges_later_ones_too: ("unit_in_order", "nothing_is_lost", "refused_when_lost"),
    a_commit_leaves_one_out: ("sends_once_iff_committed",),
    a_nack_counts_the_whole_unit: ("attempts_are",),
    dups_ok_finishes_when_it_hands_over: ("lazy_not_in_hand", "unit_in_order", "nothing_is_lost"),
    dups_ok_forgets_its_number: ("lazy_in_number", "everything_is_finished"),
    dups_ok_gives_back_what_it_finished: ("attempts_are", "nothing_comes", "unit_in_order"),
    pre_acknowledges_nothing: ("everything_is_finished", "attempts_are", "nothing_comes_after_its_end"),
    a_selector_that_comes_is_not_asked_of_what_is_there: ("only_what_it_chooses",),
    a_run_of_a_unit_goes_on_whoever_chooses_it: ("only_what_it_chooses",),
    the_watermark_passes_what_is_owed: ("nothing_is_lost", "replay_equals_live"),
}
"""Each fault with the promises that may notice it first."""
