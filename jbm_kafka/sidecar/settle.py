"""What sessions say of messages in their hands, carried to the channels. Owner thread only."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from jbm_kafka.core.departure import Departure, route_of
from jbm_kafka.core.entries import MessageEvent, MessageFate
from jbm_kafka.core.errors import IllegalStateError
from jbm_kafka.core.reference import LEAVING, Reference, SessionId
from jbm_kafka.core.verdicts import GivenBack, decide_return, unknown_offsets
from jbm_kafka.sidecar.completion import Completion
from jbm_kafka.sidecar.config import COPY_RETRY_MS
from jbm_kafka.sidecar.fence import Verdict
from jbm_kafka.sidecar.grants import Granted, Tap
from jbm_kafka.sidecar.link import Link
from jbm_kafka.sidecar.owned_channel import OwnedChannel

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane

T = TypeVar("T")
log = logging.getLogger(__name__)


class Settle:
    """Verdicts of one lane's links."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._copies_to_retry: list[tuple[int, OwnedChannel, Departure]] = []
        """(when, channel, message): copies that could not be written; their units stay held."""

    def take_all(self) -> None:
        """Take what every link has enqueued."""
        for link in list(self._lane.links.values()):
            self.take(link)

    def take(self, link: Link) -> None:
        """Acknowledgements first: a session settles before it gives back."""
        for tap in list(link.taps.values()):
            if tap.acked:
                self._acknowledge(tap, tap.take_acked())
        while link.verdicts and not _is_early(link.verdicts[0]):
            self._carry_out(link, link.verdicts.popleft())

    def _acknowledge(self, tap: Tap, offsets: Sequence[int]) -> None:
        channel = tap.channel
        session = tap.link.session_id
        if not tap.is_lost:
            unknown = unknown_offsets(channel.state, session, offsets)
            if not unknown:
                channel.acknowledge_unawaited(tap, offsets)
                return
            known = set(offsets).difference(unknown)
            channel.acknowledge_unawaited(tap, [offset for offset in offsets if offset in known])
            offsets = unknown
        tap.link.on_trouble(refusal(channel, offsets))

    def refuse_late(self, tap: Tap) -> None:
        """The channel is gone; acknowledgements that were on their way cannot be recorded."""
        offsets = tap.take_acked()
        if offsets:
            tap.link.on_trouble(refusal(tap.channel, offsets))

    def refuse_unrecorded(self, channel: OwnedChannel) -> None:
        """The channel is gone; acknowledgements of it that no checkpoint records never will be recorded (ACK-9)."""
        by_link: dict[Link, list[int]] = {}
        for tap, offsets in channel.take_unrecorded():
            by_link.setdefault(tap.link, []).extend(offsets)
        for link, offsets in by_link.items():
            link.on_trouble(refusal(channel, offsets))

    def _carry_out(self, link: Link, verdict: Verdict) -> None:
        error: Exception | None = None
        waits_for: list[OwnedChannel] = []
        for tap, offsets in _by_tap(verdict.acknowledged).items():
            unknown = unknown_offsets(tap.channel.state, link.session_id, offsets)
            if tap.is_lost or unknown:
                error = refusal(tap.channel, offsets)
                continue
            tap.channel.acknowledge(link.session_id, offsets)
            waits_for.append(tap.channel)
        for tap, rows in _by_tap(verdict.returned).items():
            if not tap.is_lost:
                self.give_back(tap.channel, link.session_id, rows)
        if verdict.returned:
            link.return_is_done(verdict)
        if verdict.done is not None:
            _complete_when_durable(verdict.done, waits_for, error)

    def give_back(self, channel: OwnedChannel, session: SessionId, rows: Sequence[GivenBack]) -> None:
        """Return messages; what is out of attempts goes on its way, stragglers leave the session's buffers."""
        parts = self._lane.parts
        links = [x for x in self._lane.links.values() if x.session_id == session]
        decision = decide_return(
            channel.state,
            session,
            [row for row in rows if row.offset not in channel.tentative],
            settings=channel.settings,
            now_ms=parts.clock.now_ms(),
            chance=parts.chance(),
            keep=channel.tentative,
            unread=frozenset(offset for link in links for offset in link.unread(channel.partition)),
        )
        for change in decision.changes:
            channel.state.apply(change)
        returned = frozenset(reference.offset for reference, _ in decision.returned)
        for link in links:
            link.remove(channel.partition, returned)
        for reference, attempts in decision.returned:
            if attempts:
                channel.note(_event(MessageFate.RETURNED, reference, attempts, None, "returned"))
        for leaving in decision.leaving:
            self._leave(channel, leaving)

    def return_uncounted(self, channel: OwnedChannel, session: SessionId, offsets: Iterable[int]) -> None:
        """Return what never reached the application."""
        self.give_back(channel, session, [GivenBack(offset, counted=False) for offset in offsets])

    def return_unread(self, link: Link) -> None:
        """Return a link's whole buffer uncounted."""
        self.return_granted(link, link.take_unread())

    def return_granted(self, link: Link, unread: Sequence[Granted]) -> None:
        """Return these uncounted."""
        by_channel: dict[OwnedChannel, list[int]] = {}
        for granted in unread:
            if not granted.tap.is_lost:
                by_channel.setdefault(granted.tap.channel, []).append(granted.reference.offset)
        for channel, offsets in by_channel.items():
            self.return_uncounted(channel, link.session_id, offsets)

    def return_all(self, session: SessionId) -> None:
        """Return whatever a session that is gone still holds: counted, without a delay (REDELIVER-1)."""
        for channel in self._lane.channels.values():
            held = channel.state.in_hand.get(session)
            if held:
                self.give_back(channel, session, [GivenBack(offset, counted=True, delay_ms=0) for offset in held])

    def want_alone(self, link: Link, count: int) -> None:
        """Serve a link that has siblings: what they have unread goes back first."""
        for sibling in link.siblings:
            self.return_unread(sibling)
        link.want_now(count)

    # -- messages on their way out ---------------------------------------------------------------------------------

    def send_away(self, channel: OwnedChannel, leaving: Sequence[tuple[Reference, str]]) -> None:
        """Copy messages that LEAVING holds to the address their reason asks for."""
        for reference, reason in leaving:
            past = channel.state.past.get(reference.offset)
            self._leave(channel, Departure(reference, 0 if past is None else past.attempts, reason))

    def _leave(self, channel: OwnedChannel, leaving: Departure, *, is_first_try: bool = True) -> None:
        route = route_of(leaving.reason, channel.settings)
        event = _event(route.fate, leaving.reference, leaving.attempts, route.address, leaving.reason)
        offset = leaving.reference.offset
        if route.address is None:
            if offset in channel.state.in_hand.get(LEAVING, {}):
                channel.acknowledge(LEAVING, [offset])
            channel.note(event)
            return
        done = Completion(lambda error: self._lane.post(lambda: self._left(channel, leaving, error)))
        self._lane.copy_away(channel, leaving, event, done, trusts_compression=is_first_try)

    def _left(self, channel: OwnedChannel, leaving: Departure, error: Exception | None) -> None:
        """The copy is durable, and so is the end of the original; or it could not be written."""
        if error is None or channel.is_lost:
            return
        log.warning(
            "%s offset %d cannot leave for its dead-letter or expiry address: %s; its unit waits, next try in %d ms",
            channel.name,
            leaving.reference.offset,
            error,
            COPY_RETRY_MS,
        )
        retry_at_ms = self._lane.parts.clock.now_ms() + COPY_RETRY_MS
        self._copies_to_retry.append((retry_at_ms, channel, leaving))

    def retry_copies(self, now_ms: int) -> None:
        """Try again what could not be copied."""
        if not self._copies_to_retry:
            return
        due = [row for row in self._copies_to_retry if row[0] <= now_ms]
        self._copies_to_retry = [row for row in self._copies_to_retry if row[0] > now_ms]
        for _, channel, leaving in due:
            if not channel.is_lost and not channel.is_closing:
                self._leave(channel, leaving, is_first_try=False)


