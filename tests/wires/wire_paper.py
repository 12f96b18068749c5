"""What was sent, and what applications saw and said: all that the checks know.

A cut wire makes doubtful what was said by it and not confirmed: it may hold or not. What was in hands behind it comes
again, marked. Where nothing is cut nothing is in doubt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Hand:
    """One hand-over."""

    number: int
    who: str
    client: str
    at: int
    is_void: bool = False
    """Its wire was cut: what its application says of it is of no meaning."""


@dataclass(eq=False)
class Sent:
    """One message."""

    number: int
    unit: str | None
    place: int
    hand: Hand | None = None
    """Who has it."""
    is_accepted: bool = False
    """It was said so, and nothing cut that off."""
    is_sure: bool = False
    """That was confirmed."""
    doubted_at: int | None = None
    """When it was cut off that it was accepted, or a cut may have taken it from who had it."""
    is_loose: bool = False
    """A wire between servers was cut while it was there: copies of it may be on their way that are of no meaning."""
    hands: int = 0
    failures: int = 0
    may_fail: int = 0
    """What may count beside."""
    last: Hand | None = None


@dataclass
class Said:
    """An outcome that nobody has confirmed."""

    client: str
    number: int
    is_accepted: bool
    is_counted: bool


@dataclass
class WirePaper:
    """Of one queue."""

    attempts: int
    """After so many failures a message is a dead letter; -1: never."""
    sent: list[Sent] = field(default_factory=list)
    units: dict[str, list[Sent]] = field(default_factory=lambda: defaultdict(list))
    cuts: int = 0
    """How many wires were cut."""
    time: int = 0
    said: list[Said] = field(default_factory=list)
    hand_overs: int = 0

    def send(self, unit: str | None) -> Sent:
        """A new message."""
        place = len(self.units[unit]) if unit else 0
        made = Sent(len(self.sent), unit, place)
        self.sent.append(made)
        if unit:
            self.units[unit].append(made)
        return made

    # -- at hand-over --------------------------------------------------------------------------------------------------

    def got(
        self, number: int, who: str, client: str, *, redelivered: bool, count: int, has_units: bool, is_cut_off: bool
    ) -> Hand:
        """An application has it. `has_units`: it may have several of a unit. `is_cut_off`: its wire is cut, and it
        does not know.

        Raises:
            AssertionError: it should not have it, or not so.
        """
        self.time += 1
        self.hand_overs += 1
        it = self.sent[number]
        hand = Hand(number, who, client, self.time, is_void=is_cut_off)
        if is_cut_off or it.is_loose:
            it.hands += 1
            if not is_cut_off:
                it.last, it.doubted_at = hand, it.doubted_at or self.time
            return hand
        told = f"{number} ({it.unit} {it.place}), count {count}{', redelivered' if redelivered else ''}"
        assert not it.is_sure, f"accepted_comes_not_again: {told} came to {who}, and was accepted for good"
        assert not it.is_accepted, f"accepted_comes_not_again: {told} came to {who}, and was accepted"
        assert it.hand is None, f"one_has_it: {told} came to {who}, and {it.hand and it.hand.who} has it"
        assert not self._is_dead(it), f"dead_comes_not_again: {told} came to {who} after {it.failures} failures"
        assert redelivered == (count > 1), f"marked_as_counted: {told} came to {who}"
        assert redelivered or not it.hands, (
            f"marked_if_seen: {told} came to {who}, and was handed over {it.hands} times"
        )
        assert it.hands or self.cuts or not redelivered, f"marked_if_seen: {told} came to {who}, and nobody had it"
        assert count > it.failures, f"counts_are_kept: {told} came to {who} after {it.failures} failures"
        most = it.hands + 1 + self.cuts
        assert count <= most, f"counts_are_true: {told} came to {who}, and was handed over {it.hands} times"
        if it.unit is not None:
            self._check_order(it, who, told, has_units=has_units)
        it.hands += 1
        it.hand = it.last = hand
        it.doubted_at = None
        self.said = [each for each in self.said if each.number != number]
        return hand

    def _check_order(self, it: Sent, who: str, told: str, *, has_units: bool) -> None:
        unit = self.units[it.unit or ""]
        for before in [each for each in unit[: it.place] if not each.is_loose]:
            is_mine = has_units and before.hand is not None and before.hand.who == who
            is_done = before.is_accepted or before.is_sure or before.doubted_at is not None or self._may_be_dead(before)
            assert is_mine or is_done, (
                f"unit_in_order: {told} came to {who} before {before.number} ({before.place}), which "
                f"{before.hand.who if before.hand else 'nobody'} has"
            )
        if it.doubted_at is None:
            return
        for after in unit[it.place + 1 :]:
            is_early = after.last is not None and not after.last.is_void and after.last.at > it.doubted_at
            assert not is_early, f"unit_in_order: {told} came to {who} after {after.number} ({after.place})"

    def _is_dead(self, it: Sent) -> bool:
        return 0 < self.attempts <= it.failures

    def _may_be_dead(self, it: Sent) -> bool:
        return 0 < self.attempts <= it.failures + it.may_fail

    # -- what is said --------------------------------------------------------------------------------------------------

    def accepted(self, hands: Iterable[Hand]) -> None:
        """An application is done with these."""
        for hand in self._mine(hands):
            self.sent[hand.number].is_accepted = True
            self.said.append(Said(hand.client, hand.number, is_accepted=True, is_counted=False))

    def confirmed(self, hands: Iterable[Hand]) -> None:
        """It was told that this is durable."""
        for hand in hands:
            it = self.sent[hand.number]
            if it.is_accepted and it.last is hand:
                it.is_sure = True
                self.said = [each for each in self.said if each.number != hand.number]

    def refused(self, hands: Iterable[Hand], *, may_count: bool = False) -> None:
        """It was told that this is not so, or that nobody knows. `may_count`: it may have failed by that."""
        for hand in hands:
            it = self.sent[hand.number]
            it.may_fail += may_count
            if it.is_accepted and it.last is hand:
                self.said = [each for each in self.said if each.number != hand.number]
                self._doubt(it)

    def given_back(self, hands: Iterable[Hand], *, counted: bool) -> None:
        """An application gave these back."""
        hands = list(hands)
        for hand in hands:
            it = self.sent[hand.number]
            it.may_fail += counted and it.hand is not hand and not hand.is_void  # its server may have it still
        for hand in self._mine(hands):
            self.sent[hand.number].failures += counted
            self.said.append(Said(hand.client, hand.number, is_accepted=False, is_counted=counted))

    def _mine(self, hands: Iterable[Hand]) -> Sequence[Hand]:
        self.time += 1
        mine = [hand for hand in hands if not hand.is_void and self.sent[hand.number].hand is hand]
        for hand in mine:
            self.sent[hand.number].hand = None
        return mine

    # -- what is cut ---------------------------------------------------------------------------------------------------

    def cut(self, client: str | None) -> None:
        """The wire of a client is cut, or one between servers."""
        self.time += 1
        self.cuts += 1
        for each in [each for each in self.said if client in (None, each.client)]:
            self.said.remove(each)
            it = self.sent[each.number]
            if each.is_accepted:
                self._doubt(it)
            elif each.is_counted:
                it.failures -= 1
                it.may_fail += 1
        for it in self.sent:
            if client is None and not it.is_sure:
                it.is_loose = True
                it.doubted_at = self.time if it.hand is not None else it.doubted_at
                it.hand = None
            elif it.hand is not None and it.hand.client == client:
                it.hand.is_void = True
                it.hand = None

    def _doubt(self, it: Sent) -> None:
        it.is_accepted, it.doubted_at = False, self.time

    # -- the end -------------------------------------------------------------------------------------------------------

    def check_end(self, letters: Sequence[int]) -> None:
        """Everything has come to its end. Raises AssertionError."""
        for it in self.sent:
            count = letters.count(it.number)
            told = f"{it.number} ({it.unit} {it.place})"
            is_done = it.is_accepted or it.is_sure
            assert count <= 1, f"dead_letters_once: {told} is there {count} times"
            assert not (self._is_dead(it) and not count), f"dead_letters_once: {told} is none"
            assert not count or self._may_be_dead(it), f"dead_letters_once: {told} is one after {it.failures} failures"
            assert it.is_loose or not (count and is_done), f"dead_letters_once: {told} was accepted"
            assert count or is_done or it.doubted_at is not None, f"nothing_is_lost: {told} never came again"
