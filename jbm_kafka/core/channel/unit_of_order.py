"""The unit-of-order gate: which message of each unit may go next, and to which session.

One gate per unit with work in hand or waiting; a message without a unit gets a gate of its own only when it has to
wait. A gate whose head may go is listed once, by priority and offset: in `free` when anybody may have it, in `own`
of the session that holds earlier messages of the unit. A blocked gate is listed nowhere and costs nothing until
its event comes (UNIT-2, UNIT-3, UNIT-4, UNIT-6).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY, DEPARTING, EVERYONE, GateKey, Reference, SessionId
from jbm_kafka.core.channel.shelved_units import UnitHead

SPARE_GATES: Final = 4_096
"""Forgotten gates kept for reuse: a unit comes and goes with every message when it is sparse."""

ListingKey = tuple[int, int, GateKey]
"""(priority, -offset, gate): ascending order puts what goes next last; the offset decides before the gate does."""


NOTHING_WAITS: Final[deque[Reference]] = deque(maxlen=0)
"""`Gate.waiting` of every gate whose head is in the held store too: a deque of its own is two thirds of a gate."""


class Gate:
    """One unit's queue inside the channel. Part of ChannelState: only `apply` changes it."""

    __slots__ = (
        "due_at_ms",
        "head_offset",
        "in_hand",
        "is_unchosen",
        "key",
        "listed_in",
        "listed_key",
        "owner",
        "passed_over",
        "spilled",
        "tail",
        "waiting",
    )

    def __init__(self, key: GateKey) -> None:
        self.key = key
        self.owner: SessionId | None = None
        """The session that holds messages of the unit, or None."""
        self.in_hand = 0
        """How many the owner holds."""
        self.passed_over = 0
        """How many DEPARTING holds beside the owner, a session: expired ones behind messages of its own.

        When the session has finished or returned its own, DEPARTING is the owner until these are gone.
        """
        self.waiting: deque[Reference] = deque()
        """Not in hand, ascending offsets, the head first; a prefix of what waits when `spilled` > 0.

        Empty then when the prefix was taken, or when the head is held back and was spilled itself.
        """
        self.spilled = 0
        """How many more wait in the held store, behind `waiting`."""
        self.head_offset = 0
        """The offset of the head, when it was held back and spilled; else it says nothing."""
        self.tail: list[Reference] = []
        """Arrived after the spilled ones, not yet in the held store; or while nobody knows whether there are any."""
        self.due_at_ms = 0
        """Until when the head is held back, or, when nobody chooses it, when it expires; 0 when it is not or never."""
        self.is_unchosen = False
        """No receiver present chooses the head: it holds its unit (UNIT-6), and is listed nowhere."""
        self.listed_in: list[ListingKey] | None = None
        self.listed_key: ListingKey | None = None

    @property
    def known_head(self) -> int:
        """Return the offset of the first that waits, or -1 if nothing does or only the held store knows."""
        if self.waiting:
            return self.waiting[0].offset
        return self.head_offset if self.due_at_ms else -1

    @property
    def is_idle(self) -> bool:
        """Nothing in hand and nothing waiting: the gate may be forgotten."""
        return not (self.in_hand or self.waiting or self.spilled or self.tail)


def is_foldable(gate: Gate) -> bool:
    """The held store has all that waits at it, and nobody is to have it before a time or a selector comes."""
    return (
        gate.spilled > 0
        and (gate.due_at_ms > 0 or gate.is_unchosen)
        and gate.owner is None
        and not gate.waiting
        and not gate.tail
    )


def by_gate(references: Iterable[Reference]) -> Mapping[GateKey, list[Reference]]:
    """These by the gates they wait at, in their order."""
    groups: dict[GateKey, list[Reference]] = {}
    for reference in references:
        groups.setdefault(reference.gate_key, []).append(reference)
    return groups


