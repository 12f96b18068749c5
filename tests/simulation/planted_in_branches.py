"""Faults planted into branches of transactions of several systems (ACK-10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from jbm_kafka.codec.branch_records import branches_in
from jbm_kafka.core.channel import freeze as freezing
from jbm_kafka.core.channel.branch import BranchRecord, BranchState
from jbm_kafka.core.channel.changes import BranchEnded, PassedToBranch
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.durable_state import DurableState
from jbm_kafka.core.channel.entries import Prepared
from jbm_kafka.core.channel.freeze import Freeze
from jbm_kafka.core.channel.holders import branch_holder
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.ports import Outgoing, TransactionalProducer
from jbm_kafka.registry.registry_log import Values
from jbm_kafka.sidecar.branches import branches, decider
from jbm_kafka.sidecar.branches.decider import Decider
from jbm_kafka.sidecar.channel import owned_channel
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FrozenChannel, FrozenGroup, Settling
from jbm_kafka.sidecar.stages import checkpoint_part
from jbm_kafka.sidecar.stages.checkpoint_part import CheckpointPart
from jbm_kafka.sidecar.stages.prepared import PreparedMessages

Plant = Callable[[pytest.MonkeyPatch], None]


def a_prepare_records_nothing_in_the_changelog(patch: pytest.MonkeyPatch) -> None:
    real = freezing.freeze

    def freeze(state: ChannelState, **arguments: Any) -> Freeze:
        return real(state, **{**arguments, "preparing": ()})

    patch.setattr(owned_channel, "freeze", freeze)


def a_recovery_forgets_what_is_prepared(patch: pytest.MonkeyPatch) -> None:
    def recover_prepared(self: DurableState, entry: Prepared) -> None:
        self.prepared[entry.branch] = frozenset()

    patch.setattr(DurableState, "_recover_prepared", recover_prepared)


def a_recovery_holds_no_unit(patch: pytest.MonkeyPatch) -> None:
    def give(self: ChannelState, known: Sequence[Reference]) -> list[Reference]:
        left = []
        for reference in known:
            branch = self.aside.pop(reference.offset, None)
            if branch is None:
                left.append(reference)
            else:
                self._hand(branch_holder(branch))[reference.offset] = Reference(
                    reference.offset, None, record=reference.record
                )
        return left

    patch.setattr(ChannelState, "_give_to_branches", give)


def a_decider_is_taken_over_by_an_id_of_its_own(patch: pytest.MonkeyPatch) -> None:
    """What fences nobody: a coordinator that was stopped commits after another has rolled back."""
    real = Decider._initialised

    def initialised(self: Decider, decider_id: str, *, is_own: bool) -> tuple[TransactionalProducer, Values]:
        return real(self, decider_id if is_own else f"{decider_id}-of-{self.own_id}", is_own=is_own)

    patch.setattr(Decider, "_initialised", initialised)


def a_decision_goes_by_what_was_read_before(patch: pytest.MonkeyPatch) -> None:
    real = Decider._initialised

    def initialised(self: Decider, decider_id: str, *, is_own: bool) -> tuple[TransactionalProducer, Values]:
        before = self._records.values()
        producer, values = real(self, decider_id, is_own=is_own)
        return producer, {**values, **before}

    patch.setattr(Decider, "_initialised", initialised)


def sends_go_before_the_decision(patch: pytest.MonkeyPatch) -> None:
    real = Decider._write

    def write(
        self: Decider,
        producer: TransactionalProducer,
        decisions: Mapping[str, BranchRecord],
        sends: Sequence[Outgoing],
    ) -> None:
        sender = self._kafka.sender()
        for record in sends:
            sender.send(record, None)
        sender.flush(1.0)
        real(self, producer, decisions, ())

    patch.setattr(Decider, "_write", write)


def a_recovered_branch_sends_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decider, "decode_sends", lambda branch, record, values: [])


def a_rollback_counts_nothing(patch: pytest.MonkeyPatch) -> None:
    real = PreparedMessages._end

    def end(self: PreparedMessages, channel: OwnedChannel, branch: str, state: BranchState) -> None:
        give_back = self._settle.give_back

        def uncounted(of: OwnedChannel, holder: str, modified: Sequence[Modified], **more: Any) -> None:
            give_back(of, holder, [Modified(each.offset, counted=False) for each in modified], **more)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self._settle, "give_back", uncounted)
            real(self, channel, branch, state)

    patch.setattr(PreparedMessages, "_end", end)


def what_has_ended_stays_in_the_changelog(patch: pytest.MonkeyPatch) -> None:
    def end_branch(self: DurableState, branch: str) -> None:
        del self.prepared[branch]

    patch.setattr(DurableState, "end_branch", end_branch)


def a_branch_is_removed_when_it_is_decided(patch: pytest.MonkeyPatch) -> None:
    def ended(values: Values, *, before_ms: int) -> list[bytes]:
        gone = [each.branch for each in branches_in(values) if each.record.state is not BranchState.PREPARED]
        return [key for key in values if key.decode().partition("|")[0] in gone]

    patch.setattr(branches, "keys_of_ended", ended)


def a_part_is_applied_and_not_told(patch: pytest.MonkeyPatch) -> None:
    def end(self: PreparedMessages, channel: OwnedChannel, branch: str, state: BranchState) -> None:
        holder = branch_holder(branch)
        offsets = list(channel.state.in_hand.get(holder, ()))
        if offsets and state is BranchState.COMMITTED:
            self._settle.acknowledge(channel, holder, offsets)
        elif offsets:
            self._settle.give_back(channel, holder, [Modified(offset, counted=True) for offset in offsets])
        channel.state.apply(BranchEnded(branch))

    patch.setattr(PreparedMessages, "_end", end)


def each_consumers_messages_pass_by_themselves(patch: pytest.MonkeyPatch) -> None:
    real = CheckpointPart.finish

    def split(part: FrozenChannel) -> FrozenChannel:
        each = [PassedToBranch(s.branch, {s.session: s.offsets}) for s in part.settlings if s.branch]
        return replace(part, passing=each)

    def finish(self: CheckpointPart, frozen: FrozenGroup, *, durable: bool) -> None:
        real(self, replace(frozen, channels=[split(part) for part in frozen.channels]), durable=durable)

    def prepare(self: DurableState, change: PassedToBranch) -> None:
        self.prepared[change.branch] = self.prepared.get(change.branch, frozenset()).union(change.offsets)

    patch.setattr(CheckpointPart, "finish", finish)
    patch.setattr(DurableState, "prepare", prepare)


def only_what_the_last_consumer_got_passes(patch: pytest.MonkeyPatch) -> None:
    def passing(settlings: Sequence[Settling]) -> list[PassedToBranch]:
        last = {each.branch: each for each in settlings if each.branch}
        return [PassedToBranch(branch, {each.session: each.offsets}) for branch, each in last.items()]

    patch.setattr(checkpoint_part, "_passing", passing)


EXPECTED: dict[Plant, tuple[str, ...]] = {
    a_prepare_records_nothing_in_the_changelog: ("replay_equals_live", "what_a_branch_has_never_comes"),
    a_recovery_forgets_what_is_prepared: ("replay_equals_live", "what_a_branch_has_never_comes"),
    a_recovery_holds_no_unit: ("unit_in_order",),
    a_decider_is_taken_over_by_an_id_of_its_own: ("one_decision_a_branch",),
    a_decision_goes_by_what_was_read_before: ("one_decision_a_branch",),
    sends_go_before_the_decision: ("sends_once_iff_committed",),
    a_recovered_branch_sends_nothing: ("sends_once_iff_committed",),
    a_rollback_counts_nothing: ("attempts_are_what_was_counted",),
    what_has_ended_stays_in_the_changelog: ("replay_equals_live", "nothing_stays_prepared"),
    a_branch_is_removed_when_it_is_decided: ("everything_is_finished", "nothing_stays_prepared"),
    a_part_is_applied_and_not_told: ("nothing_stays_prepared",),
    each_consumers_messages_pass_by_themselves: ("replay_equals_live", "everything_is_finished", "unit_in_order"),
    only_what_the_last_consumer_got_passes: ("everything_is_finished", "replay_equals_live"),
}
"""Each fault with the promises that may notice it first."""
