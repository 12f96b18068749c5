"""The rules of a channel: what is decided when something happens.

`decide_*` functions read a `ChannelState` and return changes; they change nothing. Time, chance and settings are
arguments. The caller applies the changes at once, in order, before it decides again.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from jbm_kafka.core import changes as c
from jbm_kafka.core.channel_state import ChannelState
from jbm_kafka.core.departure import EXPIRED, reason_to_depart
from jbm_kafka.core.redelivery import UNLIMITED_ATTEMPTS, is_expired
from jbm_kafka.core.reference import DEFAULT_PRIORITY, EVERYONE, GateKey, Reference, SessionId
from jbm_kafka.core.unit_of_order import ListingKey


@dataclass(frozen=True, slots=True)
class Offer:
    """A decision to hand over."""

    change: c.Offered
    references: Sequence[Reference]
    """What the session gets, in order."""
    leaving: Sequence[tuple[Reference, str]]
    """What DEPARTING got instead, with the reason: expired, or out of attempts."""
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
    return _Offering(state, session, limit, now_ms, one_per_unit, attempts_max, chooses).run()


class _Offering:
    """One pass over heads and arrivals; reads the state, collects the decision."""

    __slots__ = (
        "attempts_max",
        "blocked",
        "chooses",
        "examined",
        "expired",
        "fresh",
        "heads",
        "is_selecting",
        "leaving",
        "limit",
        "needs_offered",
        "now_ms",
        "one_per_unit",
        "references",
        "session",
        "state",
        "stopped",
    )

    def __init__(
        self,
        state: ChannelState,
        session: SessionId,
        limit: int,
        now_ms: int,
        one_per_unit: bool,
        attempts_max: int,
        chooses: int,
    ) -> None:
        self.attempts_max = attempts_max
        self.chooses, self.is_selecting = chooses, state.gates.is_selecting
        self.state, self.session, self.limit = state, session, limit
        self.now_ms, self.one_per_unit = now_ms - state.set_back_ms, one_per_unit
        self.references: list[Reference] = []
        self.heads: list[c.HeadTaken] = []
        self.fresh: list[Reference] = []
        self.expired: list[Reference] = []
        self.leaving: list[tuple[Reference, str]] = []
        self.blocked: list[Reference] = []
        self.stopped: set[GateKey] = set()
        """Units of which this pass may take no more."""
        self.examined = 0
        self.needs_offered = False

    def run(self) -> Offer:
        state = self.state
        free = state.gates.free
        own = () if self.one_per_unit else state.gates.own.get(self.session, ())
        if state.gates.some:
            some = [heads for bits, heads in state.gates.some.items() if bits & self.chooses]
            self._merge_all([free, own, *some])
        elif free or own:
            self._merge(free, own)
        else:
            self._take_arrivals(None)
        return Offer(
            change=c.Offered(
                session=self.session,
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

    def _merge(self, free: Sequence[ListingKey], own: Sequence[ListingKey]) -> None:
        """Take the best of three sorted sources until the limit or their end."""
        i, j = len(free) - 1, len(own) - 1
        while len(self.references) < self.limit and not self.needs_offered:
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
        for key in heapq.merge(*[reversed(listing) for listing in listings], reverse=True):
            if self._next_arrival_key() > key:
                self._take_arrivals(key)
            if len(self.references) >= self.limit or self.needs_offered:
                return
            self._take_head(key[2])
        if len(self.references) < self.limit and not self.needs_offered:
            self._take_arrivals(None)

    def _next_arrival_key(self) -> tuple[int, int]:
        """(priority, -offset) of the next arrival; lower than all when there is none."""
        arrivals = self.state.arrivals
        if self.examined >= len(arrivals):
            return (-1, 0)
        return (DEFAULT_PRIORITY, -arrivals[self.examined].offset)

    def _take_head(self, key: GateKey) -> None:
        """Take the head of a gate, and what follows it with the same priority (only the head when one per unit)."""
        gate = self.state.gates.by_key[key]
        room = 1 if self.one_per_unit else self.limit - len(self.references)
        priority, count = gate.waiting[0].priority, 0
        is_mine, is_head = gate.owner is not None, True
        for reference in islice(gate.waiting, room):
            if reference.priority != priority or (not is_head and self._must_be_head_first(reference)):
                break
            if self.is_selecting and self._is_for_others(reference):
                break
            if reference.offset >= self.state.offered_position:
                self.needs_offered = True
                break
            reason = self._reason_to_leave(reference)
            if reason is None:
                count += 1
                self.references.append(reference)
                is_mine = True
            elif is_mine and reason != EXPIRED:
                break
            else:
                self._take_to_session(key, count)
                count = 0
                self.heads.append(c.HeadTaken(key=key, count=1, leaving=True))
                self.leaving.append((reference, reason))
                if not is_mine:
                    break
            is_head = False
        self._take_to_session(key, count)

    def _take_to_session(self, key: GateKey, count: int) -> None:
        if count:
            self.heads.append(c.HeadTaken(key=key, count=count, leaving=False))

    def _reason_to_leave(self, reference: Reference) -> str | None:
        past = self.state.past.get(reference.offset)
        return reason_to_depart(
            reference.expiration_ms,
            0 if past is None else past.attempts,
            None if past is None else past.reason,
            now_ms=self.now_ms,
            attempts_max=self.attempts_max,
        )

    def _is_for_others(self, reference: Reference) -> bool:
        return not reference.chosen_by & self.chooses and self._reason_to_leave(reference) is None

    def _must_be_head_first(self, reference: Reference) -> bool:
        """It may be held back itself, which only a head is asked."""
        state, offset = self.state, reference.offset
        wall_ms = state.time_ms - state.set_back_ms
        return offset in state.past or reference.delivery_time_ms > wall_ms or offset in state.uncommitted

    def _take_arrivals(self, before: ListingKey | None) -> None:
        """Look at arrivals in order while they come before the given head: hand over, or send to their gate."""
        state, session = self.state, self.session
        by_key, offered, limit, now_ms = state.gates.by_key, state.offered_position, self.limit, self.now_ms
        references, fresh, stopped = self.references, self.fresh, self.stopped
        units = state.shelf.units
        stop_offset = -before[1] if before is not None and before[0] >= DEFAULT_PRIORITY else None
        examined = self.examined
        for reference in islice(state.arrivals, examined, None):
            offset, unit, expiration_ms = reference.offset, reference.unit, reference.expiration_ms
            if len(references) >= limit or (stop_offset is not None and offset > stop_offset):
                break
            if unit is not None:
                gate = by_key.get(unit)
                if (
                    (
                        gate is not None
                        and (self.one_per_unit or gate.owner != session or gate.waiting or gate.spilled or gate.tail)
                    )
                    or (stopped and unit in stopped)
                    or (gate is None and units.count and units.may_have(unit))
                ):
                    self.blocked.append(reference)
                    examined += 1
                    continue
            if offset >= offered:
                self.needs_offered = True
                break
            examined += 1
            if is_expired(expiration_ms, now_ms):
                self._expire_arrival(reference)
                continue
            fresh.append(reference)
            references.append(reference)
            if self.one_per_unit and unit is not None:
                stopped.add(unit)
        self.examined = examined

    def _expire_arrival(self, reference: Reference) -> None:
        """Send it away. What follows in its unit waits for that, unless this session holds earlier ones."""
        unit = reference.unit
        if unit is not None and unit not in self.state.gates.by_key and not any(r.unit == unit for r in self.fresh):
            self.stopped.add(unit)
        self.expired.append(reference)
        self.leaving.append((reference, EXPIRED))
