"""One channel while this sidecar owns its partition: the state, its checkpoints, and who waits for them.

Touched by its group worker's thread only, except the plain attributes that never change.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.changes import Acknowledged, OfferedRaised, TimePassed
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.departure import attempts_before_departure
from jbm_kafka.core.entries import ChannelEvents, MessageEvent
from jbm_kafka.core.freeze import Freeze, freeze
from jbm_kafka.core.offered_target import USUAL, OfferedLimits, OfferedPace
from jbm_kafka.core.offset_ranges import ranges_of
from jbm_kafka.core.reference import SessionId
from jbm_kafka.core.settlement import decide_kept
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog
from jbm_kafka.sidecar.channel.channel_checkpoints import ChannelCheckpoints
from jbm_kafka.sidecar.channel.channel_memory import ChannelMemory
from jbm_kafka.sidecar.channel.delivery_times import HandOvers
from jbm_kafka.sidecar.channel.hold_failures import HoldFailures
from jbm_kafka.sidecar.channel.offered_mark import OfferedMark

EVERY_OFFSET = 1 << 62
"""No message lies beyond it."""


class OwnedChannel:
    """A partition's channel from its recovery to its release."""

    def __init__(
        self,
        *,
        topic: str,
        partition: int,
        state: ChannelState,
        settings: ResolvedSettings,
        changelog: ChannelChangelog,
        records_attempts: bool = False,
        offered_limits: OfferedLimits = USUAL,
        offered_pace: OfferedPace | None = None,
    ) -> None:
        """`offered_pace`: of the channels beside it; None: there are none."""
        self.topic = topic
        self.partition = partition
        self.settings = settings
        self.attempts_max = attempts_before_departure(settings)
        """Attempts after which a message leaves; UNLIMITED_ATTEMPTS when it stays for an operator."""
        self.state = state
        self.changelog = changelog
        self.mark = OfferedMark(state, offered_limits, offered_pace or OfferedPace())
        self.checkpoints = ChannelCheckpoints(records_attempts=records_attempts)
        self.memory = ChannelMemory(state)
        self.is_closing = False
        """No more hand-over: the partition is about to go."""
        self.is_lost = False
        """The partition is gone; nothing may be written."""
        self.hand_overs = HandOvers()
        """Since when receivers have what they have."""
        self.hold_failures = HoldFailures()
        """Why what is on hold failed, as far as this process knows."""

    @property
    def name(self) -> str:
        """For people and as the journal's key."""
        return f"{self.changelog.group}/{self.topic}/{self.partition}"

    @property
    def needs_checkpoint(self) -> bool:
        """Something is not in the changelog yet."""
        return self.state.is_dirty or self.mark.must_record or self.changelog.must_record or self.checkpoints.must_tell

    @property
    def is_awaited(self) -> bool:
        """Somebody waits for a checkpoint that has not begun, or is about to."""
        return self.checkpoints.is_next_awaited or self.mark.is_awaited(self.checkpoints.freeze)

    @property
    def is_awaiting_store(self) -> bool:
        """The held store has something that is missed in memory."""
        gates = self.state.gates
        return bool(gates.awaiting_load or gates.awaiting_look or self.state.shelf.is_awaited)

    def use(self, settings: ResolvedSettings) -> None:
        """Go by these from now on, whatever was counted under others."""
        self.settings = settings
        self.attempts_max = attempts_before_departure(settings)

    @property
    def holds_nothing(self) -> bool:
        """No session has anything of it in hand."""
        return not any(self.state.in_hand.values())

    @property
    def next_at_ms(self) -> int:
        """When the next delay ends, or something is to be fetched from the held store; wall clock."""
        timers, on_shelf = self.state.gates.timers, self.state.shelf.next_at_ms
        return min(timers[0][0], on_shelf) if timers else on_shelf

    def pass_time(self, now_ms: int, set_back_ms: int) -> None:
        """Let delays end; `set_back_ms` as in `SlewedClock`."""
        state = self.state
        if self.next_at_ms <= now_ms or state.set_back_ms != set_back_ms or state.time_ms == 0:
            state.apply(TimePassed(now_ms, set_back_ms))

    def begin_release(self) -> None:
        """On a clean release nothing is left that may have been handed over without a record of it.

        The call follows the return of everything in hand.
        """
        self.is_closing = True
        if self.checkpoints.attempted is None:
            self.mark.set_back()

    def acknowledge(self, session: SessionId, offsets: Sequence[int]) -> None:
        """Settle what the session holds of these; the caller has checked that it does."""
        self.state.apply(Acknowledged(session=session, offsets=offsets))
        self.checkpoints.note_acknowledged(offsets)
        self.checkpoints.forget_attempts(offsets)

    def acknowledge_unawaited(self, lease: PartitionLease, offsets: Sequence[int]) -> None:
        """As `acknowledge`; no call waits for the record."""
        self.acknowledge(lease.session_id, offsets)
        self.checkpoints.note_unawaited(lease, offsets)

    def take_freeze(self, checkpoint_id: str, tentative: Collection[int]) -> Freeze:
        """The channel's part of a checkpoint; `settle_freeze` must follow before the next."""
        assert self.checkpoints.freeze is None, self.name
        state, attempted = self.state, self.checkpoints.attempted
        taken = freeze(
            state,
            topic_id=self.changelog.topic_id,
            checkpoint_id=checkpoint_id,
            offered_position=(self.mark.target if attempted is None else max(state.watermark, state.redelivered_below)),
            tentative=tentative,
            attempted=attempted,
        )
        state.apply(taken.frozen)
        self.checkpoints.begin(taken, tentative)
        return taken

    def events(
        self, checkpoint_id: str, at_ms: int, *, committed: Sequence[int], leaving: Sequence[MessageEvent]
    ) -> ChannelEvents | None:
        """What the taken freeze did, for jbm.events, with what its transfers do; None when nothing to any message."""
        acknowledged, messages = self.checkpoints.told(committed, leaving)
        if not acknowledged and not messages:
            return None
        return ChannelEvents(
            group=self.changelog.group,
            topic=self.topic,
            partition=self.partition,
            checkpoint_id=checkpoint_id,
            at_ms=at_ms,
            acknowledged=ranges_of(acknowledged),
            messages=tuple(messages),
        )

    def settle_freeze(self, *, durable: bool) -> list[Completion]:
        """The checkpoint's end is known. Returns whom to tell that everything they waited for is durable."""
        taken = self.checkpoints.freeze
        assert taken is not None, self.name
        if durable:
            self.state.apply(taken.durable)
            self.changelog.recorded()
            self.mark.recorded(taken.durable.offered_position)
        else:
            self.state.apply(taken.failed)
        return self.checkpoints.end(durable=durable)

    def recovered(self) -> None:
        """It is open."""
        self.state.apply(decide_kept(self.state, self.settings))
        is_exact = self.checkpoints.attempted is not None  # each hand-over is recorded by itself, and needs no mark
        self.state.apply(OfferedRaised(EVERY_OFFSET if is_exact else self.state.offered_position))
        self.mark.begin()


def owned(lease: PartitionLease) -> OwnedChannel:
    """The channel behind a lease: whoever gives leases to sessions made it."""
    channel = lease.channel
    assert isinstance(channel, OwnedChannel), channel
    return channel
