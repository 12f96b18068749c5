"""One channel while this sidecar owns its partition: the state, its checkpoints, and those that wait for them.

Touched by its group worker's thread only, except the plain attributes that never change.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping, Sequence
from typing import NamedTuple

from jbm_kafka.core.channel.changes import Acknowledged, OfferedRaised, PassedToBranch, TimePassed
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import attempts_before_departure
from jbm_kafka.core.channel.entries import ChannelEvents, MessageEvent
from jbm_kafka.core.channel.freeze import Freeze, freeze
from jbm_kafka.core.channel.holders import keeps_membership
from jbm_kafka.core.channel.offered_target import USUAL, OfferedLimits, OfferedPace
from jbm_kafka.core.channel.offset_ranges import ranges_of
from jbm_kafka.core.channel.reference import Reference, SessionId
from jbm_kafka.core.channel.settlement import decide_kept
from jbm_kafka.core.channel.unit_of_order import Gate
from jbm_kafka.core.log_times import LogTimes
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel import tuning as numbers
from jbm_kafka.sidecar.channel.channel_changelog import ChannelChangelog
from jbm_kafka.sidecar.channel.channel_checkpoints import ChannelCheckpoints
from jbm_kafka.sidecar.channel.offered_mark import OfferedMark
from jbm_kafka.sidecar.channel.parked_records import ParkedRecords

EVERY_OFFSET = 1 << 62
"""No message lies beyond it."""
ROWS_LEAST = 64


class ChannelMemory:
    """A channel's share of memory, estimated from the latest bodies read, and whether its partition is paused for
    that."""

    __slots__ = ("_state", "is_paused", "mean_body_bytes")

    def __init__(self, state: ChannelState) -> None:
        self._state = state
        self.is_paused = False
        self.mean_body_bytes = 0
        """Rough size of a body here, from the latest fetch."""

    @property
    def message_bytes(self) -> int:
        """Return what one message costs."""
        return numbers.RECORD_OVERHEAD_BYTES + self.mean_body_bytes

    @property
    def alone_bytes(self) -> int:
        """Return what a message costs that waits alone at a gate."""
        return numbers.GATE_BYTES + numbers.LINE_BYTES + self.message_bytes

    def gates_bytes(self, gates: Sequence[Gate]) -> int:
        """Return what leaves memory with these gates."""
        alone = sum([len(gate.waiting) for gate in gates])
        return len(gates) * numbers.GATE_BYTES + alone * (numbers.LINE_BYTES + self.message_bytes)

    @property
    def waiting_bytes(self) -> int:
        """Return what cannot be handed over, and what is remembered of it."""
        gates, redeliveries = self._state.gates, self._state.redeliveries
        in_line = min(len(gates.by_key), gates.waiting_count)
        return (
            len(gates.by_key) * numbers.GATE_BYTES
            + redeliveries.values_count * numbers.REDELIVERY_BYTES
            + redeliveries.rows_count * numbers.REDELIVERY_ROW_BYTES
            + redeliveries.blocks_count * numbers.REDELIVERY_BLOCK_BYTES
            + in_line * numbers.LINE_BYTES
            + gates.waiting_count * self.message_bytes
        )


class HandOver(NamedTuple):
    """One batch."""

    at_ms: int
    """As the channel's clock goes."""
    link_id: str
    session_id: SessionId
    offsets: Collection[int]


