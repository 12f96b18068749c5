"""The unit-of-order gate: which message of each unit may go next, and to whom.

One gate per unit with work in hand or waiting; a message without a unit gets a gate of its own only when it has to
wait. A gate whose head may go is listed once, by priority and offset: in `free` when anybody may have it, in `own`
of the session that holds earlier messages of the unit. A blocked gate is listed nowhere and costs nothing until
its event comes (UNIT-2, UNIT-3, UNIT-4, UNIT-6).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable
from typing import Final

from jbm_kafka.core.reference import DEPARTING, GateKey, Reference, SessionId

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
        "in_hand",
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
        """Who holds messages of the unit; None when nobody does."""
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
        self.tail: list[Reference] = []
        """Arrived after the spilled ones, not yet in the held store."""
        self.due_at_ms = 0
        """Until when the head is held back; 0 when it is not."""
        self.listed_in: list[ListingKey] | None = None
        self.listed_key: ListingKey | None = None

    @property
    def is_idle(self) -> bool:
        """Nothing in hand and nothing waiting: the gate may be forgotten."""
        return not (self.in_hand or self.waiting or self.spilled or self.tail)


class Gates:
    """All gates of a channel and the order in which their heads may go."""

    __slots__ = ("_spare", "awaiting_load", "by_key", "free", "own", "timers", "waiting_count")

    def __init__(self) -> None:
        self.by_key: dict[GateKey, Gate] = {}
        self.free: list[ListingKey] = []
        """Heads anybody may take, the next one last."""
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
        self._spare: list[Gate] = []

    def gate(self, key: GateKey) -> Gate:
        """The gate of this key, made when there is none."""
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
        if gate.spilled:
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

    def finish_one(self, gate: Gate) -> bool:
        """The owner is done with a message; True when it holds no more and others wait: list the gate anew."""
        gate.in_hand -= 1
        if gate.in_hand:
            assert gate.in_hand > 0, (gate.key, gate.in_hand)
            return False
        if gate.listed_in is not None:
            self._unlist(gate)
        if gate.passed_over or gate.waiting or gate.spilled or gate.tail:
            self._let_go(gate)
            return True
        self._forget(gate)
        return False

    def list_head(self, gate: Gate, *, due_at_ms: int, blocked: bool = False) -> None:
        """List the gate where its head belongs now: nowhere while held back, empty, or `blocked`."""
        self._unlist(gate)
        gate.due_at_ms = due_at_ms
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
        listing = self.free if gate.owner is None else self.own.setdefault(gate.owner, [])
        key = (head.priority, -head.offset, gate.key)
        if not listing or listing[-1] < key:
            listing.append(key)
        else:
            insort(listing, key)
        gate.listed_in, gate.listed_key = listing, key

    def due(self, now_ms: int) -> list[Gate]:
        """Forget the timers that end by `now_ms`; returns the gates they were still right about."""
        gates: list[Gate] = []
        while self.timers and self.timers[0][0] <= now_ms:
            due, _, key = heapq.heappop(self.timers)
            gate = self.by_key.get(key)
            if gate is not None and gate.due_at_ms == due:
                gate.due_at_ms = 0
                gates.append(gate)
        return gates

    def drop_session(self, session: SessionId) -> None:
        """Forget the listing of a session that holds nothing, which is empty."""
        listing = self.own.pop(session, None)
        assert not listing, (session, listing)

    def _let_go(self, gate: Gate) -> None:
        """The owner holds no more."""
        gate.owner, gate.in_hand = (DEPARTING, gate.passed_over) if gate.passed_over else (None, 0)
        gate.passed_over = 0

    def _forget(self, gate: Gate) -> None:
        del self.by_key[gate.key]
        gate.owner, gate.due_at_ms = None, 0
        if len(self._spare) < SPARE_GATES:
            self._spare.append(gate)

    def _unlist(self, gate: Gate) -> None:
        if gate.listed_in is not None and gate.listed_key is not None:
            listing = gate.listed_in
            index = len(listing) - 1 if listing[-1] == gate.listed_key else bisect_left(listing, gate.listed_key)
            assert listing[index] == gate.listed_key, (gate.key, gate.listed_key)
            del listing[index]
            gate.listed_in = gate.listed_key = None
