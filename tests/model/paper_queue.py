"""A queue's partition on paper: slow, obvious, written from docs/semantics.md and from nothing else.

It imports no rule of the system and never reads the channel it judges. It has its own offsets, its own units, its own
count of attempts and its own clock; what the channel does is told to it, and it says whether that was allowed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GIVEN_AWAY = "<on the way out>"
"""Holds what is being dead-lettered or expired."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message of the log."""

    offset: int
    unit: bytes | None
    priority: int
    expiration_ms: int
    delivery_time_ms: int
    colour: int = 0
    """What selectors look at."""

    @property
    def queue(self) -> bytes | int:
        """What it stands in line with: its unit, or only itself."""
        return self.offset if self.unit is None else self.unit


@dataclass(frozen=True, slots=True)
class Rules:
    """The destination's settings, as far as the paper knows them."""

    attempts_max: int
    delay_ms: int
    has_dead_letter_address: bool
    holds_dead_letters: bool
    records_attempts: bool
    """`persist_delivery_count_before_delivery`."""


@dataclass(slots=True)
class Remembered:
    """What a restart will know, as of one checkpoint."""

    settled: set[int] = field(default_factory=set)
    attempts: dict[int, int] = field(default_factory=dict)
    due_at_ms: dict[int, int] = field(default_factory=dict)
    delay_ms: dict[int, int] = field(default_factory=dict)
    in_hand: set[int] = field(default_factory=set)
    """Recorded as handed over before anybody saw it: a restart counts that as one more attempt (REDELIVER-7)."""
    parked: set[int] = field(default_factory=set)
    """Their records are in the changelog."""
    known_to: int = 0
    offered: int = 0
    watermark: int = 0

    def attempts_after_a_crash(self) -> dict[int, int]:
        counted = self.attempts.keys() | self.in_hand
        return {o: self.attempts.get(o, 0) + (o in self.in_hand) for o in counted}


