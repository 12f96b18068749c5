"""A lane's part in checkpoints: freeze what is dirty, and learn how it ended. Owner thread only."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jbm_kafka.core.changes import Acknowledged
from jbm_kafka.core.entries import ChannelEvents, MessageEvent
from jbm_kafka.core.freeze import Freeze
from jbm_kafka.core.reference import LEAVING, SessionId
from jbm_kafka.core.verdicts import unknown_offsets
from jbm_kafka.ports import GroupFenced
from jbm_kafka.sidecar.assignment import taken
from jbm_kafka.sidecar.owned_channel import OwnedChannel
from jbm_kafka.sidecar.transfer import Settling, Transfer

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane


@dataclass(frozen=True, slots=True, eq=False)
class FrozenChannel:
    """One channel's part of a checkpoint."""

    channel: OwnedChannel
    freeze: Freeze
    events: ChannelEvents | None
    settlings: Sequence[Settling]
    """Tentative: applied when the checkpoint is durable."""


@dataclass(frozen=True, slots=True, eq=False)
class FrozenLane:
    """One lane's part of a checkpoint."""

    lane: Lane
    group_metadata: object
    """Member and generation at the freeze; None when the lane is no member: then there are no channels."""
    channels: Sequence[FrozenChannel]
    refused: frozenset[Transfer]
    """Transfers whose messages are no longer in the hand they were in."""


class FreezeRequest:
    """What the checkpointer asks of a lane. Either it is answered in time or it is withdrawn, never both."""

    def __init__(self, checkpoint_id: str, transfers: Sequence[Transfer]) -> None:
        self.checkpoint_id = checkpoint_id
        self.transfers = transfers
        """Those that settle messages of the lane."""
        self.is_answered = threading.Event()
        self.is_withdrawn = False
        self._reply: FrozenLane | None = None
        self._lock = threading.Lock()

    def answer(self, reply: FrozenLane) -> bool:
        """The lane's answer; False when nobody waits for it any more, so that nobody will tell how it ended."""
        with self._lock:
            if self.is_withdrawn:
                return False
            self._reply = reply
        self.is_answered.set()
        return True

    def take_or_withdraw(self) -> FrozenLane | None:
        """The answer, if it is here; else none will be taken any more."""
        with self._lock:
            self.is_withdrawn = self._reply is None
            return self._reply


class CheckpointPart:
    """Answers the checkpointer for one lane."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    def freeze(self, request: FreezeRequest) -> None:
        """Freeze every dirty channel, transfers included, and reply."""
        if request.is_withdrawn:
            return
        lane = self._lane
        # What sessions have said until now belongs into this checkpoint.
        lane.settle.take_all()
        refused = frozenset(transfer for transfer in request.transfers if not self._holds_all(transfer))
        try:
            metadata = None if lane.consumer is None else lane.consumer.group_metadata()
        except GroupFenced:
            metadata = None
        if metadata is None:
            request.answer(FrozenLane(lane, None, (), refused))
            return
        settlings: dict[OwnedChannel, list[Settling]] = {}
        for transfer in request.transfers:
            if transfer not in refused:
                for settling in transfer.of(lane):
                    settlings.setdefault(settling.channel, []).append(settling)
        channels = [
            self._freeze_channel(channel, request.checkpoint_id, settlings.get(channel, []))
            for channel in lane.channels.values()
            if channel.needs_checkpoint or channel in settlings
        ]
        frozen = FrozenLane(lane, metadata, channels, refused)
        if not request.answer(frozen):
            self.finish(frozen, durable=False)

    def _holds_all(self, transfer: Transfer) -> bool:
        offsets: dict[tuple[OwnedChannel, SessionId], list[int]] = defaultdict(list)
        for settling in transfer.of(self._lane):
            offsets[settling.channel, settling.session] += settling.offsets
        return all(
            not channel.is_lost and not unknown_offsets(channel.state, session, named)
            for (channel, session), named in offsets.items()
        )

    def _freeze_channel(
        self, channel: OwnedChannel, checkpoint_id: str, settlings: Sequence[Settling]
    ) -> FrozenChannel:
        tentative = frozenset(offset for settling in settlings for offset in settling.offsets)
        taken = channel.take_freeze(checkpoint_id, tentative)
        committed = [o for settling in settlings if settling.session != LEAVING for o in settling.offsets]
        leaving: list[MessageEvent] = [event for settling in settlings for event in settling.events]
        events = channel.events(checkpoint_id, self._lane.parts.clock.now_ms(), committed=committed, leaving=leaving)
        return FrozenChannel(channel, taken, events, settlings)

    def finish(self, frozen: FrozenLane, *, durable: bool) -> None:
        """The checkpoint is committed, or aborted."""
        for part in frozen.channels:
            channel = part.channel
            if channel.freeze is not part.freeze:
                continue
            waiters = channel.settle_freeze(durable=durable)
            if durable:
                for settling in part.settlings:
                    # The freeze told the changelog and the events already; only the live state follows.
                    channel.state.apply(Acknowledged(session=settling.session, offsets=settling.offsets, durable=True))
            else:
                self._return_orphans(part)
                if channel.is_lost:  # nobody tries again
                    channel.fail_waiters(taken(channel))
                    self._lane.settle.refuse_unrecorded(channel)
            for waiter in waiters:
                waiter.complete()

    def _return_orphans(self, part: FrozenChannel) -> None:
        """A session that closed while its commit was under way gave nothing back: it might have been committed."""
        present = {link.session_id for link in self._lane.links.values()} | {LEAVING}
        for session in dict.fromkeys(settling.session for settling in part.settlings):
            if session not in present:
                self._lane.settle.return_all(session)