class Gates:
    """All gates of a channel and the order in which their heads may go."""

    __slots__ = (
        "_spare",
        "awaiting_load",
        "awaiting_look",
        "before",
        "by_key",
        "free",
        "own",
        "present",
        "ranked",
        "some",
        "timers",
        "waiting_count",
    )

    def __init__(self) -> None:
        self.by_key: dict[GateKey, Gate] = {}
        self.free: list[ListingKey] = []
        """Heads anybody may take, the next one last."""
        self.ranked = 0
        """How many listed heads have another priority than the default."""
        self.present = EVERYONE
        """The bits of the selectors that receivers have now; without any that of everyone."""
        self.some: dict[int, list[ListingKey]] = {}
        """Heads that only some of the present selectors choose, by the bits of those."""
        self.own: dict[SessionId, list[ListingKey]] = {}
        """Heads only that session may take, the next one last."""
        self.timers: list[tuple[int, int, GateKey]] = []
        """A heap of (due, offset, gate). Entries may be stale; the gate's own `due_at_ms` tells."""
        self.waiting_count = 0
        """Messages in `waiting` and `tail` of all gates."""
        self.awaiting_load: dict[GateKey, None] = {}
        """Gates that can go on only when what the held store has of them comes back, the longest waiting first.

        One whose messages were returned meanwhile, or whose head is held back, may still be in it.
        """
        self.awaiting_look: dict[GateKey, None] = {}
        """Gates of units that may be shelved: what has come of them stands in `tail` until the held store was asked."""
        self.before: dict[GateKey, tuple[SessionId, int]] = {}
        """Where a prepared branch has the first messages, beside the session that has later ones: it, and how many.

        When the session has finished or returned its own, the branch is the owner.
        """
        self._spare: list[Gate] = []

    @property
    def is_selecting(self) -> bool:
        """Some receiver has a selector."""
        return self.present != EVERYONE

    def free_for(self, chooses: int) -> int:
        """How many heads receivers with these bits may take; none of them is another session's."""
        if not self.some:
            return len(self.free)
        return len(self.free) + sum([len(heads) for bits, heads in self.some.items() if bits & chooses])

    def waiting(self) -> Iterator[Reference]:
        """Every message that waits at a gate, but for what is in the held store."""
        for gate in self.by_key.values():
            yield from gate.waiting
            yield from gate.tail

    def headed_by(self, offsets: Collection[int]) -> list[Gate]:
        """The gates of which one of these is the head; a walk over all, for the units of offsets are not known.

        None of what has not been read yet or is shelved.
        """
        return [gate for gate in self.by_key.values() if gate.known_head in offsets]

    def gate(self, key: GateKey) -> Gate:
        """The gate of this key, made when it is missing."""
        gate = self.by_key.get(key)
        return self.open(key) if gate is None else gate

    def open(self, key: GateKey) -> Gate:
        """A new gate for a key that has none."""
        if self._spare:
            gate = self._spare.pop()
            gate.key = key
        else:
            gate = Gate(key)
        self.by_key[key] = gate
        return gate

    def take_heads(self, gate: Gate, count: int, owner: SessionId) -> list[Reference]:
        """Move the first `count` waiting messages into the hands of `owner`."""
        self._unlist(gate)
        taken = [gate.waiting.popleft() for _ in range(count)]
        self.waiting_count -= count
        self.hold(gate, count, owner)
        return taken

    def hold(self, gate: Gate, count: int, owner: SessionId) -> None:
        """These many more are in the hands of `owner`; DEPARTING may take some beside the session that has others."""
        if owner == DEPARTING and gate.owner is not None and gate.owner != DEPARTING:
            gate.passed_over += count
            return
        assert gate.owner is None or gate.owner == owner, (gate.key, gate.owner, owner)
        gate.owner = owner
        gate.in_hand += count

    def wait(self, gate: Gate, reference: Reference) -> bool:
        """Let a newly arrived message wait behind all others; True when it became the head and must be listed."""
        self.waiting_count += 1
        if gate.spilled or (self.awaiting_look and gate.key in self.awaiting_look):
            gate.tail.append(reference)
            return False
        assert not gate.waiting or gate.waiting[-1].offset < reference.offset, (gate.key, reference.offset)
        gate.waiting.append(reference)
        return len(gate.waiting) == 1

    def put_back(self, gate: Gate, references: Iterable[Reference]) -> None:
        """Return messages from hand to their place by offset."""
        returned = sorted(references, reverse=True)
        self._unlist(gate)
        waiting = gate.waiting
        # Sessions hold the lowest offsets of a unit, so returned messages go first; only a contract channel's
        # receivers may hold a later one while an earlier one waits.
        if waiting and returned[0].offset > waiting[0].offset:
            gate.waiting = deque(sorted([*returned, *waiting]))
        else:
            waiting.extendleft(returned)
        self.waiting_count += len(returned)
        gate.in_hand -= len(returned)
        assert gate.in_hand >= 0, (gate.key, gate.in_hand)
        if not gate.in_hand:
            self._let_go(gate)

    def change_holder(self, gate: Gate, count: int, owner: SessionId) -> None:
        """Another owner takes over so many messages, the first ones that the owner has; see `before`."""
        assert gate.in_hand >= count, (gate.key, gate.in_hand, count)
        self._unlist(gate)
        if gate.in_hand > count:
            assert gate.key not in self.before, (gate.key, owner)
            gate.in_hand -= count
            self.before[gate.key] = owner, count
        else:
            gate.owner = owner

    def depart(self, gate: Gate) -> None:
        """DEPARTING takes over the one message that the owner has, beside those that it took out behind it."""
        assert gate.in_hand == 1, (gate.key, gate.in_hand)
        gate.owner, gate.in_hand = DEPARTING, 1 + gate.passed_over
        gate.passed_over = 0

    def take_out(self, gate: Gate, references: Sequence[Reference], read_position: int) -> None:
        """Give these messages to DEPARTING, wherever they wait: in memory, in the held store, or still to be read.

        Those from `read_position` on are unread; DEPARTING holds the unit for them already. What is neither unread nor
        in memory is in the held store: it no longer counts as waiting there, so that nobody loads it again.
        """
        self._unlist(gate)
        offsets = {reference.offset for reference in references}
        before = len(gate.waiting) + len(gate.tail)
        if gate.waiting:
            gate.waiting = deque(reference for reference in gate.waiting if reference.offset not in offsets)
        gate.tail = [reference for reference in gate.tail if reference.offset not in offsets]
        found = before - len(gate.waiting) - len(gate.tail)
        self.waiting_count -= found
        stored = sum([offset < read_position for offset in offsets]) - found
        assert 0 <= stored <= gate.spilled, (gate.key, stored, gate.spilled)
        gate.spilled -= stored
        if stored and not gate.spilled:
            self.awaiting_load.pop(gate.key, None)
            gate.waiting, gate.tail = deque([*gate.waiting, *gate.tail]), []
        self.hold(gate, len(references), DEPARTING)

    def undo_departure(self, gate: Gate, references: Sequence[Reference], read_position: int) -> None:
        """Have what DEPARTING held of a gate wait again at its place; what is still to be read comes when it is."""
        assert not gate.spilled, (gate.key, gate.spilled)
        self._unlist(gate)
        back = [reference for reference in references if reference.offset < read_position]
        gate.waiting = deque(sorted([*back, *gate.waiting]))
        self.waiting_count += len(back)
        if gate.owner != DEPARTING:
            gate.passed_over -= len(references)
            return
        gate.in_hand -= len(references)
        assert gate.in_hand >= 0, (gate.key, gate.in_hand)
        if not gate.in_hand:
            self._let_go(gate)

    def spill(self, gate: Gate, kept: int) -> None:
        """All but the first `kept` waiting messages are in the held store from now on."""
        is_held_back = bool(gate.due_at_ms) or gate.is_unchosen
        assert kept > 0 or (is_held_back and not gate.in_hand), "the head stays: the gate is listed by it"
        head = gate.waiting[0] if gate.waiting else None
        moved = len(gate.tail)
        while len(gate.waiting) > kept:
            gate.waiting.pop()
            moved += 1
        gate.tail = []
        gate.spilled += moved
        if not kept:
            assert gate.spilled, "the held store has the head"
            if head is not None:
                gate.head_offset = head.offset
            gate.waiting = NOTHING_WAITS
            self.awaiting_load.pop(gate.key, None)  # nobody misses it before its time
        self.waiting_count -= moved

    def unspill(self, gate: Gate, references: Sequence[Reference]) -> None:
        """These have come back from the held store, the next of those behind `waiting`; list the gate anew."""
        assert not gate.waiting or gate.waiting[-1].offset < references[0].offset, gate.key
        assert len(references) <= gate.spilled, (gate.key, gate.spilled)
        gate.spilled -= len(references)
        self.awaiting_load.pop(gate.key, None)
        if gate.waiting is NOTHING_WAITS:
            gate.waiting = deque()
        gate.waiting.extend(references)
        self.waiting_count += len(references)
        if not gate.spilled:
            gate.waiting.extend(gate.tail)
            gate.tail = []

    def take_alone(self, offsets: Iterable[int]) -> None:
        """Messages that wait alone for a time or a selector are gone from here, and so are their gates and timers."""
        for offset in offsets:
            gate = self.by_key[offset]
            assert gate.due_at_ms or gate.is_unchosen, "its head may be handed over"
            assert len(gate.waiting) == 1, offset
            assert not gate.spilled, offset
            gate.waiting.pop()
            self.waiting_count -= 1
            self.list_head(gate, due_at_ms=0)
        self._drop_old_timers()

    def fold(self, heads: Iterable[UnitHead]) -> list[int]:
        """The gates of these units are gone, and so are their timers; returns how many messages each has."""
        counts: list[int] = []
        for head in heads:
            gate = self.by_key.pop(head.unit)
            assert is_foldable(gate), head
            assert gate.head_offset == head.offset, (head, gate.head_offset)
            self.awaiting_load.pop(head.unit, None)
            counts.append(gate.spilled)
        self._drop_old_timers()
        return counts

    def unfold(self, head: UnitHead, count: int, *, due_at_ms: int) -> None:
        """The unit has a gate again, with so many messages in the held store; 0: its head is to be loaded now."""
        gate = self.gate(head.unit)
        assert not gate.waiting, head
        assert not gate.spilled, head
        self.awaiting_look.pop(head.unit, None)
        gate.waiting, gate.spilled, gate.head_offset = NOTHING_WAITS, count, head.offset
        if due_at_ms and gate.owner is None:
            gate.due_at_ms = due_at_ms
            heapq.heappush(self.timers, (due_at_ms, head.offset, head.unit))
        else:
            self.awaiting_load[head.unit] = None

    def end_look(self, gate: Gate) -> None:
        """Nothing of this unit is shelved; list the gate anew."""
        assert not gate.waiting, gate.key
        del self.awaiting_look[gate.key]
        gate.waiting, gate.tail = deque(gate.tail), []

    def _drop_old_timers(self) -> None:
        if len(self.timers) > 2 * len(self.by_key) + SPARE_GATES:
            by_key = self.by_key
            self.timers = [row for row in self.timers if row[2] in by_key]
            heapq.heapify(self.timers)

    def finish_one(self, gate: Gate) -> bool:
        """The owner is done with a message; True when it holds no more and others wait: list the gate anew."""
        gate.in_hand -= 1
        if gate.in_hand:
            assert gate.in_hand > 0, (gate.key, gate.in_hand)
            return False
        if gate.listed_in is not None:
            self._unlist(gate)
        if gate.passed_over or gate.waiting or gate.spilled or gate.tail or gate.key in self.before:
            self._let_go(gate)
            return True
        self._forget(gate)
        return False

    def finish_before(self, key: GateKey) -> None:
        """The branch beside the owner is done with a message."""
        branch, count = self.before.pop(key)
        if count > 1:
            self.before[key] = branch, count - 1

    def list_head(self, gate: Gate, *, due_at_ms: int, blocked: bool = False, must_leave: bool = False) -> None:
        """List the gate where its head belongs now: nowhere while held back, empty, `blocked`, or chosen by nobody.

        One that `must_leave` is for everybody, whoever chooses it.
        """
        self._unlist(gate)
        gate.due_at_ms = due_at_ms
        gate.is_unchosen = False
        if not gate.waiting:
            if gate.is_idle:
                self._forget(gate)
            elif gate.spilled:
                self.awaiting_load[gate.key] = None
            return
        head = gate.waiting[0]
        if due_at_ms:
            heapq.heappush(self.timers, (due_at_ms, head.offset, gate.key))
            return
        if blocked:
            return
        listing = self._listing_of(gate, head, must_leave=must_leave)
        if listing is None:
            gate.is_unchosen = True
            return
        key = (head.priority, -head.offset, gate.key)
        if not listing or listing[-1] < key:
            listing.append(key)
        else:
            insort(listing, key)
        gate.listed_in, gate.listed_key = listing, key
        if head.priority != DEFAULT_PRIORITY:
            self.ranked += 1

    def _listing_of(self, gate: Gate, head: Reference, *, must_leave: bool) -> list[ListingKey] | None:
        if self.present != EVERYONE and not must_leave:
            chosen_by = head.chosen_by & self.present
            if not chosen_by:
                return None
            if gate.owner is None and chosen_by != self.present:
                return self.some.setdefault(chosen_by, [])
        return self.free if gate.owner is None else self.own.setdefault(gate.owner, [])

    def change_present(self, present: int) -> None:
        """Receivers have these selectors now; all heads that are not held back must be listed anew."""
        self.present = present
        by_key = self.by_key
        # Those of expiry come again with each change, and would only get more.
        self.timers = [
            row
            for row in self.timers
            if row[2] in by_key and by_key[row[2]].due_at_ms == row[0] and not by_key[row[2]].is_unchosen
        ]
        heapq.heapify(self.timers)

    def may_wait_long(self, gate: Gate) -> bool:
        """Its head is for no receiver, or only for some, which may be busy: no other one would look at it."""
        is_for_some = gate.listed_in is not None and gate.owner is None and gate.listed_in is not self.free
        return gate.is_unchosen or is_for_some

    def schedule_expiry(self, gate: Gate, at_ms: int) -> None:
        """Come back to this gate at that time: its head is to leave then, whoever chooses it."""
        assert self.may_wait_long(gate), gate.key
        if gate.is_unchosen:
            gate.due_at_ms = at_ms
        heapq.heappush(self.timers, (at_ms, gate.waiting[0].offset, gate.key))

    def due(self, now_ms: int) -> list[Gate]:
        """Forget the timers that end by `now_ms`; returns the gates whose heads they may still be right about."""
        gates: list[Gate] = []
        while self.timers and self.timers[0][0] <= now_ms:
            due, offset, key = heapq.heappop(self.timers)
            gate = self.by_key.get(key)
            if gate is None:
                continue
            if gate.due_at_ms == due:
                gate.due_at_ms = 0
                gates.append(gate)
            elif self.is_selecting and gate.listed_in is not None and gate.waiting[0].offset == offset:
                gates.append(gate)
        return gates

    def drop_session(self, session: SessionId) -> None:
        """Forget the listing of a session that holds nothing, which is empty."""
        listing = self.own.pop(session, None)
        assert not listing, (session, listing)

    def _let_go(self, gate: Gate) -> None:
        """The owner holds no more."""
        before = self.before.pop(gate.key, None) if self.before else None
        if before is not None:
            gate.owner, gate.in_hand = before
            return
        gate.owner, gate.in_hand = (DEPARTING, gate.passed_over) if gate.passed_over else (None, 0)
        gate.passed_over = 0

    def _forget(self, gate: Gate) -> None:
        del self.by_key[gate.key]
        if self.awaiting_look:
            self.awaiting_look.pop(gate.key, None)
        gate.owner, gate.due_at_ms = None, 0
        if len(self._spare) < SPARE_GATES:
            self._spare.append(gate)

    def _unlist(self, gate: Gate) -> None:
        if gate.listed_in is not None and gate.listed_key is not None:
            listing = gate.listed_in
            index = len(listing) - 1 if listing[-1] == gate.listed_key else bisect_left(listing, gate.listed_key)
            assert listing[index] == gate.listed_key, (gate.key, gate.listed_key)
            del listing[index]
            if gate.listed_key[0] != DEFAULT_PRIORITY:
                self.ranked -= 1
            gate.listed_in = gate.listed_key = None
