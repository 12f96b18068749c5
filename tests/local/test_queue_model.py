"""Goal: a queue channel does what the paper says, through transactions, refusals, losses, expiry and crashes.

Method: Hypothesis sends, delivers, acknowledges, loses and crashes. Receivers tell the paper of every message they
are offered, and the paper judges whether they might be; after every step both must hold the same.
"""

from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from jbm_kafka.contract import MessageState, Routable
from jbm_kafka.core.jms_errors import (
    IllegalStateError,
    RoutableNotAcceptedError,
    TransactionRolledBackError,
    UnknownMessageError,
)
from jbm_kafka.local import LocalTransactionManager
from tests.local.paper_channel import Note, PaperChannel
from tests.local.parts import Bench, BrokenError, Text

RECEIVERS = ("r1", "r2", "r3")
UNITS = ("a", "b", None)
receivers = st.sampled_from(RECEIVERS)


class Judge:
    """A receiver that asks the paper about everything it is offered."""

    def __init__(self, receiver_id: str, machine: QueueMachine) -> None:
        self.receiver_id = receiver_id
        self.answer = "take"
        self._machine = machine

    def accept(self, routable: Routable, /) -> bool:
        return self.answer != "unwanted"

    def handle(self, routable: Routable, /) -> bool:
        return self._machine.offered(self, routable)


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench()
        self.paper = PaperChannel()
        self.judges = {name: Judge(name, self) for name in RECEIVERS}
        self.present: set[str] = set()
        self.transaction: str | None = None
        self.lost_in_doubt: set[str] = set()
        self.count = 0
        self.asked: list[tuple[str, str]] = []
        self.complaints: list[str] = []
        """A receiver must not assert: its channel would take that for a broken receiver."""

    # -- what receivers see ------------------------------------------------------------------------------------

    def offered(self, judge: Judge, routable: Routable) -> bool:
        note = self.paper.find(routable.message_id)
        if note is None:
            self.complaints.append(f"{routable.message_id} is not in the channel")
            return True
        self.forget_what_expired()  # the channel may have come to this one by letting one before it in its unit go
        again = note.holder == judge.receiver_id
        if not again and not self.paper.may_have(note, judge.receiver_id):
            self.complaints.append(f"{judge.receiver_id} may not have {note}")
        if routable.redelivered != (again or note.attempts > 0):
            self.complaints.append(f"redelivered is {routable.redelivered} on {note}")
        self.asked.append((note.name, judge.receiver_id))
        if judge.answer == "refuse":
            raise RoutableNotAcceptedError("no")
        if judge.answer == "break":
            raise BrokenError
        if judge.answer == "early":
            self.bench.queue.acknowledge(note.name, judge.receiver_id)
        if again:
            self.paper.answered(note, judge.answer, self.transaction)
        else:
            self.paper.take(note, judge.receiver_id, judge.answer, self.transaction)
        return judge.answer == "acknowledge"

    # -- sending and transactions ------------------------------------------------------------------------------

    @rule(unit=st.sampled_from(UNITS), priority=st.integers(3, 5), lives_ms=st.sampled_from([0, 0, 0, 150]))
    def send(self, unit: str | None, priority: int, lives_ms: int) -> None:
        self.count += 1
        name = f"m{self.count}"
        expires_ms = self.paper.now_ms + lives_ms if lives_ms else 0
        note = Note(name, unit or name, priority, expires_ms, self.transaction)
        self.paper.notes.append(note)
        self.asked = []
        assert self.bench.queue.handle(
            Text(name, is_reliable=True, unit_of_order=unit, priority=priority, expiration_ms=expires_ms)
        )
        self.was_offered_at_once([note])

    def was_offered_at_once(self, came: list[Note]) -> None:
        """STATE-13: what came and may go is not left lying; each message is offered to a receiver once at most."""
        self.forget_what_expired()
        came = [note for note in came if note in self.paper.notes]
        left = [(note.name, name) for note in came for name in self.willing() if self.paper.may_have(note, name)]
        assert not left, f"not offered at once: {left}"
        assert len(set(self.asked)) == len(self.asked), f"offered twice: {self.asked}"

    def forget_what_expired(self) -> None:
        """Of what the channel has let go, for it came upon it."""
        gone = [note for note in self.paper.of("new") if self.paper.is_expired(note)]
        gone = [note for note in gone if self.bench.queue.state.state_of(note.name) is None]
        self.paper.notes = [note for note in self.paper.notes if note not in gone]

    def willing(self) -> list[str]:
        return [name for name in self.present if self.judges[name].answer not in ("refuse", "break", "unwanted")]

    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        """A repeated id is refused."""
        if self.paper.notes:
            name = data.draw(st.sampled_from([note.name for note in self.paper.notes]))
            with pytest.raises(RoutableNotAcceptedError):
                self.bench.queue.handle(Text(name))

    @precondition(lambda self: self.transaction is None)
    @rule()
    def open_transaction(self) -> None:
        self.transaction = self.bench.transactions.begin()

    @precondition(lambda self: self.transaction is not None)
    @rule(commits=st.booleans())
    def end_transaction(self, commits: bool) -> None:
        sent = [note for note in self.paper.notes if note.transaction is not None]
        is_doomed = any(self.paper.is_expired(note) for note in sent)
        submitted = [note for note in self.paper.notes if note.submitted]
        lost = [note for note in submitted if note.name in self.lost_in_doubt]
        gone = submitted if commits and not is_doomed else sent
        self.paper.notes = [note for note in self.paper.notes if note not in gone]
        for note in [*sent, *submitted]:
            note.transaction, note.submitted = None, False
        self.transaction, self.lost_in_doubt, self.asked = None, set(), []
        if commits and not is_doomed:
            self.bench.transactions.commit()  # and receivers ask the paper
            self.was_offered_at_once(sent)
            return
        if commits:
            with pytest.raises(TransactionRolledBackError, match="expired"):
                self.bench.transactions.commit()
        else:
            self.bench.transactions.rollback()
        for name in RECEIVERS:
            self.paper.come_back([note for note in lost if note.holder == name], lost_by=name)

    # -- receivers ---------------------------------------------------------------------------------------------

    @rule(name=receivers, answer=st.sampled_from(["take", "acknowledge", "early", "refuse", "break", "unwanted"]))
    def answer(self, name: str, answer: str) -> None:
        self.judges[name].answer = answer

    @rule(name=receivers)
    def join(self, name: str) -> None:
        self.bench.queue.add_receiver(self.judges[name])
        self.present.add(name)

    @rule(name=receivers)
    def leave(self, name: str) -> None:
        in_doubt = {note.name for note in self.paper.in_hand_of(name) if note.submitted}
        self.bench.queue.remove_receiver(name)
        self.paper.lose(name)
        self.lost_in_doubt |= in_doubt
        self.present.discard(name)

    # -- delivering --------------------------------------------------------------------------------------------

    @rule()
    def deliver(self) -> None:
        self.paper.settle_early()
        self.paper.expire()
        self.asked = []
        is_done = self.bench.queue.deliver()
        assert is_done == (not self.paper.of("new"))
        left = [(n.name, name) for n in self.paper.notes for name in self.willing() if self.paper.may_have(n, name)]
        assert not left, f"not offered: {left}"
        assert len(set(self.asked)) == len(self.asked), f"offered twice in one pass: {self.asked}"

    @rule(name=receivers)
    def redeliver(self, name: str) -> None:
        self.paper.settle_early()
        self.paper.expire()
        self.asked = []
        judge = self.judges[name]
        owed = self.paper.owed_by(name)
        self.paper.notes = [note for note in self.paper.notes if note not in owed or not self.paper.is_expired(note)]
        waiting = [note for note in self.paper.notes if note.lost_by == name and note.state == "new"]
        expected = {note.name for note in owed + waiting if note in self.paper.notes}
        is_done = self.bench.queue.redeliver(judge)
        assert {message for message, _ in self.asked} <= expected
        if judge.answer in ("take", "acknowledge", "early"):
            left = [note.name for note in self.paper.notes if note.lost_by == name and self.paper.may_have(note, name)]
            assert not left, f"not offered: {left}"
        lost = [note for note in self.paper.of("new") if note.lost_by == name]
        assert is_done == (not self.paper.in_hand_of(name) and not lost)

    @rule(name=receivers, data=st.data())
    def acknowledge(self, name: str, data: st.DataObject) -> None:
        if not self.paper.notes:
            return
        self.acknowledge_one(name, data.draw(st.sampled_from(self.paper.notes)))

    def acknowledge_one(self, name: str, note: Note) -> None:
        busy = [o.holder for o in self.paper.notes if o.unit == note.unit and o.holder not in (None, name)]
        is_theirs = note.holder == name or (note.state == "new" and not busy)
        is_fine = is_theirs and not note.submitted and not note.is_acknowledged
        if note.state == "new" and self.transaction is not None:
            return  # has a test of its own
        if not is_fine:
            with pytest.raises(IllegalStateError if note.state == "not_committed" else UnknownMessageError):
                self.bench.queue.acknowledge(note.name, name)
            return
        self.bench.queue.acknowledge(note.name, name)
        if note.state == "new":
            note.holder, note.is_acknowledged = name, True
        else:
            self.paper.answered(note, "acknowledge", self.transaction)

    # -- time and crashes --------------------------------------------------------------------------------------

    @rule(passed_ms=st.sampled_from([1, 99, 100, 200]))
    def wait(self, passed_ms: int) -> None:
        self.paper.now_ms += passed_ms
        self.bench.clock.now_ms = self.paper.now_ms

    @rule()
    def expire(self) -> None:
        assert self.bench.queue.expire(self.paper.now_ms) == self.paper.expire()

    @rule()
    def crash(self) -> None:
        self.bench.transactions = LocalTransactionManager()
        self.bench.queue = self.bench.open()
        self.paper.notes = [note for note in self.paper.notes if note.transaction is None]
        self.paper.settle_early()
        self.transaction, self.lost_in_doubt = None, set()
        for note in self.paper.notes:
            note.submitted, note.lost_by = False, None
        for name in RECEIVERS:
            self.paper.come_back(self.paper.in_hand_of(name), lost_by=name)
        self.present = set()

    # -- always ------------------------------------------------------------------------------------------------

    @invariant()
    def every_message_is_in_the_state_the_paper_says(self) -> None:
        """Of STATE-1 to STATE-7"""
        queue, notes = self.bench.queue, self.paper.notes
        assert [each.message_id for each in queue.state.references()] == [note.name for note in notes]
        for note in notes:
            state = queue.state.state_of(note.name)
            assert state is not None
            assert state.value == note.state, note
            owed = {note.holder} if note.holder is not None and not note.is_acknowledged else set()
            assert queue.state.nacks(note.name) == owed, note
            assert queue.state.transaction_of(note.name) == note.transaction
        for each in MessageState:
            assert [m.message_id for m in queue.get_messages(each)] == [n.name for n in self.paper.of(each.value)]
            assert queue.has_messages(each) == bool(self.paper.of(each.value))

    @invariant()
    def no_receiver_was_offered_what_it_may_not_have(self) -> None:
        """UNIT-1, UNIT-2, of STATE-4 and UNIT-4"""
        assert not self.complaints

    @invariant()
    def browsing_shows_what_is_committed(self) -> None:
        """STATE-9"""
        seen = [(message.message_id, message.redelivered) for message in self.bench.queue.browse()]
        assert seen == [(n.name, n.attempts > 0) for n in self.paper.notes if n.transaction is None]


QueueMachine.TestCase.settings = hypothesis_settings(max_examples=150, stateful_step_count=40, deadline=None)
TestQueueChannel = QueueMachine.TestCase


@pytest.mark.parametrize("how", ["crash", "leave"])
def test_what_expired_in_a_lost_hand_took_an_expired_message_along_that_the_paper_kept(how: str) -> None:
    """Of SEND-5 and STATE-4: the channel found one that has expired, and lets go of all NEW ones that have."""
    machine = QueueMachine()
    machine.send(unit="a", priority=3, lives_ms=0)
    machine.send(unit="a", priority=3, lives_ms=150)
    machine.join("r1")
    machine.acknowledge_one("r2", machine.paper.notes[0])
    machine.send(unit="b", priority=3, lives_ms=150)
    machine.wait(200)
    assert [note.state for note in machine.paper.notes] == ["delivered", "new", "delivered"]
    machine.every_message_is_in_the_state_the_paper_says()
    if how == "crash":
        machine.crash()
    else:
        machine.leave("r1")
    assert machine.paper.notes == []
    machine.every_message_is_in_the_state_the_paper_says()
