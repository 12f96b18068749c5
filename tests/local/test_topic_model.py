"""Goal: a topic channel does what the paper says, through transactions, refusals, departures, expiry and crashes.

Method: Hypothesis sends, acknowledges, asks again, leaves and crashes. The paper writes down who owes what by the rules
of docs/semantics.md and never reads the channel; after every step both must hold the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jbm_kafka.contract import MessageState, Routable
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    RoutableNotAcceptedError,
    TransactionRolledBackError,
    UnknownMessageError,
)
from jbm_kafka.local import LocalTransactionManager
from tests.local.parts import BrokenError, Hand
from tests.local.topic_parts import TopicBench

NAMES = ("r1", "r2", "r3")
ANSWERS = ("take", "take", "acknowledge", "refuse", "break", "unwanted")
names = st.sampled_from(NAMES)


@dataclass
class Note:
    """What is known of one message."""

    name: str
    unit: str | None
    expires_ms: int
    transaction: str | None
    owing: set[str] = field(default_factory=set)
    submitted: set[str] = field(default_factory=set)
    """Who acknowledged it in the open transaction."""
    is_offered: bool = False

    @property
    def state(self) -> str:
        if self.transaction is not None:
            return "not_committed"
        return "delivered" if self.owing else "new"


class TopicMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = TopicBench()
        self.notes: list[Note] = []
        self.answers: dict[str, str] = {}
        """Of the receivers that are there, in the order they came."""
        self.hands: dict[str, Hand] = {}
        self.expected: dict[str, list[str]] = {}
        self.transaction: str | None = None
        self.count = 0
        self.since_loss = 0
        """Messages since a receiver left or the process crashed: both are rare, or nothing else would happen."""

    # -- the paper -------------------------------------------------------------------------------------------------

    def is_expired(self, note: Note) -> bool:
        return 0 < note.expires_ms <= self.bench.clock.now_ms

    def offer_all(self, *, in_transaction: bool = False) -> None:
        """STATE-4, STATE-8, of UNIT-4: in arrival order, to everybody who is there."""
        blocked: set[str | None] = set()
        for note in list(self.notes):
            if note.transaction is not None:
                blocked.add(note.unit)
            elif not note.is_offered and (note.unit is None or note.unit not in blocked):
                self.offer(note, in_transaction=in_transaction)
        self.notes = [note for note in self.notes if note.owing or not note.is_offered]

    def offer(self, note: Note, *, in_transaction: bool) -> None:
        note.is_offered = True
        if self.is_expired(note):
            return
        for name, answer in self.answers.items():
            if answer != "unwanted":
                self.expected.setdefault(name, []).append(note.name)
            if answer == "take" or (answer == "acknowledge" and in_transaction):
                note.owing.add(name)
            if answer == "acknowledge" and in_transaction:
                note.submitted.add(name)

    def settle(self, note: Note, name: str) -> None:
        note.owing.discard(name)
        note.submitted.discard(name)
        if not note.owing and note.is_offered:
            self.notes.remove(note)

    # -- what happens ----------------------------------------------------------------------------------------------

    @initialize(answers=st.lists(st.sampled_from(ANSWERS), min_size=2, max_size=3))
    def begin(self, answers: list[str]) -> None:
        for name, answer in zip(NAMES, answers, strict=False):
            self.come(name, answer)

    @rule(name=names, answer=st.sampled_from(ANSWERS))
    def come(self, name: str, answer: str) -> None:
        hand = self.hands.setdefault(name, Hand(name))
        hand.wants = lambda routable: answer != "unwanted"
        said: dict[str, bool | Exception] = {"acknowledge": True, "refuse": RoutableNotAcceptedError("no")}
        hand.answer = BrokenError() if answer == "break" else said.get(answer, False)
        self.bench.topic.add_receiver(hand)
        self.answers[name] = answer

    @precondition(lambda self: self.since_loss > 3)
    @rule(name=names)
    def leave(self, name: str) -> None:
        self.since_loss = 0
        self.bench.topic.remove_receiver(name)
        self.answers.pop(name, None)

    @rule(unit=st.sampled_from(["a", None]), lives_ms=st.sampled_from([0, 0, 0, 50]))
    def send(self, unit: str | None, lives_ms: int) -> None:
        self.count += 1
        self.since_loss += 1
        name = f"m{self.count}"
        expires_ms = self.bench.clock.now_ms + lives_ms if lives_ms else 0
        if self.transaction is not None or self.answers:
            self.notes.append(Note(name, unit, expires_ms, self.transaction))
        if self.transaction is None and self.answers:
            self.offer_all()
        self.bench.send(name, unit=unit, expiration_ms=expires_ms)

    @precondition(lambda self: self.transaction is None)
    @rule()
    def open_transaction(self) -> None:
        self.transaction = self.bench.transactions.begin()

    @precondition(lambda self: self.transaction is not None)
    @rule(commits=st.booleans())
    def end_transaction(self, commits: bool) -> None:
        """STATE-2, STATE-7"""
        sent = [note for note in self.notes if note.transaction is not None]
        is_doomed = any(self.is_expired(note) for note in sent)
        self.transaction = None
        if not commits or is_doomed:
            self.notes = [note for note in self.notes if note not in sent]
            for note in self.notes:
                note.submitted = set()
            if commits:
                with pytest.raises(TransactionRolledBackError, match="expired"):
                    self.bench.transactions.commit()
            else:
                self.bench.transactions.rollback()
            return
        for note in [note for note in self.notes if note.submitted]:
            for name in list(note.submitted):
                self.settle(note, name)
        for note in sent:
            note.transaction = None
        self.offer_all()
        self.bench.transactions.commit()

    @rule()
    def deliver(self) -> None:
        """STATE-9"""
        self.offer_all(in_transaction=self.transaction is not None)
        assert self.bench.topic.deliver() == all(note.state != "new" for note in self.notes)

    @precondition(lambda self: self.notes)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        note = data.draw(st.sampled_from(self.notes))
        name = data.draw(st.sampled_from([*sorted(note.owing), *NAMES]))
        if note.transaction is None and not note.is_offered:
            return  # has a test of its own
        if name not in note.owing or name in note.submitted:
            with pytest.raises(IllegalStateError if note.transaction is not None else UnknownMessageError):
                self.bench.topic.acknowledge(note.name, name)
            return
        self.bench.topic.acknowledge(note.name, name)
        if self.transaction is None:
            self.settle(note, name)
        else:
            note.submitted.add(name)

    @rule(name=names)
    def ask_again(self, name: str) -> None:
        """STATE-9: registered or not."""
        if name not in self.hands:
            return
        answer = self.answers.get(name, "take")
        hand = self.hands[name]
        if name not in self.answers:
            hand.answer, hand.wants = False, lambda routable: True
        refused: set[str | None] = set()
        for note in [note for note in self.notes if name in note.owing and name not in note.submitted]:
            if note.unit is not None and note.unit in refused:
                continue
            if self.is_expired(note):
                self.settle(note, name)
                continue
            if answer != "unwanted":
                self.expected.setdefault(name, []).append(note.name)
            if answer in ("refuse", "break", "unwanted"):
                refused.add(note.unit)
            elif answer == "acknowledge" and self.transaction is None:
                self.settle(note, name)
            elif answer == "acknowledge":
                note.submitted.add(name)
        is_done = self.bench.topic.redeliver(hand)
        assert is_done == (not any(name in note.owing for note in self.notes))

    @rule(passed_ms=st.sampled_from([1, 49, 50]))
    def wait(self, passed_ms: int) -> None:
        self.bench.clock.now_ms += passed_ms

    @rule()
    def expire(self) -> None:
        """SEND-5"""
        gone = [note for note in self.notes if note.state == "new" and self.is_expired(note)]
        self.notes = [note for note in self.notes if note not in gone]
        assert self.bench.topic.expire(self.bench.clock.now_ms) == [note.name for note in gone]

    @precondition(lambda self: self.since_loss > 3)
    @rule(answers=st.lists(st.sampled_from(ANSWERS), max_size=3))
    def crash(self, answers: list[str]) -> None:
        """STATE-11: who owes something owes it still, under its id."""
        self.since_loss = 0
        self.bench.transactions = LocalTransactionManager()
        self.bench.topic = self.bench.open()
        self.transaction, self.answers = None, {}
        self.notes = [note for note in self.notes if note.transaction is None]
        for note in self.notes:
            note.submitted = set()
        self.begin(answers)

    # -- always ----------------------------------------------------------------------------------------------------

    @invariant()
    def the_channel_holds_what_the_paper_says(self) -> None:
        """Of STATE-1, STATE-2, STATE-4, STATE-7 and STATE-8"""
        topic = self.bench.topic
        assert [each.message_id for each in topic.state.references()] == [note.name for note in self.notes]
        for note in self.notes:
            state = topic.state.state_of(note.name)
            assert state is not None
            assert state.value == note.state, note
            assert topic.state.nacks(note.name) == note.owing, note
            assert topic.state.transaction_of(note.name) == note.transaction
        for each in MessageState:
            assert topic.has_messages(each) == any(note.state == each.value for note in self.notes)

    @invariant()
    def everybody_got_what_the_paper_says_in_that_order(self) -> None:
        """Of STATE-4, UNIT-1"""
        got: dict[str, list[Routable]] = {name: hand.got for name, hand in self.hands.items() if hand.got}
        assert {name: [each.message_id for each in routables] for name, routables in got.items()} == self.expected

    @invariant()
    def what_is_recorded_is_what_is_held(self) -> None:
        """STORE-1: a record and a body for each message that is committed, and none else."""
        committed = [note.name for note in self.notes if note.transaction is None]
        assert len(self.bench.persistence.read("t")) == len(committed)
        assert set(self.bench.persistence.read("bodies")) == {f"body|{name}" for name in committed}


TopicMachine.TestCase.settings = hypothesis_settings(max_examples=100, stateful_step_count=40, deadline=None)
TestTopicChannel = TopicMachine.TestCase
