"""The parts of a checkpoint: transfers, and each channel group's frozen part. Values, and the call for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from jbm_kafka.core.channel.changes import PassedToBranch
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import ChannelEvents, MessageEvent
from jbm_kafka.core.channel.freeze import Freeze
from jbm_kafka.core.channel.reference import SessionId
from jbm_kafka.core.channel.states import ACKNOWLEDGED, Transition
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.registry.channel_group import ChannelGroup
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel


class Participant(Protocol):
    """A channel group of this process as the checkpointer sees it. Compared by identity; any thread may call."""

    @property
    def group(self) -> ChannelGroup:
        """Which one."""

    @property
    def is_alive(self) -> bool:
        """Its owner thread still carries out what is asked."""

    def ask(self, request: FreezeRequest) -> bool:
        """Have it freeze what is dirty and answer; not within the call. False: it has ended, and never will."""

    def notify_end(self, frozen: FrozenGroup, *, durable: bool) -> None:
        """The checkpoint that took this part is committed, or aborted."""

    def then(self, call: Callable[[], None]) -> bool:
        """Call it once everything that was told before is carried out. False: it has ended, and never will."""

    def give_up(self, error: Exception) -> None:
        """Nothing of it can be recorded any more: its receivers get the error."""

    def unrecorded(self, error: JMSError | None) -> None:
        """Kafka refuses to record anything of it, and goes on to; None: not any more."""

    def topic_gone(self) -> None:
        """Nothing of what its topic held can be recorded any more, for that is gone with it."""

    def changelog_gone(self) -> None:
        """Its changelog was deleted: it is to be made again, and then written anew."""


@dataclass(frozen=True, slots=True)
class Settling:
    """Messages of one channel in one session's hand."""

    channel: OwnedChannel
    session: SessionId
    offsets: Sequence[int]
    events: Sequence[MessageEvent] = ()
    """The events to tell of them in jbm.events; none: acknowledged."""
    branch: str = ""
    """Not settled but passed to this branch, which is prepared; empty: settled."""
    keeps_later: bool = False
    """The session keeps what it has behind them: the branch ends before anything more is settled of their units."""

    @property
    def transition(self) -> Transition:
        """The row of core/channel/states.py by which they leave."""
        return DEPARTS_BY[self.events[0].fate] if self.events else ACKNOWLEDGED


@dataclass(frozen=True, slots=True, eq=False)
class Transfer:
    """Sends and settled messages that become durable together, in one checkpoint (LOG-5), or fail together.

    A session's commit is one, a dead letter is one. Compared by identity: it is its own token in a transaction.
    """

    about: str
    """For people: whose it is."""
    sends: Sequence[Outgoing]
    settlings: Sequence[tuple[Participant, Settling]]
    done: Completion = field(default_factory=Completion)
    """Completed when durable; failed with what the caller should see."""
    expires_at_ms: int = 0
    """When the first of its sends expires, ms since the epoch; 0: never."""

    @property
    def participants(self) -> frozenset[Participant]:
        """Whose messages it settles."""
        return frozenset(participant for participant, _ in self.settlings)

    def of(self, participant: Participant) -> list[Settling]:
        """Return what it settles of one participant."""
        return [settling for owner, settling in self.settlings if owner is participant]


@dataclass(frozen=True, slots=True, eq=False)
class FrozenChannel:
    """One channel's part of a checkpoint."""

    channel: OwnedChannel
    freeze: Freeze
    events: ChannelEvents | None
    settlings: Sequence[Settling]
    """Tentative: applied when the checkpoint is durable."""
    passing: Sequence[PassedToBranch] = ()
    """The part of them that branches get."""
    applied: Sequence[tuple[str, str]] = ()
    """Branches that have ended here, and of each what became of its messages without a decision, if anything did."""
    parked: int | None = None
    """How many are parked, where that is to be written beside; None: it stands there."""


@dataclass(frozen=True, slots=True, eq=False)
class FrozenGroup:
    """One channel group's part of a checkpoint."""

    participant: Participant
    group_metadata: object
    """Member and generation at the freeze; None when the process is no member: then there are no channels."""
    channels: Sequence[FrozenChannel]
    refused: frozenset[Transfer]
    """Transfers whose messages are no longer in the hand they were in."""

    @property
    def group(self) -> ChannelGroup:
        """Which channel group."""
        return self.participant.group


class FreezeRequest:
    """The checkpointer's request to a participant. Either it is answered in time or it is withdrawn, never both."""

    def __init__(self, checkpoint_id: str, transfers: Sequence[Transfer]) -> None:
        self.checkpoint_id = checkpoint_id
        self.transfers = transfers
        """The transfers that settle messages of the participant."""
        self.is_answered = threading.Event()
        self.is_withdrawn = False
        self._reply: FrozenGroup | None = None
        self._lock = threading.Lock()

    def answer(self, reply: FrozenGroup) -> bool:
        """The answer; False when nobody waits for it any more, so that nobody will tell how it ended."""
        with self._lock:
            if self.is_withdrawn:
                return False
            self._reply = reply
        self.is_answered.set()
        return True

    def take_or_withdraw(self) -> FrozenGroup | None:
        """The answer, if it is here; else none will be taken any more."""
        with self._lock:
            self.is_withdrawn = self._reply is None
            return self._reply
