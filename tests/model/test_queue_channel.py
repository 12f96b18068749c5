"""Goal: a channel keeps its promises under any history. Method: Hypothesis makes the history, carrier.py carries it to
a real channel, paper_queue.py writes it down by the rules of docs/semantics.md, invariants.py compares after each step.

A failure prints the shortest history found as a Python program; run that test again and it repeats.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.spilling import shelvable, spillable
from tests.model.histories import (
    SESSIONS,
    mixed_batches,
    own_delays,
    picks,
    plain_batches,
    selectors,
    sessions,
    some,
    subsets,
)
from tests.model.judged_channel import JudgedChannel
from tests.model.moves import apply_by_the_table
from tests.model.paper_queue import GIVEN_AWAY, Sent


class QueueChannelMachine(JudgedChannel):
    """One partition of one queue, its sessions, its checkpoints and its owners."""

    @initialize(
        attempts_max=st.sampled_from([-1, 1, 2, 3]),
        delay_ms=st.sampled_from([0, 50]),
        dead_letters=st.sampled_from(["copied", "copied", "removed", "held"]),
        reserved=st.sampled_from([500_000, 500_000, 500_000, 4, 0]),
        records_attempts=st.sampled_from([False, False, True]),
    )
    def create(
        self, attempts_max: int, delay_ms: int, dead_letters: str, reserved: int, records_attempts: bool
    ) -> None:
        self.begin(attempts_max, delay_ms, dead_letters, records_attempts)
        if reserved:
            self.freeze(reserved, set(), set())
            self.end_checkpoint(True)

    # -- the log ---------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.paper.unsettled()) < 40)
    @rule(
        rows=plain_batches | plain_batches | mixed_batches,
        is_read_at_once=st.sampled_from([True] * 5 + [False]),
    )
    def send(self, rows: list[tuple[bytes | None, int, int, int, int, int]], is_read_at_once: bool) -> None:
        for unit, priority, expires, delivery, gap, colour in rows:
            offset, now_ms = self.paper.log_end + gap, self.paper.now_ms
            expires_ms, delivery_ms = now_ms + expires if expires else 0, now_ms + delivery if delivery else 0
            self.paper.send(Sent(offset, unit, priority, expires_ms, delivery_ms, colour))
        if is_read_at_once:
            self.read_to(self.paper.log_end)

    @precondition(lambda self: self.paper.read_to < self.paper.log_end)
    @rule()
    def fetch_all(self) -> None:
        self.read_to(self.paper.log_end)

    @precondition(lambda self: self.since_checkpoint > 1 or self.paper.read_to < self.paper.log_end)
    @rule(back=st.integers(min_value=-3, max_value=12))
    def fetch(self, back: int) -> None:
        """Read on, sometimes not to the end, sometimes past it (transaction markers)."""
        self.read_to(self.paper.log_end - back)

    @rule(ms=st.sampled_from([1, 25, 30, 50, 500]))
    def pass_time(self, ms: int) -> None:
        self.paper.now_ms += ms
        apply_by_the_table(self.carrier.state, c.TimePassed(self.paper.now_ms))

    # -- selectors -------------------------------------------------------------------------------------------------

    @rule(session=sessions, colours=selectors)
    def select(self, session: str, colours: frozenset[int] | None) -> None:
        """SEL-1: a consumer with another selector, or none, comes in place of the one before."""
        super().select(session, colours)

    # -- sessions --------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.somebody_waits())
    @rule(session=sessions, limit=st.sampled_from([0, 1, 2, 3, 100, 100]))
    def ask(self, session: str, limit: int) -> None:
        self.ask_for(session, limit)

    @precondition(lambda self: self.somebody_waits())
    @rule(session=sessions)
    def ask_until_nothing_comes(self, session: str) -> None:
        for _ in range(len(self.paper.unsettled()) + 2):
            offer = self.ask_for(session, 100)
            if not offer.changes_something or offer.needs_offered:
                return
        raise AssertionError("an offer that changes something must come to an end")

    @precondition(lambda self: self.paper.holder)
    @rule(pick=picks, mask=subsets, one_by_one=st.booleans())
    def acknowledge(self, pick: int, mask: int, one_by_one: bool) -> None:
        """A session's verdicts; for what is on its way out, a removal without copy."""
        self.settle(self.holding(pick, leaving=True), mask, one_by_one)

    @precondition(lambda self: self.somebody_waits())
    @rule(session=sessions, limit=st.sampled_from([1, 3, 100]), mask=subsets, counted=subsets, delay_ms=own_delays)
    def work(self, session: str, limit: int, mask: int, counted: int, delay_ms: int | None) -> None:
        """Ask, acknowledge some of what is in hand, give the rest back."""
        self.ask_for(session, limit)
        self.settle(session, mask, one_by_one=False)
        rest = self.free_hand(session)
        self.take_back(session, {o: (o in some(rest, counted), delay_ms) for o in rest})

    @precondition(lambda self: self.since_owner > 3)
    @rule()
    def settle_all_that_comes(self) -> None:
        """Every session takes and acknowledges what it may have, so that the watermark reaches the end."""
        for session in (*SESSIONS, GIVEN_AWAY):
            if session != GIVEN_AWAY:
                self.ask_for(session, 100)
            self.settle(session, 255, one_by_one=False)

    @precondition(lambda self: self.paper.holder)
    @rule(pick=picks, mask=subsets, counted=subsets, delay_ms=own_delays)
    def give_back(self, pick: int, mask: int, counted: int, delay_ms: int | None) -> None:
        session = self.holding(pick)
        offsets = some(self.free_hand(session), mask)
        self.take_back(session, {o: (o in some(offsets, counted), delay_ms) for o in offsets})

    @precondition(lambda self: self.paper.holder)
    @rule(pick=picks, counted=subsets)
    def close_session(self, pick: int, counted: int) -> None:
        """REDELIVER-1, of UNIT-7: everything goes back, what reached the application counts and waits no delay."""
        session = self.holding(pick)
        offsets = self.free_hand(session)
        self.take_back(session, {o: (o in some(offsets, counted), 0) for o in offsets})

    # -- operators -------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.somebody_waits())
    @rule(mask=subsets)
    def take_out_some(self, mask: int) -> None:
        """Of UNIT-14: wherever they wait, and whoever holds others of their units."""
        offsets = some([o for o in self.paper.unsettled() if o not in self.paper.holder], mask)
        if offsets:
            self.take_out(offsets)

    @precondition(lambda self: GIVEN_AWAY in self.paper.holder.values())
    @rule(mask=subsets)
    def put_back_some(self, mask: int) -> None:
        """Those of units that nobody works on; another's receiver may have gone on behind what left."""
        paper = self.paper
        alone = [o for o in self.free_hand(GIVEN_AWAY) if paper.holders(paper.log[o].queue) == {GIVEN_AWAY}]
        offsets = some(alone, mask)
        if offsets:
            self.put_back(offsets)

    @precondition(lambda self: self.on_hold())
    @rule(mask=subsets)
    def release(self, mask: int) -> None:
        """UNIT-16, of LOG-9: also what stands on the shelf."""
        self.let_go(some(self.on_hold(), mask) or self.on_hold())

    # -- the held store --------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(spillable(self.carrier.state)))
    @rule(pick=picks)
    def spill(self, pick: int) -> None:
        rows = spillable(self.carrier.state)
        if rows:
            self.carrier.spill(rows[pick % len(rows)])

    @precondition(lambda self: self.carrier.held_store)
    @rule(count=st.integers(1, 4))
    def load(self, count: int) -> None:
        by_key = self.carrier.state.gates.by_key
        for key in [k for k in self.carrier.held_store if k in by_key and by_key[k].spilled and not by_key[k].waiting]:
            self.carrier.load(key, count)

    @precondition(lambda self: bool(shelvable(self.carrier.state)))
    @rule(mask=subsets)
    def shelve(self, mask: int) -> None:
        gates = shelvable(self.carrier.state)
        self.carrier.shelve(some(gates, mask) or gates)

    @precondition(lambda self: any(not row.kept for row in spillable(self.carrier.state)))
    @rule()
    def put_away(self) -> None:
        """Of LOG-9: all that may leave memory with its gate does."""
        for row in spillable(self.carrier.state):
            if not row.kept:
                self.carrier.spill(row)
        self.carrier.shelve(shelvable(self.carrier.state))

    @precondition(lambda self: self.carrier.shelved or self.carrier.shelved_units)
    @rule(pick=picks, count=st.integers(1, 4))
    def bring_back(self, pick: int, count: int) -> None:
        """Of LOG-9: what stands on the shelf may come back before its time, and waits in memory again."""
        places = sorted([*self.carrier.shelved, *self.carrier.shelved_units])
        self.carrier.bring_back(places[pick % len(places)], count)

    @precondition(lambda self: self.carrier.state.gates.awaiting_look)
    @rule()
    def look_up(self) -> None:
        """Of LOG-9, UNIT-1: whether a unit is shelved of which messages came."""
        self.carrier.look_up()

    @precondition(lambda self: self.carrier.state.shelf.to_ask)
    @rule(count=st.integers(1, 4))
    def ask_shelf(self, count: int) -> None:
        self.carrier.ask_shelf(next(iter(self.carrier.state.shelf.to_ask)), count)

    # -- checkpoints and owners ------------------------------------------------------------------------------------

    @precondition(lambda self: self.pending is None and self.since_checkpoint > 1)
    @rule(
        ahead=st.sampled_from([0, 1, 5, 500_000, 500_000, 500_000]),
        committing=st.integers(0, 31),
        mask=subsets,
        parks=st.just(0) | subsets,
    )
    def begin_checkpoint(self, ahead: int, committing: int, mask: int, parks: int) -> None:
        """`committing`: which sessions commit in it, and whether the copies of what leaves are in it."""
        for bit, session in enumerate([*SESSIONS, GIVEN_AWAY]):
            offsets = some(self.paper.in_hand(session), mask)
            if committing >> bit & 1 and offsets:
                self.committing[session] = offsets
        tentative = {offset for offsets in self.committing.values() for offset in offsets}
        offered = max(self.paper.offered, self.paper.delivered_position + ahead)
        self.freeze(offered, tentative, set(some(self.paper.unsettled(), parks)) - tentative)

    @precondition(lambda self: self.pending is not None)
    @rule(durable=st.sampled_from([True, True, False]))
    def end_checkpoint(self, durable: bool) -> None:
        self.settle_checkpoint(durable=durable)

    @precondition(lambda self: self.checkpoints > 0 and self.since_owner > 5)
    @rule(was_written=st.booleans(), clock=st.sampled_from([0, 0, 10, 1_000, -300]))
    def crash(self, was_written: bool, clock: int) -> None:
        """The owner vanishes; whether its last checkpoint was committed nobody can know beforehand."""
        if self.pending is not None and was_written:
            self.carrier.end_checkpoint(durable=True)
            self.paper.is_durable(self.pending)
        self.start_again(self.paper.now_ms + clock)

    @precondition(lambda self: self.pending is None and self.since_owner > 8)
    @rule()
    def release_cleanly(self) -> None:
        """Everything returned, `offered_position` back to what was in doubt before, and a new owner."""
        for session in SESSIONS:
            self.take_back(session, dict.fromkeys(self.paper.in_hand(session), (False, None)))
        # What came back uncounted never reached an application, and what was counted is remembered as that.
        self.paper.handed.clear()
        self.freeze(self.paper.redelivered_below, set(), set())
        self.carrier.end_checkpoint(durable=True)
        assert self.pending is not None
        self.paper.durable = self.pending
        self.start_again(self.paper.now_ms)

    # -- after every step ------------------------------------------------------------------------------------------

    @invariant()
    def every_promise_holds(self) -> None:
        """STATE-1: and each change that led here moved messages by rows of the table only (moves.py)."""
        self.check()


TestQueueChannel = pytest.mark.timeout(900)(QueueChannelMachine.TestCase)  # finding the shortest history takes minutes
TestQueueChannel.settings = settings(
    max_examples=300, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class LongerMachine(QueueChannelMachine):
    """The same at length: some planted bugs show only once in a thousand histories."""


TestQueueChannelAtLength = pytest.mark.slow(pytest.mark.timeout(1800)(LongerMachine.TestCase))
TestQueueChannelAtLength.settings = settings(TestQueueChannel.settings, max_examples=4_000)
