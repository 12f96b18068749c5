"""A channel group's part in checkpoints: freeze what is dirty, and learn how it ended. Owner thread only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from jbm_kafka.core.channel.changes import Acknowledged, PassedToBranch
from jbm_kafka.core.channel.entries import MessageEvent
from jbm_kafka.core.channel.holders import kind_of
from jbm_kafka.core.channel.reference import SessionId
from jbm_kafka.core.channel.settlement import units_of, unknown_offsets
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import GroupFenced
from jbm_kafka.ports.refusals import MEANWHILE, taken
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FreezeRequest, FrozenChannel, FrozenGroup, Settling, Transfer
from jbm_kafka.sidecar.stages.settle import Settle


class CheckpointPart:
    """Implements `Participant` for one group worker: answers the checkpointer."""

    def __init__(
        self,
        data: GroupData,
        settle: Settle,
        *,
        is_alive: Callable[[], bool],
        give_up: Callable[[Exception], None],
        topic_gone: Callable[[], None],
        look_at_topics: Callable[[], None],
    ) -> None:
        self._data = data
        self._settle = settle
        self._is_alive = is_alive
        self._give_up = give_up
        self._topic_gone = topic_gone
        self._look_at_topics = look_at_topics

    # -- any thread ------------------------------------------------------------------------------------------------

    @property
    def group(self) -> ChannelGroup:
        return self._data.group

    @property
    def is_alive(self) -> bool:
        return self._is_alive()

    def ask(self, request: FreezeRequest) -> bool:
        return self._is_alive() and self._data.mailbox.post(lambda: self.freeze(request))

    def notify_end(self, frozen: FrozenGroup, *, durable: bool) -> None:
        self._data.mailbox.post(lambda: self.finish(frozen, durable=durable))

    def then(self, call: Callable[[], None]) -> bool:
        return self._is_alive() and self._data.mailbox.post(call)

    def give_up(self, error: Exception) -> None:
        self._data.mailbox.post(lambda: self._give_up(error))

    def unrecorded(self, error: JMSError | None) -> None:
        self._data.mailbox.post(lambda: self._data.note_unrecorded(error))

    def topic_gone(self) -> None:
        self._data.mailbox.post(self._topic_gone)

    def changelog_gone(self) -> None:
        self._look_at_topics()

    # -- the owner thread ------------------------------------------------------------------------------------------

    def freeze(self, request: FreezeRequest) -> None:
        """Freeze every dirty channel, transfers included, and reply."""
        if request.is_withdrawn:
            return
        # What sessions have said until now belongs into this checkpoint.
        self._settle.take_all()
        refused = self._refused(request.transfers)
        consumer = self._data.consumer
        try:
            metadata = None if consumer is None else consumer.group_metadata()
        except GroupFenced:
            metadata = None
        if metadata is None:
            request.answer(FrozenGroup(self, None, (), refused))
            return
        settlings: dict[OwnedChannel, list[Settling]] = {}
        for transfer in request.transfers:
            if transfer not in refused:
                for settling in transfer.of(self):
                    settlings.setdefault(settling.channel, []).append(settling)
        channels = [
            self._freeze_channel(channel, request.checkpoint_id, settlings.get(channel, []))
            for channel in self._data.channels.values()
            if channel.needs_checkpoint or channel in settlings
        ]
        frozen = FrozenGroup(self, metadata, channels, refused)
        if not request.answer(frozen):
            self.finish(frozen, durable=False)

    def _refused(self, transfers: Sequence[Transfer]) -> frozenset[Transfer]:
        """Return those whose messages are not in their sessions' hands any more, and of branches those of which another
        branch has, or is about to have, earlier messages of a unit: it may give them back."""
        refused: set[Transfer] = set()
        passing: set[tuple[OwnedChannel, bytes]] = set()
        for transfer in transfers:
            offsets: dict[tuple[OwnedChannel, SessionId], list[int]] = defaultdict(list)
            for settling in transfer.of(self):
                offsets[settling.channel, settling.session] += settling.offsets
            if any(
                channel.is_lost or unknown_offsets(channel.state, session, offsets[channel, session])
                for channel, session in offsets
            ):
                refused.add(transfer)
            elif any(settling.branch for settling in transfer.of(self)):
                units = {
                    (channel, unit)
                    for (channel, session), named in offsets.items()
                    for unit in units_of(channel.state, session, named)
                }
                if units.isdisjoint(passing) and not any(unit in channel.state.gates.before for channel, unit in units):
                    passing |= units
                else:
                    refused.add(transfer)
        return frozenset(refused)

    def _freeze_channel(
        self, channel: OwnedChannel, checkpoint_id: str, settlings: Sequence[Settling]
    ) -> FrozenChannel:
        passing = _passing(settlings)
        settled = [settling for settling in settlings if not settling.branch]
        tentative = frozenset(offset for settling in settled for offset in settling.offsets)
        taken = channel.take_freeze(checkpoint_id, tentative, passing)
        committed = [o for settling in settled if kind_of(settling.session).has_receiver for o in settling.offsets]
        leaving: list[MessageEvent] = [event for settling in settlings for event in settling.events]
        events = channel.events(checkpoint_id, self._data.clock.now_ms(), committed=committed, leaving=leaving)
        parked, applied = channel.parked.note(taken.parked_count), channel.checkpoints.frozen_applied
        return FrozenChannel(channel, taken, events, settlings, passing, applied, parked)

    def finish(self, frozen: FrozenGroup, *, durable: bool) -> None:
        """The checkpoint is committed, or aborted."""
        for part in frozen.channels:
            channel = part.channel
            if channel.checkpoints.freeze is not part.freeze:
                continue
            if durable:
                for settling in part.settlings:  # while what passes to the branch cannot be given back
                    if settling.branch and not settling.keeps_later:
                        self._settle.return_beside(channel, settling.session, settling.offsets)
            waiters = channel.settle_freeze(durable=durable)
            if durable:
                for passed in part.passing:
                    channel.state.apply(passed)
                for settling in part.settlings:
                    if settling.branch:
                        continue
                    if kind_of(settling.session).has_receiver and settling.offsets:
                        self._settle.note_acknowledged(channel, settling.session, settling.offsets)
                    # The changelog and the events have it by the freeze; only the live state follows.
                    channel.state.apply(
                        Acknowledged(settling.session, settling.offsets, durable=True, transition=settling.transition)
                    )
            else:
                self._return_orphans(part)
                if channel.is_lost:  # nobody tries again
                    channel.checkpoints.fail_waiters(taken(channel, MEANWHILE))
                    self._settle.refuse_unrecorded(channel)
            for waiter in waiters:
                waiter.complete()

    def _return_orphans(self, part: FrozenChannel) -> None:
        """A session that closed while its commit was under way gave nothing back: it might have been committed."""
        present = {link.terms.session_id for link in self._data.links.values()}
        for session in dict.fromkeys(settling.session for settling in part.settlings):
            if session not in present and kind_of(session).returns_when_lost:
                self._settle.return_all(session)


def _passing(settlings: Sequence[Settling]) -> list[PassedToBranch]:
    """Return what branches get of a channel: one change for each, of all consumers that got it."""
    taken: dict[str, dict[SessionId, list[int]]] = {}
    for settling in settlings:
        if settling.branch:
            taken.setdefault(settling.branch, {}).setdefault(settling.session, []).extend(settling.offsets)
    return [PassedToBranch(branch, by_session) for branch, by_session in taken.items()]
