"""Goal: a channel keeps its promises under any history. Method: Hypothesis makes the history, carrier.py carries it to
a real channel, paper_queue.py writes it down by the rules of docs/semantics.md, invariants.py compares after each step.

A failure prints the shortest history found as a Python program; run that test again and it repeats.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jbm_kafka.core import changes as c
from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.channel import Offer
from jbm_kafka.core.reference import LEAVING, Reference
from jbm_kafka.core.verdicts import GivenBack, decide_return, unknown_offsets
from tests.model import invariants as inv
from tests.model.carrier import Carrier
from tests.model.histories import INDIVIDUALS, SESSIONS, drafts, own_delays, plain_drafts, sessions, some, subsets
from tests.model.paper_queue import GIVEN_AWAY, PaperQueue, Remembered, Rules, Sent


class QueueChannelMachine(RuleBasedStateMachine):
    """One partition of one queue, its sessions, its checkpoints and its owners."""

    @initialize(
        attempts_max=st.sampled_from([-1, 1, 2, 3]),
        delay_ms=st.sampled_from([0, 50]),
        dead_letters=st.sampled_from(["copied", "copied", "removed", "held"]),
    )
    def create(self, attempts_max: int, delay_ms: int, dead_letters: str) -> None:
        copied = dead_letters == "copied"
        self.paper = PaperQueue(Rules(attempts_max, delay_ms, copied, dead_letters == "held"))
        self.settings = ResolvedSettings(
            max_delivery_attempts=attempts_max,
            redelivery_delay_ms=delay_ms,
            dead_letter_address="DLQ" if copied else None,
            on_dead_letter="hold" if dead_letters == "held" else "continue",
        )
        self.carrier = Carrier()
        self.carrier.state.apply(c.TimePassed(self.paper.now_ms))
        self.checkpoints = 0
        self.pending: Remembered | None = None
        self.committing: dict[str, list[int]] = {}
        """Whose messages the pending checkpoint settles; such a session does nothing else meanwhile."""
        self.attempts_before: dict[int, int] = {}

    # -- the log ---------------------------------------------------------------------------------------------------

    @rule(rows=st.lists(plain_drafts | drafts, min_size=1, max_size=8))
    def send(self, rows: list[tuple[bytes | None, int, int, int, int]]) -> None:
        for unit, priority, expires, delivery, gap in rows:
            offset, now_ms = self.paper.log_end + gap, self.paper.now_ms
            self.paper.send(
                Sent(offset, unit, priority, now_ms + expires if expires else 0, now_ms + delivery if delivery else 0)
            )

    @rule(back=st.integers(min_value=-3, max_value=12))
    def fetch(self, back: int) -> None:
        """Read on, sometimes not to the end, sometimes past it (transaction markers)."""
        begin = self.carrier.state.cursor
        assert begin <= self.paper.read_to
        end = max(self.paper.log_end - back, begin) if back > 0 else self.paper.log_end - back
        if end < self.paper.read_to:
            return
        self.paper.log_end = max(self.paper.log_end, end)
        found = self.paper.read(end)
        references = [Reference(*self._fields(sent)) for sent in found]
        self.carrier.state.apply(c.Fetched(begin=begin, end=end, references=references))

    @staticmethod
    def _fields(sent: Sent) -> tuple[int, bytes | None, int, int, int]:
        return sent.offset, sent.unit, sent.priority, sent.expiration_ms, sent.delivery_time_ms

    @rule(ms=st.sampled_from([1, 20, 60, 500]))
    def pass_time(self, ms: int) -> None:
        self.paper.now_ms += ms
        self.carrier.state.apply(c.TimePassed(self.paper.now_ms))

    # -- sessions --------------------------------------------------------------------------------------------------

    @rule(session=sessions, limit=st.sampled_from([0, 1, 2, 3, 100, 100]))
    def ask(self, session: str, limit: int) -> None:
        self._ask(session, limit)

    @rule(session=sessions)
    def ask_until_nothing_comes(self, session: str) -> None:
        for _ in range(len(self.paper.unsettled()) + 2):
            offer = self._ask(session, 100)
            if not offer.changes_something or offer.needs_offered:
                return
        raise AssertionError("an offer that changes something must come to an end")

    def _ask(self, session: str, limit: int) -> Offer:
        paper, individual = self.paper, session in INDIVIDUALS
        heads = paper.deliverable_heads(session, one_per_unit=individual)
        offer = self.carrier.ask(session, limit=limit, now_ms=paper.now_ms, one_per_unit=individual)
        for reference, reason in offer.leaving:
            self._sees_leave(reference.offset, reason)
        handed = [reference.offset for reference in offer.references]
        assert len(handed) <= limit
        for offset in handed:
            inv.it_waited_there(paper, offset)
            inv.it_is_next_of_its_unit(paper, offset, session)
            inv.nobody_else_has_its_unit(paper, offset, session)
            if individual:
                inv.individual_holds_one_of_a_unit(paper, offset)
            inv.its_time_has_come(paper, offset)
            inv.it_is_not_expired(paper, offset)
            inv.it_is_not_given_up(paper, offset)
            inv.it_is_durably_reserved(paper, offset)
            paper.hand_over(offset, session)
        inv.best_first(paper, heads, handed)
        if len(handed) < limit and not offer.needs_offered:
            inv.nothing_deliverable_is_kept(heads, handed, paper.heads_that_must_leave())
        if offer.needs_offered:
            assert any(o >= paper.offered and o not in paper.holder for o in paper.unsettled())
        return offer

    def _sees_leave(self, offset: int, reason: str) -> None:
        """SEND-5, REDELIVER-3: only heads of units in nobody's hand leave, and only for a reason."""
        inv.it_waited_there(self.paper, offset)
        inv.it_is_next_of_its_unit(self.paper, offset, GIVEN_AWAY)
        inv.nobody_else_has_its_unit(self.paper, offset, "nobody")
        inv.its_time_has_come(self.paper, offset)
        assert self.paper.is_expired(offset) if reason == "expired" else self.paper.is_given_up(offset)
        assert not self.paper.is_held_for_operator(offset)
        self.paper.hand_over(offset, GIVEN_AWAY)

    def _free_hand(self, session: str) -> list[int]:
        return [] if session in self.committing else self.paper.in_hand(session)

    @rule(session=st.sampled_from([*SESSIONS, GIVEN_AWAY]), mask=subsets, one_by_one=st.booleans())
    def acknowledge(self, session: str, mask: int, one_by_one: bool) -> None:
        """A session's verdicts; for what is on its way out, a removal without copy."""
        offsets = some(self._free_hand(session), mask)
        known_as = LEAVING if session == GIVEN_AWAY else session
        assert unknown_offsets(self.carrier.state, known_as, [*offsets, 1 << 40]) == [1 << 40]
        for batch in [[o] for o in offsets] if one_by_one else [offsets]:
            self.carrier.state.apply(c.Acknowledged(session=known_as, offsets=batch))
        for offset in offsets:
            self.paper.settle(offset)

    @rule(session=sessions, mask=subsets, counted=st.integers(0, 255), delay_ms=own_delays)
    def give_back(self, session: str, mask: int, counted: int, delay_ms: int | None) -> None:
        offsets = some(self._free_hand(session), mask)
        self._give_back(session, {o: (o in some(offsets, counted), delay_ms) for o in offsets})

    @rule(session=sessions, counted=st.integers(0, 255))
    def close_session(self, session: str, counted: int) -> None:
        """UNIT-7, REDELIVER-1: everything goes back, what reached the application counts and waits no delay."""
        offsets = self._free_hand(session)
        self._give_back(session, {o: (o in some(offsets, counted), 0) for o in offsets})

    def _give_back(self, session: str, rows: dict[int, tuple[bool, int | None]]) -> None:
        decision = decide_return(
            self.carrier.state,
            session,
            [GivenBack(offset, counted, delay_ms) for offset, (counted, delay_ms) in rows.items()],
            settings=self.settings,
            now_ms=self.paper.now_ms,
            chance=0.5,
        )
        for change in decision.changes:
            self.carrier.state.apply(change)
        before = self.paper.in_hand(session)
        left = self.paper.give_back(session, rows)
        assert {leaving.reference.offset for leaving in decision.leaving} == left
        gone = set(before) - set(self.paper.in_hand(session)) - left
        assert {reference.offset for reference, _ in decision.returned} == gone
        assert not decision.unknown

    # -- the held store --------------------------------------------------------------------------------------------

    @rule(pick=st.integers(0, 7), kept=st.integers(1, 3))
    def spill(self, pick: int, kept: int) -> None:
        keys = [k for k, gate in self.carrier.state.gates.by_key.items() if gate.waiting]
        if keys:
            self.carrier.spill(keys[pick % len(keys)], kept)

    @rule(count=st.integers(1, 4))
    def load(self, count: int) -> None:
        for key in [k for k in self.carrier.held_store if not self.carrier.state.gates.by_key[k].waiting]:
            self.carrier.load(key, count)

    # -- checkpoints and owners ------------------------------------------------------------------------------------

    @precondition(lambda self: self.pending is None)
    @rule(ahead=st.sampled_from([0, 1, 5, 100_000]), committing=st.integers(0, 31), mask=subsets)
    def begin_checkpoint(self, ahead: int, committing: int, mask: int) -> None:
        """`committing`: which sessions commit in it, and whether the copies of what leaves are in it."""
        for bit, session in enumerate([*SESSIONS, GIVEN_AWAY]):
            offsets = some(self.paper.in_hand(session), mask)
            if committing >> bit & 1 and offsets:
                self.committing[session] = offsets
        tentative = {offset for offsets in self.committing.values() for offset in offsets}
        offered = max(self.paper.offered, self.paper.handed_to + ahead)
        self._freeze(offered, tentative)

    def _freeze(self, offered: int, tentative: set[int]) -> None:
        self.checkpoints += 1
        frozen = self.carrier.begin_checkpoint(self.checkpoints, offered=offered, tentative=tentative)
        inv.the_watermark_is_exact(self.paper, frozen.watermark, tentative)
        self.pending = self.paper.as_of_now(tentative, offered)
        self.pending.watermark = frozen.watermark  # judged just now; where the next owner resumes

    @precondition(lambda self: self.pending is not None)
    @rule(durable=st.sampled_from([True, True, True, False]))
    def end_checkpoint(self, durable: bool) -> None:
        assert self.pending is not None
        self.carrier.end_checkpoint(durable=durable)
        committed, self.committing = self.committing, {}
        remembered, self.pending = self.pending, None
        if not durable:
            return
        self.paper.is_durable(remembered)
        for session, offsets in committed.items():
            known_as = LEAVING if session == GIVEN_AWAY else session
            self.carrier.state.apply(c.Acknowledged(session=known_as, offsets=offsets, durable=True))
            for offset in offsets:
                self.paper.settle(offset)
        inv.replay_gives_the_durable_part(self.paper, remembered, self.carrier)
        inv.the_changelog_holds_only_what_is_open(self.paper, remembered, self.carrier)

    @precondition(lambda self: self.checkpoints > 0)
    @rule(was_written=st.booleans(), clock=st.sampled_from([0, 0, 10, 1_000, -300]))
    def crash(self, was_written: bool, clock: int) -> None:
        """The owner vanishes; whether its last checkpoint was committed nobody can know beforehand."""
        if self.pending is not None and was_written:
            self.carrier.end_checkpoint(durable=True)
            self.paper.is_durable(self.pending)
        self._start_again(self.paper.now_ms + clock)

    @precondition(lambda self: self.pending is None)
    @rule()
    def release_cleanly(self) -> None:
        """Everything returned, `offered` back to what was handed over, and a new owner."""
        for session in SESSIONS:
            self._give_back(session, dict.fromkeys(self.paper.in_hand(session), (False, None)))
        self._freeze(self.paper.handed_to, set())
        self.carrier.end_checkpoint(durable=True)
        assert self.pending is not None
        self.paper.durable = self.pending
        self._start_again(self.paper.now_ms)

    def _start_again(self, now_ms: int) -> None:
        self.pending, self.committing, self.attempts_before = None, {}, {}
        self.paper.crash(now_ms)
        self.carrier.crash(now_ms)
        assert self.carrier.state.cursor == self.paper.read_to

    # -- after every step ------------------------------------------------------------------------------------------

    @invariant()
    def every_promise_holds(self) -> None:
        paper, carrier, state = self.paper, self.carrier, self.carrier.state
        inv.nothing_is_lost_and_nothing_invented(paper, carrier)
        inv.references_are_the_messages_sent(paper, carrier)
        inv.hands_hold_what_was_handed_over(paper, state)
        inv.each_unit_is_in_one_hand(paper, state)
        inv.attempts_are_as_counted(paper, state)
        inv.attempts_only_grow(self.attempts_before, paper)
        self.attempts_before = dict(paper.attempts)
        inv.redelivered_is_told(paper, state)
        inv.the_watermark_is_exact(paper, state.watermark, set())
        inv.the_heads_are_exact(paper, state)
        inv.nothing_waits_twice_in_the_listings(state)
        inv.no_session_is_remembered_for_nothing(state)


TestQueueChannel = QueueChannelMachine.TestCase
TestQueueChannel.settings = settings(
    max_examples=120, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
