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
from jbm_kafka.core.offered_target import OfferedStep
from jbm_kafka.core.reference import SessionId
from jbm_kafka.core.settlement import decide_kept
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import PartitionLease
from jbm_kafka.ports.installation import RESERVE_OFFSETS
from jbm_kafka.sidecar.account import Account, ranges_of
from jbm_kafka.sidecar.hand_overs import HandOvers
from jbm_kafka.sidecar.hold_failures import HoldFailures


class OwnedChannel:
    """A partition's channel from its recovery to its release."""

    def __init__(
        self,
        *,
        group: str,
        topic: str,
        partition: int,
        topic_id: str,
        state: ChannelState,
        settings: ResolvedSettings,
        journal_channel: str,
        changelog_topic: str,
        changelog_position: int,
        obsolete: Sequence[bytes] = (),
        is_new_start: bool = False,
        records_attempts: bool = False,
        reserve_offsets: int = RESERVE_OFFSETS,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.settings = settings
        self.state = state
        self.records_attempts = records_attempts
        """Hand-overs are durable before the application sees the message (REDELIVER-7)."""
        self.journal_channel = journal_channel
        self.changelog_topic = changelog_topic
        self.changelog_position = changelog_position
        """The journal holds everything of the changelog below; the checkpointer's."""
        self.obsolete = obsolete
        """Changelog keys that recovery found without meaning: the first durable checkpoint deletes them."""
        self._must_record = is_new_start or bool(obsolete)
        """Recovery decided something that the changelog does not say yet."""
        self.is_closing = False
        """No more hand-over: the partition is about to go."""
        self.is_lost = False
        """The partition is gone; nothing may be written."""
        self.is_paused = False
        self.mean_body_bytes = 0
        """Rough size of a body here, from the latest fetch."""
        self._ahead = OfferedStep(reserve_offsets)
        self.offered_target = state.offered_position
        """The mark of possibly handed-over offsets that the next freeze records."""
        self._is_at_mark = False
        """The next message lies beyond the mark that is recorded."""
        self.is_releasing = False
        """The next durable freeze is the last: it records exactly what was handed over."""
        self.freeze: Freeze | None = None
        """Taken by a checkpoint whose end is not known yet."""
        self.tentative: frozenset[int] = frozenset()
        """What the taken freeze settles for its transfers: in hand until its end is known, come what may."""
        self._account = Account()
        self._frozen_account = Account()
        """That of the taken freeze."""
        self.hand_overs = HandOvers()
        """Since when receivers have what they have."""
        self.hold_failures = HoldFailures()
        """Why what is on hold failed, as far as this process knows."""

    @property
    def name(self) -> str:
        """For people and as the journal's key."""
        return f"{self.group}/{self.topic}/{self.partition}"

    @property
    def needs_checkpoint(self) -> bool:
        """Something is not in the changelog yet."""
        return (
            self.state.is_dirty
            or self.offered_target > self.state.offered_position
            or self.is_releasing
            or self._must_record
            or self._account.must_be_told
        )

    @property
    def is_awaited(self) -> bool:
        """Somebody waits for a checkpoint that has not begun, or is about to."""
        if self._account.waiters:
            return True
        if self.freeze is not None and self.freeze.durable.offered_position == self.offered_target:
            return False  # the one under way records the mark; another right behind it would record little else
        return self.is_releasing or (self.offered_target > self.state.offered_position and self._is_near_mark)

    @property
    def is_waited_for(self) -> bool:
        """Somebody waits for the end of the taken freeze."""
        return bool(self._frozen_account.waiters)

    @property
    def _is_near_mark(self) -> bool:
        return self._is_at_mark or self._ahead.is_short

    @property
    def waits_for_mark(self) -> bool:
        """Hand-over stands still until the raised mark is recorded."""
        return self._is_at_mark and self.offered_target > self.state.offered_position

    @property
    def is_awaiting_store(self) -> bool:
        """The held store has something that is missed in memory."""
        gates = self.state.gates
        return bool(gates.awaiting_load or gates.awaiting_look or self.state.shelf.is_awaited)

    @property
    def attempts_max(self) -> int:
        """Attempts after which a message leaves; UNLIMITED_ATTEMPTS when it stays for an operator."""
        return attempts_before_departure(self.settings)

    @property
    def holds_nothing(self) -> bool:
        """No session has anything of it in hand."""
        return not any(self.state.in_hand.values())

    def pass_time(self, now_ms: int, set_back_ms: int) -> None:
        """Let delays end; `set_back_ms` as in `SlewedClock`."""
        state = self.state
        timers = state.gates.timers
        is_due = (timers and timers[0][0] <= now_ms) or state.shelf.next_at_ms <= now_ms
        if is_due or state.set_back_ms != set_back_ms or state.time_ms == 0:
            state.apply(TimePassed(now_ms, set_back_ms))

    def raise_reserve(self, now_ms: int, *, is_at_mark: bool = False) -> None:
        """Record ahead that more may be handed over, unless enough is left (`OfferedStep.enough`).

        The next checkpoint is soon enough then, unless the last mark did not last. `is_at_mark`: what comes next lies
        beyond the mark, however far the last hand-over is from it: there may be a wide gap between them, such as a
        transaction that was aborted. That waits.
        """
        state = self.state
        self._is_at_mark = is_at_mark
        self._ahead.begin(now_ms)
        if self.offered_target != state.offered_position:
            return
        if is_at_mark:
            self.offered_target = max(
                state.delivered_position, state.watermark, self.offered_target
            ) + self._ahead.next_step(now_ms)
        elif state.delivered_position + self._ahead.enough > self.offered_target:
            self.offered_target = max(state.delivered_position, state.watermark) + self._ahead.next_step(now_ms)

    def begin_release(self) -> None:
        """On a clean release nothing is left that may have been handed over without a record of it.

        What was handed over is settled, or came back and is remembered with its attempts; so the mark goes back to
        where an earlier owner left it in doubt. The call follows the return of everything in hand.
        """
        self.is_closing = True
        in_doubt_below = max(self.state.watermark, self.state.redelivered_below)
        if self.offered_target > in_doubt_below:
            self.offered_target = in_doubt_below
            self.is_releasing = True

    def acknowledge(self, session: SessionId, offsets: Sequence[int]) -> None:
        """Settle what the session holds of these; the caller has checked that it does."""
        self.state.apply(Acknowledged(session=session, offsets=offsets))
        self._account.acknowledged.extend(offsets)

    def acknowledge_unawaited(self, lease: PartitionLease, offsets: Sequence[int]) -> None:
        """As `acknowledge`; no call waits for the record, so `take_unrecorded` names them while there is none."""
        self.acknowledge(lease.session_id, offsets)
        self._account.unawaited.append((lease, offsets))

    def take_unrecorded(self) -> Sequence[tuple[PartitionLease, Sequence[int]]]:
        """Acknowledgements that no call waits for and no checkpoint has recorded or is recording; each only once."""
        return self._account.take_unawaited()

    def note(self, event: MessageEvent) -> None:
        """Tell the next checkpoint's events."""
        self._account.events.append(event)

    def wait_durable(self, completion: Completion) -> None:
        """Complete when everything up to now is in the changelog."""
        self._account.waiters.append(completion)

    def wait_frozen(self, completion: Completion) -> None:
        """Complete when the end of the taken freeze is known: durable, or, of a lost channel, failed."""
        assert self.freeze is not None, self.name
        self._frozen_account.waiters.append(completion)

    def take_freeze(self, checkpoint_id: str, tentative: Collection[int]) -> Freeze:
        """The channel's part of a checkpoint; `settle_freeze` must follow before the next."""
        assert self.freeze is None, self.name
        taken = freeze(
            self.state,
            topic_id=self.topic_id,
            checkpoint_id=checkpoint_id,
            offered_position=self.offered_target,
            tentative=tentative,
            records_attempts=self.records_attempts,
        )
        self.state.apply(taken.frozen)
        self.freeze = taken
        self.tentative = frozenset(tentative)
        self._frozen_account, self._account = self._account, Account()
        return taken

    def events(
        self, checkpoint_id: str, at_ms: int, *, committed: Sequence[int], leaving: Sequence[MessageEvent]
    ) -> ChannelEvents | None:
        """What the taken freeze did, for jbm.events, with what its transfers do; None when nothing to any message."""
        told = self._frozen_account
        acknowledged, messages = [*told.acknowledged, *committed], [*told.events, *leaving]
        if not acknowledged and not messages:
            return None
        return ChannelEvents(
            group=self.group,
            topic=self.topic,
            partition=self.partition,
            checkpoint_id=checkpoint_id,
            at_ms=at_ms,
            acknowledged=ranges_of(acknowledged),
            messages=tuple(messages),
        )

    def settle_freeze(self, *, durable: bool) -> list[Completion]:
        """The checkpoint's end is known. Returns whom to tell that everything they waited for is durable."""
        taken = self.freeze
        assert taken is not None, self.name
        self.freeze = None
        self.tentative = frozenset()
        account, self._frozen_account = self._frozen_account, Account()
        if durable:
            self.state.apply(taken.durable)
            self._must_record, self.obsolete = False, ()
            self.is_releasing = self.is_releasing and taken.durable.offered_position != self.offered_target
            return account.waiters
        self.state.apply(taken.failed)
        self._account = account.continued(self._account)
        return []

    def recovered(self) -> None:
        """First mark after opening, so that the first hand-over need not wait for a checkpoint of its own."""
        self.state.apply(decide_kept(self.state, self.settings))
        self.state.apply(OfferedRaised(self.state.offered_position))
        self.offered_target = max(self.state.delivered_position, self.state.watermark) + self._ahead.step
        self._is_at_mark = True

    def fail_waiters(self, error: Exception) -> None:
        """The partition is gone: what no checkpoint has begun to record never will be. The others learn its end."""
        self._account.complete(error)

    def leave_in_doubt(self, error: Exception) -> None:
        """Nobody will tell how the taken freeze ended."""
        self._frozen_account.complete(error)


def owned(lease: PartitionLease) -> OwnedChannel:
    """The channel behind a lease: whoever gives leases to sessions made it."""
    channel = lease.channel
    assert isinstance(channel, OwnedChannel), channel
    return channel
