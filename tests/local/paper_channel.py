"""A queue on paper: what docs/semantics.md, sections 1 and 2, says of a contract channel. It reads no channel."""

from __future__ import annotations

from dataclasses import dataclass


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
    lost_by: str | None = None

    @property
    def state(self) -> str:
        if self.transaction is not None:
            return "not_committed"
        return "new" if self.holder is None else "delivered"


class PaperChannel:
    """Every message held, in arrival order."""

    def __init__(self) -> None:
        self.notes: list[Note] = []
        self.now_ms = 1_000

    def find(self, name: str) -> Note | None:
        return next((note for note in self.notes if note.name == name), None)

    def of(self, state: str) -> list[Note]:
        return [note for note in self.notes if note.state == state]

    def in_hand_of(self, receiver_id: str) -> list[Note]:
        return [note for note in self.notes if note.holder == receiver_id]

    def owed_by(self, receiver_id: str) -> list[Note]:
        """What it has and did not acknowledge, not even in the open transaction."""
        return [note for note in self.in_hand_of(receiver_id) if not note.submitted]

    # -- what may be handed over -------------------------------------------------------------------------------

    def may_have(self, note: Note, receiver_id: str) -> bool:
        """UNIT-1 to UNIT-4: what comes before it in its unit is in this hand, and nothing holds it back."""
        if note.state != "new" or self.is_expired(note):
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

    def come_back(self, notes: list[Note], *, lost_by: str) -> None:
        """STATE-5, REDELIVER-1: each is one attempt more.

        STATE-4, SEND-5: when one of them has expired the channel has found that, and every NEW one that has leaves too.
        """
        for note in notes:
            note.holder, note.submitted, note.lost_by = None, False, lost_by
            note.attempts += 1
        if any(self.is_expired(note) for note in notes):
            self.expire()

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
        self.come_back(self.owed_by(receiver_id), lost_by=receiver_id)
