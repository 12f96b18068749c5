"""A queue on paper: what docs/semantics.md, sections 1, 2 and 5, says of a contract channel. It reads no channel."""

from __future__ import annotations

from dataclasses import dataclass

ATTEMPTS_MAX = 3


@dataclass
class Note:
    """What is known of one message."""

    name: str
    unit: str
    """A message without a unit is its own."""
    priority: int
    expires_ms: int
    transaction: str | None
    holder: str | None = None
    is_acknowledged: bool = False
    """Early: nobody owes it, its delivery was not recorded."""
    submitted: bool = False
    """Its holder acknowledged in the open transaction."""
    attempts: int = 0
    due_ms: int = 0
    lost_by: str | None = None
    is_given_up: bool = False
    """It has used up its attempts, and leaves when the unit is nobody's."""

    @property
    def state(self) -> str:
        if self.transaction is not None:
            return "not_committed"
        return "new" if self.holder is None else "delivered"


class PaperChannel:
    """Every message held, in arrival order, and where those went that are not."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.notes: list[Note] = []
        self.dead: list[str] = []
        self.now_ms = 1_000

    def find(self, name: str) -> Note | None:
        return next((note for note in self.notes if note.name == name), None)

    def of(self, state: str) -> list[Note]:
        return [note for note in self.notes if note.state == state]

    def in_hand_of(self, receiver_id: str) -> list[Note]:
        return [note for note in self.notes if note.holder == receiver_id]

    # -- what may be handed over -------------------------------------------------------------------------------

    def may_have(self, note: Note, receiver_id: str) -> bool:
        """UNIT-1 to UNIT-4: what comes before it in its unit is in this hand, and nothing holds it back."""
        if note.is_given_up or note.due_ms > self.now_ms or self.is_expired(note):
            return False
        return self.is_next(note, receiver_id)

    def is_next(self, note: Note, receiver_id: str | None) -> bool:
        """UNIT-1, UNIT-2"""
        if note.state != "new":
            return False
        for other in self.notes:
            if other.unit != note.unit or other is note:
                continue
            if other.state == "delivered" and other.holder != receiver_id:
                return False
            if other.state != "delivered" and self.notes.index(other) < self.notes.index(note):
                return False
        return True

    def is_expired(self, note: Note) -> bool:
        return 0 < note.expires_ms <= self.now_ms

    # -- what happens ------------------------------------------------------------------------------------------

    def take(self, note: Note, receiver_id: str, answer: str, transaction: str | None) -> None:
        """A receiver has been handed a NEW message and took it."""
        note.holder, note.lost_by = receiver_id, None
        self.answered(note, answer, transaction)

    def answered(self, note: Note, answer: str, transaction: str | None) -> None:
        """The acknowledgement that came with taking it, if one did."""
        if answer == "take":
            return
        if transaction is None:
            self.notes.remove(note)
        else:
            note.submitted = True

    def come_back(self, notes: list[Note], *, delay_ms: int, lost_by: str | None) -> None:
        """STATE-5, REDELIVER-1: each is one attempt more.

        STATE-4, SEND-5: when one of them has expired the channel has found that, and every NEW one that has leaves too.
        """
        for note in notes:
            note.holder, note.submitted = None, False
            note.attempts += 1
            note.due_ms = self.now_ms + delay_ms if delay_ms else 0
            note.lost_by = None if delay_ms else lost_by
            if note.attempts >= ATTEMPTS_MAX:
                note.is_given_up, note.due_ms = True, 0
        units = {note.unit for note in notes}
        self.give_up([note for note in self.notes if note.unit in units])
        if any(self.is_expired(note) for note in notes):
            self.expire()

    def give_up(self, notes: list[Note]) -> None:
        """REDELIVER-3, UNIT-16: in the order of their units, and not while an earlier or later one is in hand."""
        for note in list(notes):
            if note.is_given_up and self.is_next(note, None):
                self.dead.append(note.name)
                self.notes.remove(note)

    def settle_early(self) -> None:
        self.notes = [note for note in self.notes if not note.is_acknowledged]

    def expire(self) -> list[str]:
        """SEND-5: all NEW ones whose time has ended, and no others."""
        gone = [note for note in self.of("new") if self.is_expired(note)]
        self.notes = [note for note in self.notes if note not in gone]
        return [note.name for note in gone]

    def lose(self, receiver_id: str) -> None:
        """STATE-5: at once; what it acknowledged in the open transaction waits for that."""
        self.settle_early()
        owed = [note for note in self.in_hand_of(receiver_id) if not note.submitted]
        self.come_back(owed, delay_ms=0, lost_by=receiver_id)
