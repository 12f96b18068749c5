"""The rules of a channel: what is decided when something happens.

`decide_*` functions read a `ChannelState` and return changes; they change nothing. Time, chance and settings are
arguments. The caller applies the changes at once, in order, before it decides again.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import EXPIRED, reason_to_depart
from jbm_kafka.core.channel.redelivery import UNLIMITED_ATTEMPTS, is_expired
from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY, EVERYONE, GateKey, Reference, SessionId
from jbm_kafka.core.channel.unit_of_order import ListingKey


@dataclass(frozen=True, slots=True)
class Offer:
    """A decision to hand over."""

    change: c.Offered
    references: Sequence[Reference]
    """The messages that the session gets, in order."""
    leaving: Sequence[tuple[Reference, str]]
    """The messages that DEPARTING got in place of it, with the reason: expired, or out of attempts."""
    needs_offered: bool
    """The next message lies beyond what is durably marked as possibly handed over: raise `offered_position` first."""

    @property
    def changes_something(self) -> bool:
        """False when there is nothing to apply."""
        return bool(self.change.heads or self.change.examined)


def decide_offer(
    state: ChannelState,
    session: SessionId,
    *,
    limit: int,
    now_ms: int,
    one_per_unit: bool = False,
    attempts_max: int = UNLIMITED_ATTEMPTS,
    chooses: int = EVERYONE,
) -> Offer:
    """Up to `limit` messages for a session, the highest priority and then the lowest offset first.

    A unit of which another session holds messages is passed over (UNIT-2); one of which this session holds some goes
    on (UNIT-3) unless `one_per_unit`. A message past its time goes to DEPARTING instead (SEND-5), also from behind
    those that this session holds; so does one whose recorded attempts have reached `attempts_max`, but only as the
    first of its unit: dead letters of a unit keep their order.

    `chooses` is the bit of the receiver's selector: it gets what that chooses. What it does not choose holds its unit
    (UNIT-6), unless it leaves.
    """
    request = _Request(session, limit, now_ms - state.set_back_ms, one_per_unit, attempts_max, chooses)
    return _Offering(state, request).run()


class _Request:
    """The session that asks, for how many messages, and by which rules. Nothing of it changes."""

    __slots__ = ("attempts_max", "chooses", "limit", "now_ms", "one_per_unit", "session")

    def __init__(
        self, session: SessionId, limit: int, now_ms: int, one_per_unit: bool, attempts_max: int, chooses: int
    ) -> None:
        self.session = session
        self.limit = limit
        self.now_ms = now_ms
        """The time of the wall clock, as the times of messages are."""
        self.one_per_unit = one_per_unit
        self.attempts_max = attempts_max
        self.chooses = chooses


class _Decision:
    """The decisions so far in one pass."""

    __slots__ = ("blocked", "examined", "expired", "fresh", "heads", "leaving", "needs_offered", "references")

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self.heads: list[c.HeadTaken] = []
        self.fresh: list[Reference] = []
        self.expired: list[Reference] = []
        self.leaving: list[tuple[Reference, str]] = []
        self.blocked: list[Reference] = []
        self.examined = 0
        self.needs_offered = False

    def take_heads(self, key: GateKey, count: int) -> None:
        """The session gets so many of a gate."""
        if count:
            self.heads.append(c.HeadTaken(key=key, count=count, leaving=False))

    def send_head_away(self, key: GateKey, reference: Reference, reason: str) -> None:
        """DEPARTING gets the next of a gate."""
        self.heads.append(c.HeadTaken(key=key, count=1, leaving=True))
        self.leaving.append((reference, reason))

    def send_arrival_away(self, reference: Reference) -> None:
        """DEPARTING gets an arrival, which is expired."""
        self.expired.append(reference)
        self.leaving.append((reference, EXPIRED))

    def offer_to(self, session: SessionId) -> Offer:
        """The decision, complete."""
        return Offer(
            change=c.Offered(
                session=session,
                heads=self.heads,
                examined=self.examined,
                fresh=self.fresh,
                expired=self.expired,
                blocked=self.blocked,
            ),
            references=self.references,
            leaving=self.leaving,
            needs_offered=self.needs_offered,
        )


class _Offering:
    """One pass over heads and arrivals; reads the state, collects the decision."""

    __slots__ = ("decision", "is_selecting", "request", "state", "stopped")

    def __init__(self, state: ChannelState, request: _Request) -> None:
        self.state = state
        self.request = request
        self.is_selecting = state.gates.is_selecting
        self.decision = _Decision()
        self.stopped: set[GateKey] = set()
        """Units of which this pass may take no more."""

    def run(self) -> Offer:
        state, request = self.state, self.request
        free = state.gates.free
        own = () if request.one_per_unit else state.gates.own.get(request.session, ())
        if state.gates.some:
            some = [heads for bits, heads in state.gates.some.items() if bits & request.chooses]
            self._merge_all([free, own, *some])
        elif free or own:
            self._merge(free, own)
        else:
            self._take_arrivals(None)
        return self.decision.offer_to(request.session)

    def _merge(self, free: Sequence[ListingKey], own: Sequence[ListingKey]) -> None:
        """Take the best of three sorted sources until the limit or their end."""
        decision, limit = self.decision, self.request.limit
        references = decision.references
        i, j = len(free) - 1, len(own) - 1
        while len(references) < limit and not decision.needs_offered:
            from_free = i >= 0 and (j < 0 or free[i] > own[j])
            if not from_free and j < 0:
                self._take_arrivals(None)
                return
            key = free[i] if from_free else own[j]
            if self._next_arrival_key() > key:
                self._take_arrivals(key)
                continue
            if from_free:
                i -= 1
            else:
                j -= 1
            self._take_head(key[2])

    def _merge_all(self, listings: Sequence[Sequence[ListingKey]]) -> None:
        """As `_merge`, of more sources: not all heads are for everyone."""
        decision, limit = self.decision, self.request.limit
        references = decision.references
        for key in heapq.merge(*[reversed(listing) for listing in listings], reverse=True):
            if self._next_arrival_key() > key:
                self._take_arrivals(key)
            if len(references) >= limit or decision.needs_offered:
                return
            self._take_head(key[2])
        if len(references) < limit and not decision.needs_offered:
            self._take_arrivals(None)

    def _next_arrival_key(self) -> tuple[int, int]:
        """(priority, -offset) of the next arrival; lower than all others when nothing has arrived."""
        arrivals, examined = self.state.arrivals, self.decision.examined
        if examined >= len(arrivals):
            return (-1, 0)
        return (DEFAULT_PRIORITY, -arrivals[examined].offset)

    def _take_head(self, key: GateKey) -> None:
        """Take the head of a gate, and what follows it with the same priority (only the head when one per unit)."""
        request, decision, offered = self.request, self.decision, self.state.offered_position
        references = decision.references
        gate = self.state.gates.by_key[key]
        room = 1 if request.one_per_unit else request.limit - len(references)
        priority, count = gate.waiting[0].priority, 0
        is_mine, is_head = gate.owner is not None, True
        for reference in islice(gate.waiting, room):
            if reference.priority != priority or (not is_head and self._must_be_head_first(reference)):
                break
            if self.is_selecting and self._is_for_others(reference):
                break
            if reference.offset >= offered:
                decision.needs_offered = True
                break
            reason = self._reason_to_leave(reference)
            if reason is None:
                count += 1
                references.append(reference)
                is_mine = True
            elif is_mine and reason != EXPIRED:
                break
            else:
                decision.take_heads(key, count)
                count = 0
                decision.send_head_away(key, reference, reason)
                if not is_mine:
                    break
            is_head = False
        decision.take_heads(key, count)

    def _reason_to_leave(self, reference: Reference) -> str | None:
        redelivery = self.state.redeliveries.get(reference.offset)
        return reason_to_depart(
            reference.expiration_ms,
            0 if redelivery is None else redelivery.attempts,
            None if redelivery is None else redelivery.reason,
            now_ms=self.request.now_ms,
            attempts_max=self.request.attempts_max,
        )

    def _is_for_others(self, reference: Reference) -> bool:
        return not reference.chosen_by & self.request.chooses and self._reason_to_leave(reference) is None

    def _must_be_head_first(self, reference: Reference) -> bool:
        """It may be held back itself, which only a head is asked."""
        state, offset = self.state, reference.offset
        wall_ms = state.time_ms - state.set_back_ms
        return offset in state.redeliveries or reference.delivery_time_ms > wall_ms or offset in state.uncommitted

    def _take_arrivals(self, before: ListingKey | None) -> None:
        """Look at arrivals in order while they come before the given head: hand over, or send to their gate."""
        state, request, decision, stopped = self.state, self.request, self.decision, self.stopped
        by_key, offered, units = state.gates.by_key, state.offered_position, state.shelf.units
        session, limit, now_ms, one_per_unit = request.session, request.limit, request.now_ms, request.one_per_unit
        references, fresh = decision.references, decision.fresh
        stop_offset = -before[1] if before is not None and before[0] >= DEFAULT_PRIORITY else None
        examined = decision.examined
        for reference in islice(state.arrivals, examined, None):
            offset, unit, expiration_ms = reference.offset, reference.unit, reference.expiration_ms
            if len(references) >= limit or (stop_offset is not None and offset > stop_offset):
                break
            if unit is not None:
                gate = by_key.get(unit)
                if (
                    (
                        gate is not None
                        and (one_per_unit or gate.owner != session or gate.waiting or gate.spilled or gate.tail)
                    )
                    or (stopped and unit in stopped)
                    or (gate is None and units.count and units.may_have(unit))
                ):
                    decision.blocked.append(reference)
                    examined += 1
                    continue
            if offset >= offered:
                decision.needs_offered = True
                break
            examined += 1
            if is_expired(expiration_ms, now_ms):
                self._expire_arrival(reference)
                continue
            fresh.append(reference)
            references.append(reference)
            if one_per_unit and unit is not None:
                stopped.add(unit)
        decision.examined = examined

    def _expire_arrival(self, reference: Reference) -> None:
        """Send it away. What follows in its unit waits for that, unless this session holds earlier ones."""
        unit, fresh = reference.unit, self.decision.fresh
        if unit is not None and unit not in self.state.gates.by_key and not any(r.unit == unit for r in fresh):
            self.stopped.add(unit)
        self.decision.send_arrival_away(reference)