class HandOvers:
    """Since when receivers of a channel have what they have in hand, and which receiver of a session got it.

    For people who ask why a message does not move (decision 39). A row for each batch that was handed over, and none
    for a message: so it costs what a batch costs.
    """

    __slots__ = ("_look_at", "_rows")

    def __init__(self) -> None:
        self._rows: list[HandOver] = []
        self._look_at = ROWS_LEAST

    def note(
        self,
        link: Link,
        at_ms: int,
        references: Sequence[Reference],
        in_hand: Mapping[SessionId, Container[int]],
        *,
        is_ascending: bool,
    ) -> None:
        """These were given to the link at that time. `in_hand`: what each session has now, so that old rows go."""
        first, last = references[0].offset, references[-1].offset
        is_run = is_ascending and last - first + 1 == len(references)
        offsets: Collection[int] = range(first, last + 1) if is_run else frozenset([r.offset for r in references])
        self._rows.append(HandOver(at_ms, link.terms.link_id, link.terms.session_id, offsets))
        if len(self._rows) >= self._look_at:
            self._rows = [row for row in self._rows if _is_held(row, in_hand.get(row.session_id, ()))]
            self._look_at = max(ROWS_LEAST, 2 * len(self._rows))

    def last_of(self, offset: int) -> HandOver | None:
        """How a message that is in hand came there."""
        for row in reversed(self._rows):
            if offset in row.offsets:
                return row
        return None


def _is_held(row: HandOver, hand: Container[int]) -> bool:
    return any(offset in hand for offset in row.offsets)


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
        parked: ParkedRecords | None = None,
    ) -> None:
        """`offered_pace`: of the channels beside it; None: it is the only one."""
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
        self.parked = parked or ParkedRecords()
        self.is_closing = False
        """No more hand-over: the partition is about to go."""
        self.is_lost = False
        """The partition is gone; nothing may be written."""
        self.hand_overs = HandOvers()
        """Since when receivers have what they have."""
        self.sent_times = LogTimes()
        """When what is held was sent."""

    @property
    def name(self) -> str:
        """For people and as the journal's key."""
        return f"{self.changelog.group}/{self.topic}/{self.partition}"

    @property
    def held_from(self) -> int:
        """The lowest offset that is not settled, parked or not; where all are, the first that was not seen."""
        return self.state.unsettled.first(self.state.end_position)

    @property
    def needs_checkpoint(self) -> bool:
        """Something is not in the changelog yet."""
        if self.state.is_dirty or self.mark.must_record or self.changelog.must_record or self.parked.chosen:
            return True
        return self.checkpoints.must_tell or self.parked.must_note(len(self.state.durable.parked_bytes))

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
        """Nothing of it is in a hand that keeps the process in the group."""
        return not keeps_membership(self.state.in_hand)

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

    def take_freeze(
        self,
        checkpoint_id: str,
        tentative: Collection[int],
        preparing: Sequence[PassedToBranch] = (),
    ) -> Freeze:
        """The channel's part of a checkpoint; `settle_freeze` must follow before the next.

        `preparing`: what passes to branches.
        """
        assert self.checkpoints.freeze is None, self.name
        state, attempted = self.state, self.checkpoints.attempted
        taken = freeze(
            state,
            topic_id=self.changelog.topic_id,
            checkpoint_id=checkpoint_id,
            offered_position=(self.mark.target if attempted is None else max(state.watermark, state.redelivered_below)),
            tentative=tentative,
            attempted=attempted,
            preparing=preparing,
            parking=self.parked.take(),
        )
        state.apply(taken.frozen)
        self.checkpoints.begin(taken, [*tentative, *(o for each in preparing for o in each.offsets)])
        return taken

    def events(
        self, checkpoint_id: str, at_ms: int, *, committed: Sequence[int], leaving: Sequence[MessageEvent]
    ) -> ChannelEvents | None:
        """Return what the taken freeze did, for jbm.events, with what its transfers do; None when nothing to any
        message."""
        acknowledged, messages, deliveries = self.checkpoints.events_of(committed, leaving)
        if not (acknowledged or messages or deliveries):
            return None
        return ChannelEvents(
            group=self.changelog.group,
            topic=self.topic,
            partition=self.partition,
            checkpoint_id=checkpoint_id,
            at_ms=at_ms,
            acknowledged=ranges_of(acknowledged),
            messages=tuple(messages),
            topic_id=self.changelog.topic_id,
            deliveries=tuple(deliveries),
        )

    def settle_freeze(self, *, durable: bool) -> list[Completion]:
        """The checkpoint's end is known. Returns whom to tell that everything they waited for is durable."""
        taken = self.checkpoints.freeze
        assert taken is not None, self.name
        self.parked.ended(taken, durable=durable)
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
