"""What sessions say of messages in their hands, carried to the channels. Owner thread only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from jbm_kafka.core.entries import MessageFate
from jbm_kafka.core.reference import DEPARTING, SessionId
from jbm_kafka.core.settlement import GivenBack, decide_return, unknown_offsets
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, Tap
from jbm_kafka.ports.fence import Verdict
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import refusal, taken_from_session, tell_refused
from jbm_kafka.sidecar.departures import Departures, event_of
from jbm_kafka.sidecar.group_data import GroupData
from jbm_kafka.sidecar.owned_channel import OwnedChannel, owned

T = TypeVar("T")


class Settle:
    """Verdicts of one lane's links."""

    def __init__(self, data: GroupData, departures: Departures, *, chance: Callable[[], float]) -> None:
        self._data = data
        self._departures = departures
        self._chance = chance

    def take_all(self) -> None:
        """Take what every link has enqueued."""
        for link in list(self._data.links.values()):
            self.take(link)

    def take(self, link: Link) -> None:
        """Acknowledgements first: a session settles before it gives back."""
        for tap in list(link.taps.values()):
            if tap.acked:
                self._acknowledge(tap, tap.take_acked())
        while link.verdicts and not _is_early(link.verdicts[0]):
            self._carry_out(link, link.verdicts.popleft())

    def _acknowledge(self, tap: Tap, offsets: Sequence[int]) -> None:
        channel, session = owned(tap), tap.session_id
        if not tap.is_lost:
            unknown = unknown_offsets(channel.state, session, offsets)
            if not unknown:
                channel.acknowledge_unawaited(tap, offsets)
                return
            known = set(offsets).difference(unknown)
            channel.acknowledge_unawaited(tap, [offset for offset in offsets if offset in known])
            offsets = unknown
        tell_refused(tap, offsets)

    def refuse_late(self, tap: Tap) -> None:
        """The channel is gone; acknowledgements that were on their way cannot be recorded."""
        tell_refused(tap, tap.take_acked())

    def refuse_unrecorded(self, channel: OwnedChannel) -> None:
        """The channel is gone; acknowledgements of it that no checkpoint records never will be recorded (ACK-9)."""
        by_tap: dict[Tap, list[int]] = {}
        for tap, offsets in channel.take_unrecorded():
            by_tap.setdefault(tap, []).extend(offsets)
        for tap, offsets in by_tap.items():
            tap.tell(refusal(channel, offsets))

    def _carry_out(self, link: Link, verdict: Verdict) -> None:
        error: Exception | None = None
        waits_for: list[OwnedChannel] = []
        for tap, offsets in _by_tap(verdict.acknowledged).items():
            channel = owned(tap)
            unknown = unknown_offsets(channel.state, link.session_id, offsets)
            if tap.is_lost or unknown:
                error = refusal(channel, offsets)
                continue
            channel.acknowledge(link.session_id, offsets)
            waits_for.append(channel)
        for tap, rows in _by_tap(verdict.returned).items():
            if not tap.is_lost:
                self.give_back(owned(tap), link.session_id, rows)
        if verdict.returned:
            link.return_is_done(verdict)
        if verdict.done is not None:
            _complete_when_durable(verdict.done, waits_for, error)

    def give_back(self, channel: OwnedChannel, session: SessionId, rows: Sequence[GivenBack]) -> None:
        """Return messages; what is out of attempts goes on its way, stragglers leave the session's buffers."""
        links = list(self._data.links_of(session))
        decision = decide_return(
            channel.state,
            session,
            [row for row in rows if row.offset not in channel.tentative],
            settings=channel.settings,
            now_ms=self._data.clock.now_ms(),
            chance=self._chance(),
            keep=channel.tentative,
            unread=self._unread(channel, session),
        )
        for change in decision.changes:
            channel.state.apply(change)
        returned = frozenset(reference.offset for reference, _ in decision.returned)
        for link in links:
            link.remove(channel.partition, returned)
        for reference, attempts in decision.returned:
            if attempts:
                channel.note(event_of(MessageFate.RETURNED, reference, attempts, None, "returned"))
        for leaving in decision.leaving:
            self._departures.send(channel, leaving)

    def return_uncounted(self, channel: OwnedChannel, session: SessionId, offsets: Iterable[int]) -> None:
        """Return what never reached the application."""
        self.give_back(channel, session, [GivenBack(offset, counted=False) for offset in offsets])

    def return_unread(self, link: Link) -> None:
        """Return a link's whole buffer uncounted."""
        self.return_deliveries(link, link.take_unread())

    def return_deliveries(self, link: Link, unread: Sequence[Delivery]) -> None:
        """Return these uncounted."""
        by_channel: dict[OwnedChannel, list[int]] = {}
        for delivery in unread:
            if not delivery.tap.is_lost:
                by_channel.setdefault(owned(delivery.tap), []).append(delivery.reference.offset)
        for channel, offsets in by_channel.items():
            self.return_uncounted(channel, link.session_id, offsets)

    def return_all(self, session: SessionId) -> None:
        """Return whatever a session that is gone still holds: counted, without a delay (REDELIVER-1)."""
        for channel in self._data.channels.values():
            held = channel.state.in_hand.get(session)
            if held:
                self.give_back(channel, session, [GivenBack(offset, counted=True, delay_ms=0) for offset in held])

    def take_from_sessions(self, channel: OwnedChannel) -> None:
        """Take what sessions hold of a channel that goes: it comes again marked, and that is no attempt (REDELIVER-1).

        They live, and their handlers may well succeed: only a rebalance came between.
        """
        self.take_all()
        self.tell_taken(channel)
        for session in [s for s, hand in channel.state.in_hand.items() if hand and s != DEPARTING]:
            unread = self._unread(channel, session)
            held = channel.state.in_hand[session]
            self.give_back(channel, session, [GivenBack(o, counted=False, was_seen=o not in unread) for o in held])
        for link in self._data.links.values():
            tap = link.taps.get(channel.partition)
            if tap is not None and tap.channel is channel:
                tap.is_lost = True

    def end_taps(self, link: Link) -> None:
        """The lane looks at the link no more: what another thread still acknowledges there is refused."""
        for tap in link.taps.values():
            tap.is_lost = True
            self.refuse_late(tap)

    def tell_taken(self, channel: OwnedChannel) -> None:
        """Tell each session at once what it holds in vain, but for commits under way: they tell of themselves."""
        for session, hand in channel.state.in_hand.items():
            links = list(self._data.links_of(session))
            if not hand or not links:
                continue
            settled = self._unread(channel, session) | channel.tentative
            taps = [tap for link in links if (tap := link.taps.get(channel.partition)) and tap.channel is channel]
            for tap in taps:
                settled |= frozenset(tap.acked)
            offsets = [offset for offset in hand if offset not in settled]
            if offsets:
                for tap in taps:
                    tap.taken = frozenset(offsets)
                links[0].on_trouble(taken_from_session(channel, offsets))

    def _unread(self, channel: OwnedChannel, session: SessionId) -> frozenset[int]:
        return frozenset(o for link in self._data.links_of(session) for o in link.unread(channel.partition))

    def want_alone(self, link: Link, count: int) -> None:
        """Serve a link that has siblings: what they have unread goes back first."""
        for sibling in link.siblings:
            self.return_unread(sibling)
        link.want_now(count)


def _is_early(verdict: Verdict) -> bool:
    """It gives back what a commit holds of whose end the lane has not heard yet, though its session has."""
    return any(row.offset in owned(tap).tentative for tap, row in verdict.returned if not tap.is_lost)


def _by_tap(rows: Sequence[tuple[Tap, T]]) -> dict[Tap, list[T]]:
    grouped: dict[Tap, list[T]] = {}
    for tap, value in rows:
        grouped.setdefault(tap, []).append(value)
    return grouped


def _complete_when_durable(done: Completion, channels: Sequence[OwnedChannel], error: Exception | None) -> None:
    """Complete once every channel's next checkpoint is durable; an error wins over that."""
    if error is not None or not channels:
        done.complete(error)
        return
    missing = len(channels)

    def one_is_durable(failure: Exception | None) -> None:
        nonlocal missing
        missing -= 1
        if failure is not None or not missing:
            done.complete(failure)

    for channel in channels:
        channel.wait_durable(Completion(one_is_durable))