def refusal(channel: OwnedChannel, offsets: Sequence[int]) -> IllegalStateError:
    """What a session is told whose acknowledgement came too late."""
    some = ", ".join(str(offset) for offset in offsets[:5]) + (", …" if len(offsets) > 5 else "")
    return IllegalStateError(
        f"{channel.topic}[{channel.partition}]: acknowledgement of offset {some} refused: the messages were taken from "
        f"this session (its partition moved to another process, or it was away too long); they are delivered again",
        topic=channel.topic,
        partition=channel.partition,
        offsets=tuple(offsets),
    )


def _is_early(verdict: Verdict) -> bool:
    """It gives back what a commit holds of whose end the lane has not heard yet, though its session has."""
    return any(row.offset in tap.channel.tentative for tap, row in verdict.returned if not tap.is_lost)


def _by_tap(rows: Sequence[tuple[Tap, T]]) -> dict[Tap, list[T]]:
    grouped: dict[Tap, list[T]] = {}
    for tap, value in rows:
        grouped.setdefault(tap, []).append(value)
    return grouped


def _event(fate: MessageFate, reference: Reference, attempts: int, target: str | None, reason: str) -> MessageEvent:
    return MessageEvent(
        fate=fate, offset=reference.offset, unit=reference.unit, attempts=attempts, target=target, reason=reason
    )


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