class PaperQueue:
    """One partition, as the owner of today sees it; `crash` makes it the owner of tomorrow."""

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self.log: dict[int, Sent] = {}
        self.log_end = 0
        self.now_ms = 1_000_000
        """Far enough from zero, which stands for "no time", for all the steps back of a history."""
        self.read_to = 0
        """How far the owner of today has read."""
        self.known_to = 0
        """How far any owner whose knowledge survived has read."""
        self.settled: set[int] = set()
        self.parked: set[int] = set()
        """Those whose records the changelog keeps; of what is settled it means nothing."""
        self.holder: dict[int, str] = {}
        """Who has it in hand; what is read, unsettled and in no hand waits."""
        self.taken_out: set[int] = set()
        """At an operator's wish, from wherever it waited."""
        self.attempts: dict[int, int] = {}
        self.due_at_ms: dict[int, int] = {}
        self.delay_ms: dict[int, int] = {}
        self.offered = 0
        """Durably reserved: nothing at or beyond may be handed over."""
        self.redelivered_below = 0
        self.delivered_position = 0
        self.handed_by_earlier_owners: set[int] = set()
        self.handed: set[int] = set()
        self.durable = Remembered()
        self.wanted: dict[str, frozenset[int]] = {}
        """The colours that a receiver's selector chooses; one that is not in it has no selector and gets all."""

    # -- what there is ---------------------------------------------------------------------------------------------

    def unsettled(self) -> list[int]:
        """Read by today's owner and not settled."""
        return sorted(o for o in self.log if o < self.read_to and o not in self.settled)

    def in_hand(self, session: str) -> list[int]:
        return sorted(o for o, who in self.holder.items() if who == session)

    def line(self, queue: bytes | int) -> list[int]:
        """The unsettled messages of one unit, in the order of the log."""
        return [o for o in self.unsettled() if self.log[o].queue == queue]

    def holders(self, queue: bytes | int) -> set[str]:
        return {self.holder[o] for o in self.line(queue) if o in self.holder}

    def lowest_unsettled(self, also_settled: set[int]) -> int:
        """Where a restarted reader must resume, if it is to miss nothing."""
        passed = self.settled | self.parked | also_settled
        return min((o for o in self.log if o < self.known_to and o not in passed), default=self.known_to)

    def is_expired(self, offset: int) -> bool:
        return 0 < self.log[offset].expiration_ms <= self.now_ms

    def is_given_up(self, offset: int) -> bool:
        """REDELIVER-3: tried often enough."""
        return self.attempts.get(offset, 0) >= self.rules.attempts_max > 0

    def is_held_for_operator(self, offset: int) -> bool:
        """UNIT-16: `on_dead_letter = "hold"`."""
        return self.rules.holds_dead_letters and self.is_given_up(offset)

    def is_delayed(self, offset: int) -> bool:
        """UNIT-4: a redelivery delay or a time-to-deliver still runs."""
        return max(self.due_at_ms.get(offset, 0), self.log[offset].delivery_time_ms) > self.now_ms

    def is_chosen(self, offset: int, session: str) -> bool:
        """SEL-1: the receiver has no selector, or one that chooses the message."""
        return session not in self.wanted or self.log[offset].colour in self.wanted[session]

    # -- who may have what -----------------------------------------------------------------------------------------

    def heads_for(self, session: str, *, one_per_unit: bool) -> list[int]:
        """The first waiting message of each unit that this session may have or must see leave, delays over."""
        heads = []
        for queue in {self.log[o].queue for o in self.unsettled()}:
            waiting = [o for o in self.line(queue) if o not in self.holder]
            holders = self.holders(queue)
            if not waiting or holders - {session, GIVEN_AWAY} or (holders and one_per_unit):
                continue
            if holders == {GIVEN_AWAY}:
                continue
            if not self.is_delayed(waiting[0]) and not self.is_held_for_operator(waiting[0]):
                heads.append(waiting[0])
        return heads

    def deliverable_heads(self, session: str, *, one_per_unit: bool) -> list[int]:
        """The first message of each unit this session may have now, the reservation left aside, best first."""
        heads = [
            o
            for o in self.heads_for(session, one_per_unit=one_per_unit)
            if not self.is_expired(o) and not self.is_given_up(o) and self.is_chosen(o, session)
        ]
        return sorted(heads, key=lambda o: (-self.log[o].priority, o))

    def heads_that_must_leave(self, session: str) -> set[int]:
        """Heads of units in nobody's hand that are expired, or chosen and out of attempts."""
        heads = self.heads_for("nobody", one_per_unit=True)
        return {o for o in heads if self.is_expired(o) or (self.is_given_up(o) and self.is_chosen(o, session))}

    def expired_heads(self, session: str, *, one_per_unit: bool) -> set[int]:
        """Expired ones that hold back the rest of their unit, from nobody or from this session which has some of it."""
        return {o for o in self.heads_for(session, one_per_unit=one_per_unit) if self.is_expired(o)}

    # -- what happens ----------------------------------------------------------------------------------------------

    def send(self, sent: Sent) -> None:
        assert sent.offset >= self.log_end
        self.log[sent.offset] = sent
        self.log_end = sent.offset + 1

    def read(self, end: int) -> list[Sent]:
        """Today's owner reads on, up to `end`; returns what the log holds there."""
        found = [self.log[o] for o in sorted(self.log) if self.read_to <= o < end]
        self.read_to = end
        self.known_to = max(self.known_to, end)
        return found

    def hand_over(self, offset: int, session: str) -> None:
        self.holder[offset] = session
        if session != GIVEN_AWAY:
            self.delivered_position = max(self.delivered_position, offset + 1)
            self.handed.add(offset)

    def settle(self, offset: int) -> None:
        del self.holder[offset]
        self.settled.add(offset)
        for memory in (self.attempts, self.due_at_ms, self.delay_ms):
            memory.pop(offset, None)

    def give_back(self, session: str, rows: dict[int, tuple[bool, int | None]]) -> set[int]:
        """(counted, own delay) by offset; returns the offsets that leave instead of waiting again."""
        first: dict[bytes | int, int] = {}
        for offset in sorted(rows):
            first.setdefault(self.log[offset].queue, offset)
        late = {
            o: (False, None) for o in self.in_hand(session) if o not in rows and o > first.get(self.log[o].queue, o)
        }
        leaving = set()
        heads = {queue: next(o for o in self.line(queue) if self.holder.get(o) != GIVEN_AWAY) for queue in first}
        for offset, (counted, own_delay_ms) in sorted({**rows, **late}.items()):
            del self.holder[offset]
            delay_ms = 0
            if counted:
                self.attempts[offset] = self.attempts.get(offset, 0) + 1
                delay_ms = self.rules.delay_ms if own_delay_ms is None else own_delay_ms
                if self.is_given_up(offset):
                    delay_ms = 0
                    if heads[self.log[offset].queue] == offset and not self.rules.holds_dead_letters:
                        leaving.add(offset)
            self.delay_ms[offset] = delay_ms
            self.due_at_ms[offset] = self.now_ms + delay_ms if delay_ms else 0
        for offset in leaving:
            self.holder[offset] = GIVEN_AWAY
            if not self.rules.has_dead_letter_address:
                self.settle(offset)
        return leaving

    def let_go(self, offsets: list[int]) -> None:
        """An operator does; they begin anew, but are told as redelivered."""
        for memory in (self.attempts, self.due_at_ms, self.delay_ms):
            memory.update(dict.fromkeys(offsets, 0))

    # -- checkpoints and owners ------------------------------------------------------------------------------------

    def as_of_now(self, tentative: set[int], parking: set[int], offered: int) -> Remembered:
        """What a restart would know if a checkpoint taken now became durable."""
        settled = self.settled | tentative
        attempts = {o: n for o, n in self.attempts.items() if o not in settled}
        return Remembered(
            settled=settled,
            attempts=attempts,
            due_at_ms={o: self.due_at_ms.get(o, 0) for o in attempts},
            delay_ms={o: self.delay_ms.get(o, 0) for o in attempts},
            in_hand={o for o, who in self.holder.items() if who != GIVEN_AWAY and o not in tentative}
            if self.rules.records_attempts
            else set(),
            parked=(self.parked | parking) - settled,
            known_to=self.known_to,
            offered=offered,
            watermark=self.lowest_unsettled(tentative | parking),
        )

    def is_durable(self, remembered: Remembered) -> None:
        self.durable = remembered
        self.parked = set(remembered.parked)
        self.offered = max(self.offered, remembered.offered)

    def crash(self, now_ms: int) -> None:
        """Another owner begins with what is durable, and with its own clock."""
        durable = self.durable
        self.now_ms = now_ms
        self.handed_by_earlier_owners |= self.handed
        self.handed = set()
        self.holder, self.taken_out = {}, set()
        self.settled = set(durable.settled)
        self.attempts = durable.attempts_after_a_crash()
        self.delay_ms = dict(durable.delay_ms)
        self.due_at_ms = {o: min(due_at_ms, now_ms + durable.delay_ms[o]) for o, due_at_ms in durable.due_at_ms.items()}
        self.parked = set(durable.parked)
        self.known_to = durable.known_to
        self.read_to = durable.watermark
        self.offered = self.redelivered_below = self.delivered_position = durable.offered
