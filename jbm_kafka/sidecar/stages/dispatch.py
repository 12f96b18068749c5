"""Hand-over: which link gets how many messages of which channel. Owner thread only.

Channels with something to offer meet links with credit; nobody else is looked at, so that a turn costs what is ready
and not what is connected.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Final, TypeVar

from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY, delivery_count_of
from jbm_kafka.core.channel.offer import Offer, decide_offer
from jbm_kafka.core.channel.ranking import next_priority
from jbm_kafka.core.channel.reference import EVERYONE, Reference, SessionId
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.stages.departures import Departures
from jbm_kafka.sidecar.stages.settle import Settle

T = TypeVar("T")
NONE: Final[Sequence[OwnedChannel]] = ()


class Dispatch:
    """Serves the links of one channel group in turn, and for each the channels in turn."""

    def __init__(self, data: GroupData, settle: Settle, departures: Departures) -> None:
        self._data = data
        self._settle = settle
        self._departures = departures
        self._turn = 0
        self.has_unmet_credit = False
        """A link wants more than there was at the last look."""
        self.has_delivered = False
        """The last `deliver` had something to put."""
        self._at_mark: set[OwnedChannel] = set()
        """Where a link of this turn met the mark; one after it may get what lies below, and not look that far."""
        self._ready: list[OwnedChannel] = []
        """Channels that may have something for any session still, in this turn."""
        self._own: dict[SessionId, list[OwnedChannel]] = {}
        """Channels that have something for one session, which goes on with units that it holds messages of."""
        self.looked_at = 0
        """How often a channel was asked what it has for a link, in the last turn."""
        self._deliveries: dict[Link, list[Delivery]] = {}
        """Decided in this turn, not in the buffers yet."""
        self._is_ranked = False
        """Priorities decide in this turn which channel comes first."""

    def grant(self) -> None:
        """Decide which of the links that want some gets what may be handed over now; `deliver` must follow."""
        self.has_unmet_credit = False
        self._at_mark.clear()
        self.looked_at = 0
        for link in self._data.links.values():
            if link.buffer.is_kept_back:
                link.let_out()
        links = [link for link in self._data.links.values() if link.demand.credit > 0]
        if not links:
            return
        self._turn += 1
        channels = [channel for channel in self._data.channels.values() if not channel.is_closing]
        wanted = self._data.wanted()
        self._ready = _in_turn([channel for channel in channels if _has_some_for(channel, wanted)], self._turn)
        self._own.clear()
        self._is_ranked = False
        for channel in channels:
            self._note_own(channel)
            self._is_ranked = self._is_ranked or channel.state.gates.ranked > 0
        self.has_unmet_credit = not self._ready and not self._own
        for link in () if self.has_unmet_credit else _in_turn(links, self._turn):
            mine = self._own.get(link.terms.session_id, NONE)
            if self._ready or mine:
                self._grant_link(link, mine)
            else:
                self.has_unmet_credit = True

    def take_back(self) -> None:
        """Instead of `grant` while the queue is paused: nobody gets anything, and what nobody has read goes back.

        What cannot go back, for it is acknowledged, is kept back where it is; the next `grant` lets it out.
        """
        self.has_unmet_credit = False
        self.keep_back()
        for link in self._data.links.values():
            if link.buffer:
                self._settle.return_unread(link)

    def keep_back(self) -> None:
        """Nothing that lies with a receiver for good is handed over before somebody grants."""
        for link in self._data.links.values():
            link.keep_back()

    def _grant_link(self, link: Link, own: Sequence[OwnedChannel]) -> None:
        """From the channels that have something for anybody, and from those that go on with its session's units."""
        ready, is_selecting = self._ready, self._data.selections.is_selecting
        chooses = self._data.selections.bit_of(link) if is_selecting else EVERYONE
        if is_selecting:
            ready = [channel for channel in ready if _has_some_for(channel, chooses)]
        channels = ready + [channel for channel in own if channel not in ready]
        credit = link.demand.credit
        if self._is_ranked:
            self._grant_ranked(link, chooses, channels, own)
            return
        # Even portions first, so that one full channel does not feed a link alone while others wait.
        portion = max(credit // max(len(self._data.channels), 1), 1)
        for limit in (portion, credit):
            for channel in list(channels):
                if credit <= 0:
                    return
                granted = self._grant_channel(link, chooses, channel, min(limit, credit))
                credit -= granted
                if not granted:
                    channels.remove(channel)
                    self._note_empty(channel, own)
        if credit > 0:
            self.has_unmet_credit = True

    def _note_empty(self, channel: OwnedChannel, own: Sequence[OwnedChannel]) -> None:
        """A link got nothing of it. What nobody holds, nobody else could get either: it is not looked at again."""
        if channel in self._ready and channel not in own and not self._data.selections.is_selecting:
            self._ready = [other for other in self._ready if other is not channel]

    def _grant_ranked(
        self, link: Link, chooses: int, channels: Sequence[OwnedChannel], own: Sequence[OwnedChannel]
    ) -> None:
        """One by one, each from the channel whose next has the highest priority; of equal ones in turn."""
        session, credit = link.terms.session_id, link.demand.credit
        heads = [(-next_priority(c.state, session, chooses), 0, place) for place, c in enumerate(channels)]
        heapq.heapify(heads)
        while heads and credit > 0:
            _, taken, place = heads[0]
            channel = channels[place]
            if self._grant_channel(link, chooses, channel, 1):
                credit -= 1
                heapq.heapreplace(heads, (-next_priority(channel.state, session, chooses), taken + 1, place))
            else:
                heapq.heappop(heads)
                self._note_empty(channel, own)
        self.has_unmet_credit = self.has_unmet_credit or credit > 0

    def _grant_channel(self, link: Link, chooses: int, channel: OwnedChannel, limit: int) -> int:
        state, terms = channel.state, link.terms
        self.looked_at += 1
        granted = 0
        is_at_mark = False
        now_ms = self._data.clock.now_ms()
        while granted < limit:
            offer = decide_offer(
                state,
                terms.session_id,
                limit=limit - granted,
                now_ms=now_ms,
                one_per_unit=terms.one_per_unit,
                attempts_max=channel.attempts_max,
                chooses=chooses,
            )
            if offer.changes_something:
                state.apply(offer.change)
                if offer.change.blocked:
                    self._note_own(channel)
                granted += self._hand_over(link, channel, offer, now_ms)
            is_at_mark = offer.needs_offered
            if is_at_mark or not offer.change.heads:
                break
        if is_at_mark:
            self._at_mark.add(channel)
        is_reached = channel in self._at_mark
        if granted:
            channel.mark.note_hand_over(now_ms)
        if granted or is_reached:  # what nobody received from has nothing in doubt after a crash
            channel.mark.raise_ahead(now_ms, is_reached=is_reached)
        return granted

    def _note_own(self, channel: OwnedChannel) -> None:
        """Note what waits for the sessions that hold earlier messages of its units; more while arrivals are looked
        at."""
        for session, heads in channel.state.gates.own.items():
            if heads:
                mine = self._own.setdefault(session, [])
                if channel not in mine:
                    mine.append(channel)

    def _hand_over(self, link: Link, channel: OwnedChannel, offer: Offer, now_ms: int) -> int:
        if offer.leaving:
            self._departures.send_all(channel, [(reference, reason) for reference, reason in offer.leaving])
        references = offer.references
        if not references:
            return 0
        self._data.counters.handed_over += len(references)
        in_hand = channel.state.in_hand
        channel.hand_overs.note(link, now_ms, references, in_hand, is_ascending=not offer.change.heads)
        deliveries = _presented(self._lease(link, channel), channel, references)
        # What was refused to be announced is refused by `deliver` too: nothing is carried out in between.
        if link.terms.records_first and link.announce(deliveries):
            self._settle.acknowledge(channel, link.terms.session_id, [reference.offset for reference in references])
            channel.checkpoints.wait_durable(Completion(lambda error: self._arrived(link, channel, deliveries, error)))
        else:
            self._deliveries.setdefault(link, []).extend(deliveries)
        return len(references)

    def deliver(self) -> None:
        """Put what was granted into the buffers.

        A turn's last act, and once for each receiver: woken before, it would only wait for the interpreter lock.
        """
        self.has_delivered = bool(self._deliveries)
        if not self.has_delivered:
            return
        by_link, self._deliveries = self._deliveries, {}
        for link, deliveries in by_link.items():
            if not link.put(deliveries, is_ranked=self._is_ranked):
                self._settle.return_deliveries(link, deliveries)

    def _arrived(self, link: Link, channel: OwnedChannel, deliveries: list[Delivery], error: Exception | None) -> None:
        """The hand-over is recorded, or the channel is gone; what was taken back meanwhile is not in the list."""
        if error is not None:
            deliveries.clear()
        if not link.arrive(deliveries):  # it was closed meanwhile
            self._settle.return_deliveries(link, deliveries)

    def _lease(self, link: Link, channel: OwnedChannel) -> PartitionLease:
        leases = link.settlement.leases
        lease = leases.get(channel.partition)
        if lease is None or lease.channel is not channel:
            every = [
                each.settlement.leases.get(channel.partition) for each in self._data.links_of(link.terms.session_id)
            ]
            given = next((each.given for each in every if each is not None and each.channel is channel), None)
            lease = leases[channel.partition] = PartitionLease(
                channel,
                session_id=link.terms.session_id,
                notify=link.notices.notify,
                given=given,
                is_recorded=self._data.group.is_recorded,
            )
        lease.records_deliveries = channel.settings.record_deliveries and self._data.group.is_recorded
        return lease

    def take_back_from_idle(self, now_ms: int) -> None:
        """Return the buffers of links that nobody has received from for a while, so that others get them."""
        idle_ms = self._data.config.receiver_idle_ms
        for link in self._data.links.values():
            demand = link.demand
            if demand.is_waiting or not (demand.credit or link.buffer.ready):
                continue
            if not link.is_active(now_ms, idle_ms):
                self._settle.return_deliveries(link, link.take_unread(if_idle=True))


def _has_some_for(channel: OwnedChannel, chooses: int) -> bool:
    """It has messages that are not held back by what some session has in hand, as far as is known without looking."""
    return bool(channel.state.arrivals or channel.state.gates.free_for(chooses))


def _in_turn(items: list[T], turn: int) -> list[T]:
    """All of them, another one first in each turn."""
    start = turn % len(items) if items else 0
    return items[start:] + items[:start]


def _presented(lease: PartitionLease, channel: OwnedChannel, references: Sequence[Reference]) -> list[Delivery]:
    """With the delivery count each is to be shown with; nearly always the first."""
    state = channel.state
    if not state.redeliveries and references[0].offset >= state.redelivered_below:
        return [Delivery(lease, reference, FIRST_DELIVERY) for reference in references]
    return [Delivery(lease, reference, delivery_count_of(state, reference.offset)) for reference in references]
