"""Carries to the channels what sessions say of messages in their hands. Owner thread only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import cast

from jbm_kafka.codec.identity import message_id_of
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.holders import kind_of, returning
from jbm_kafka.core.channel.reference import Reference, SessionId
from jbm_kafka.core.channel.settlement import (
    HELD_FOR_OPERATOR,
    Modified,
    decide_return,
    uncounted,
    units_of,
    unknown_offsets,
)
from jbm_kafka.ports import KafkaRecord
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, Disposition, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import GONE, MOVED, notify_refused, refusal, taken_from_session
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel, owned
from jbm_kafka.sidecar.log_lines import partition_lines
from jbm_kafka.sidecar.stages.departures import Departures, event_of


class Settle:
    """Dispositions of one group worker's links."""

    def __init__(self, data: GroupData, departures: Departures, *, chance: Callable[[], float]) -> None:
        self._data = data
        self._departures = departures
        self._chance = chance

    def take_all(self) -> bool:
        """Take what links have enqueued; True: there was something."""
        links = self._data.links.values()
        said = [link for link in links if link.settlement.dispositions]
        said += [link for link in links for lease in link.settlement.leases.values() if lease.acked or lease.given]
        for link in dict.fromkeys(said):
            self.take(link)
        return bool(said)

    def take(self, link: Link) -> None:
        """Acknowledgements first: a session settles before it gives back."""
        leases, dispositions = link.settlement.leases, link.settlement.dispositions
        for lease in list(leases.values()):
            if lease.acked:
                self._acknowledge(lease, lease.take_acked())
        while dispositions and not _is_early(dispositions[0]):
            self._carry_out(link, dispositions.popleft())
        # After what was said of them: so nothing is told as acknowledged or returned before it is told as given.
        for lease in leases.values():
            if lease.given:
                self._note_given(link, lease)

    def _note_given(self, link: Link, lease: PartitionLease) -> None:
        """Told by the clock that delays end by, which is no less than the wall clock (SlewedClock)."""
        from_ms = self._data.clock.now_ms() - self._data.clock.monotonic_ms()
        owned(lease).checkpoints.note_given(lease.session_id, link.terms.mode, lease.take_given(), from_ms)

    def _acknowledge(self, lease: PartitionLease, offsets: Sequence[int]) -> None:
        channel = owned(lease)
        unknown = unknown_offsets(channel.state, lease.session_id, offsets)
        if unknown:  # such as what was taken from the session: its lease is revoked
            notify_refused(lease, unknown)
            known = set(offsets).difference(unknown)
            offsets = [offset for offset in offsets if offset in known]
        if offsets:
            self.note_acknowledged(channel, lease.session_id, offsets)
            channel.acknowledge_unawaited(lease, offsets)

    def acknowledge(self, channel: OwnedChannel, session: SessionId, offsets: Sequence[int]) -> None:
        """Settle what the session holds of these; the caller has checked that it does."""
        self.note_acknowledged(channel, session, offsets)
        channel.acknowledge(session, offsets)

    def note_acknowledged(self, channel: OwnedChannel, session: SessionId, offsets: Sequence[int]) -> None:
        """Count what the session is about to have settled; how long one of them took, and not each."""
        counters = self._data.counters
        counters.acknowledged += len(offsets)
        record = cast("KafkaRecord | None", channel.state.in_hand[session][offsets[0]].record)
        if record is not None and (sent_ms := record.timestamp()[1]) > 0:
            counters.send_to_acknowledge.note(max(0, self._data.clock.now_ms() - sent_ms) / 1000)

    def refuse_late(self, lease: PartitionLease) -> None:
        """The channel is gone; acknowledgements that were on their way cannot be recorded."""
        notify_refused(lease, lease.take_acked())

    def refuse_unrecorded(self, channel: OwnedChannel) -> None:
        """The channel is gone; acknowledgements of it that no checkpoint records never will be recorded (ACK-9)."""
        by_lease: dict[PartitionLease, list[int]] = {}
        for lease, offsets in channel.checkpoints.take_unrecorded():
            by_lease.setdefault(lease, []).extend(offsets)
        for lease, offsets in by_lease.items():
            lease.notify(refusal(channel, offsets))

    def _carry_out(self, link: Link, disposition: Disposition) -> None:
        error: Exception | None = None
        waits_for: list[OwnedChannel] = []
        acknowledged: dict[PartitionLease, list[int]] = {}
        for lease, offset in disposition.acknowledged:
            acknowledged.setdefault(lease, []).append(offset)
        for lease, offsets in acknowledged.items():
            channel = owned(lease)
            unknown = unknown_offsets(channel.state, link.terms.session_id, offsets)
            if lease.is_revoked or unknown:
                error = refusal(channel, offsets)
                continue
            self.acknowledge(channel, link.terms.session_id, offsets)
            waits_for.append(channel)
        returned: dict[OwnedChannel, list[Modified]] = {}
        for lease, row in disposition.returned:
            if not lease.is_revoked:
                returned.setdefault(owned(lease), []).append(row)
                if row.undeliverable_here:
                    self._note_undeliverable(link.terms.session_id, lease, row.offset)
        for channel, rows in returned.items():
            self.give_back(channel, link.terms.session_id, rows)
        if disposition.returned:
            link.return_is_done(disposition)
        if disposition.done is not None:
            _complete_when_durable(disposition.done, waits_for, error)
            self._data.note_waiting(disposition.done)

    def _note_undeliverable(self, session: SessionId, lease: PartitionLease, offset: int) -> None:
        """It is the receiver's that got it, which may be another one of the session than the one that says so."""
        for link in self._data.links_of(session):
            if link.settlement.leases.get(lease.channel.partition) is lease:
                self._data.note_undeliverable(link, owned(lease), offset)

    def give_back(self, channel: OwnedChannel, session: SessionId, rows: Sequence[Modified]) -> None:
        """Return messages; what is out of attempts goes on its way, stragglers leave the session's buffers."""
        links, tentative = list(self._data.links_of(session)), channel.checkpoints.tentative
        now_ms = self._data.clock.now_ms()
        decision = decide_return(
            channel.state,
            session,
            [row for row in rows if row.offset not in tentative],
            settings=channel.settings,
            now_ms=now_ms,
            chance=self._chance(),
            keep=tentative,
            unread=self._unread(channel, session),
        )
        for change in decision.changes:
            channel.state.apply(change)
        returned = frozenset(reference.offset for reference, _ in decision.returned)
        channel.checkpoints.forget_attempts(returned)
        channel.checkpoints.forget_attempts([leaving.reference.offset for leaving in decision.leaving])
        for link in links:
            link.remove(channel.partition, returned)
        for reference, message in decision.returned:
            if message.attempts or message.was_seen:  # an application had it, now or before
                event = event_of(MessageFate.RETURNED, reference, message.attempts, None, "returned", channel, now_ms)
                event = replace(event, due_at_ms=message.due_at_ms, delay_ms=message.delay_ms)
                channel.checkpoints.note(event)
                self._data.counters.returned += 1
            if message.attempts and channel.settings.on_dead_letter == "hold":
                self._note_held(channel, reference, message.attempts, rows)
        for leaving in decision.leaving:
            self._departures.send(channel, leaving)

    def _note_held(self, channel: OwnedChannel, reference: Reference, attempts: int, rows: Sequence[Modified]) -> None:
        redelivery = channel.state.redeliveries.get(reference.offset)
        if redelivery is not None and redelivery.reason == HELD_FOR_OPERATOR:
            failure = channel.state.durable.failures.get(reference.offset)
            self._departures.lines.held(channel.topic, channel.partition, reference, attempts, failure)

    def return_beside(self, channel: OwnedChannel, session: SessionId, offsets: Sequence[int]) -> None:
        """Return what the session has of the units of these, beside them: their units pass to another holder."""
        hand, unread = channel.state.in_hand[session], self._unread(channel, session)
        units, tentative = units_of(channel.state, session, offsets), channel.checkpoints.tentative
        beside = [o for o, reference in hand.items() if reference.unit in units and o not in tentative]
        if beside:
            self.give_back(channel, session, uncounted(beside, unread))

    def return_behind(self, channel: OwnedChannel, branch: SessionId) -> bool:
        """Return what sessions have behind the messages of a branch; False: a commit holds some of that."""
        units = units_of(channel.state, branch, channel.state.in_hand[branch]) & channel.state.gates.before.keys()
        for session, hand in list(channel.state.in_hand.items()) if units else ():
            behind = [offset for offset, reference in hand.items() if reference.unit in units]
            if behind and kind_of(session).returns_when_lost:
                self.give_back(channel, session, uncounted(behind, self._unread(channel, session)))
        return units.isdisjoint(channel.state.gates.before)

    def return_uncounted(self, channel: OwnedChannel, session: SessionId, offsets: Iterable[int]) -> None:
        """Return what never reached the application."""
        self.give_back(channel, session, uncounted(offsets, None))

    def return_unread(self, link: Link) -> None:
        """Return a link's whole buffer uncounted."""
        self.return_deliveries(link, link.take_unread())

    def return_deliveries(self, link: Link, unread: Sequence[Delivery]) -> None:
        """Return these uncounted."""
        by_channel: dict[OwnedChannel, list[int]] = {}
        for delivery in unread:
            if not delivery.lease.is_revoked:
                by_channel.setdefault(owned(delivery.lease), []).append(delivery.reference.offset)
        for channel, offsets in by_channel.items():
            self.return_uncounted(channel, link.terms.session_id, offsets)

    def return_all(self, session: SessionId) -> None:
        """Return whatever a session that is gone still holds: counted, without a delay (REDELIVER-1)."""
        for channel in self._data.channels.values():
            held = channel.state.in_hand.get(session)
            if held:
                self.give_back(channel, session, [Modified(offset, counted=True, delay_ms=0) for offset in held])

    def take_from_sessions(self, channel: OwnedChannel) -> None:
        """Take what sessions hold of a channel that goes: it comes again marked, and that is no attempt (REDELIVER-1).

        They live, and their handlers may well succeed: only a rebalance came between.
        """
        self.take_all()
        self.notify_taken(channel, MOVED)
        for session in [session for session, hand in returning(channel.state.in_hand) if hand]:
            held = channel.state.in_hand[session]
            self.give_back(channel, session, uncounted(held, self._unread(channel, session)))
        for link in self._data.links.values():
            lease = link.settlement.leases.get(channel.partition)
            if lease is not None and lease.channel is channel:
                lease.is_revoked = True

    def revoke_leases(self, link: Link) -> None:
        """The group worker looks at the link no more: what another thread still acknowledges there is refused."""
        for lease in link.settlement.leases.values():
            lease.is_revoked = True
            self.refuse_late(lease)

    def notify_taken(self, channel: OwnedChannel, why: str) -> None:
        """Tell each session at once what it holds in vain, and `why`, but for commits under way."""
        for session, hand in channel.state.in_hand.items():
            links = list(self._data.links_of(session))
            if not hand or not links:
                continue
            settled = self._unread(channel, session) | channel.checkpoints.tentative
            every = [link.settlement.leases.get(channel.partition) for link in links]
            leases = [lease for lease in every if lease is not None and lease.channel is channel]
            for lease in leases:
                settled |= frozenset(lease.acked)
            offsets = [offset for offset in hand if offset not in settled]
            if offsets:
                for lease in leases:
                    lease.taken = frozenset(offsets)
                partition_lines.log_taken(channel.topic, channel.partition, offsets, are_gone=why == GONE)
                ids = [_id_of(channel, hand[offset]) for offset in offsets]
                links[0].notices.on_trouble(taken_from_session(channel, offsets, ids, why))

    def _unread(self, channel: OwnedChannel, session: SessionId) -> frozenset[int]:
        return frozenset(o for link in self._data.links_of(session) for o in link.unread(channel.partition))

    def record_attempt(self, delivery: Delivery, done: Completion) -> None:
        """Complete `done` when it is durable that the application gets this message.

        It never completes when the message went back meanwhile; at once where nothing is written, as of temporary ones.
        """
        channel, offset = owned(delivery.lease), delivery.offset
        attempted = channel.checkpoints.attempted
        if delivery.lease.is_revoked:
            return
        if attempted is None:  # of a temporary destination nothing is written
            done.complete()
            return
        if offset in channel.state.in_hand.get(delivery.lease.session_id, ()):
            attempted.add(offset)
        elif offset in channel.state.unsettled:
            return
        channel.checkpoints.wait_durable(done)

    def want_alone(self, link: Link, count: int) -> None:
        """Serve a link that has siblings: what they have unread goes back first."""
        for sibling in link.siblings:
            self.return_unread(sibling)
        link.want_now(count)


def _id_of(channel: OwnedChannel, reference: Reference) -> str:
    record = cast("KafkaRecord | None", reference.record)
    headers = None if record is None else record.headers()
    return message_id_of(headers, channel.topic, channel.partition, reference.offset)


def _is_early(disposition: Disposition) -> bool:
    """It gives back what a commit holds of whose end the group worker has not heard yet, though its session has."""
    return any(
        row.offset in owned(lease).checkpoints.tentative for lease, row in disposition.returned if not lease.is_revoked
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
        channel.checkpoints.wait_durable(Completion(one_is_durable))
