"""What the sidecar does around a channel, in a few lines: changelog, held store, checkpoints, recovery."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.cold_index import Place
from jbm_kafka.core.channel.entries import (
    Attempted,
    Duplicates,
    Entry,
    Held,
    HeldGone,
    Parked,
    ParkedGone,
    Position,
    Settled,
)
from jbm_kafka.core.channel.freeze import Freeze, freeze
from jbm_kafka.core.channel.offer import Offer, decide_offer
from jbm_kafka.core.channel.reference import DEPARTING, GateKey, Reference
from jbm_kafka.core.channel.shelved_units import ShelvedUnits, UnitHead
from jbm_kafka.core.channel.spilling import Spillable, shelved
from jbm_kafka.core.channel.unit_of_order import Gate
from tests.model.moves import apply_by_the_table

ChangelogKey = tuple[str, int]
MARK_BITS = 1
"""Of shelved units: half of the others are mistaken for one."""


class Changelog:
    """A compacted topic: the latest entry of each key, deleted keys gone."""

    def __init__(self) -> None:
        self.entries: dict[ChangelogKey, Entry] = {}

    def write(self, entries: Sequence[Entry]) -> None:
        keys = [_key(entry) for entry in entries]
        assert len(set(keys)) == len(keys), f"one checkpoint writes a key once: {keys}"
        for key, entry in zip(keys, entries, strict=True):
            if _is_deletion(entry):
                self.entries.pop(key, None)
            else:
                self.entries[key] = entry

    def replay(self, now_ms: int) -> ChannelState:
        """The state a new owner begins with."""
        state = ChannelState()
        state.apply(c.TimePassed(now_ms))
        for _, entry in sorted(self.entries.items(), key=lambda item: (_REPLAY_ORDER[item[0][0]], item[0][1])):
            state.apply(entry)
        return state


_REPLAY_ORDER = {"position": 0, "settled": 1, "parked": 2, "attempted": 3, "held": 4, "duplicates": 5}
"""The position first; the rest as the store sorts it."""


def _is_deletion(entry: Entry) -> bool:
    match entry:
        case HeldGone() | ParkedGone() | Settled(bitmap=None) | Attempted(bitmap=None) | Duplicates(rows=None):
            return True
        case _:
            return False


def _key(entry: Entry) -> ChangelogKey:
    if isinstance(entry, Position):
        return "position", 0
    if isinstance(entry, Settled):
        return "settled", entry.block
    if isinstance(entry, Attempted):
        return "attempted", entry.block
    if isinstance(entry, Duplicates):
        return "duplicates", entry.bucket
    if isinstance(entry, Parked | ParkedGone):
        return "parked", entry.offset
    assert isinstance(entry, Held | HeldGone), entry
    return "held", entry.offset


class Carrier:
    """Carries values between the model's rules and a channel, as the sidecar would."""

    def __init__(self, *, attempts_max: int, records_attempts: bool) -> None:
        self.attempts_max = attempts_max
        self.records_attempts = records_attempts
        self.state = ChannelState()
        self.state.shelf.units = ShelvedUnits(MARK_BITS)
        self.changelog = Changelog()
        self.held_store: dict[GateKey, list[Reference]] = {}
        self.shelved: dict[Place, list[Reference]] = {}
        self.shelved_units: dict[Place, list[UnitHead]] = {}
        self.frozen: Freeze | None = None
        self.look_at: Callable[[Reference], int] = lambda reference: reference.chosen_by
        """Who chooses a message that comes back from the held store, by the selectors of now."""

    def ask(self, session: str, *, limit: int, now_ms: int, one_per_unit: bool, chooses: int) -> Offer:
        """Fill the gates that miss something from the held store, and look at the shelf; then decide and apply."""
        by_key = self.state.gates.by_key
        self.look_up()
        shelf = self.state.shelf
        for place in list(shelf.to_load):
            self.bring_back(place, 1 << 16)
        for place, offsets in list(shelf.to_fetch.items()):
            self.fetch(place, list(offsets))
        for place in list(shelf.to_ask):
            while place in shelf.to_ask:
                self.ask_shelf(place, 2)
        for key in [k for k in self.state.gates.awaiting_load if not (by_key[k].waiting or by_key[k].due_at_ms)]:
            self.load(key, 2)
        decide = partial(
            decide_offer,
            self.state,
            session,
            limit=limit,
            now_ms=now_ms,
            one_per_unit=one_per_unit,
            attempts_max=self.attempts_max,
            chooses=chooses,
        )
        offer = decide()
        if any(reference.unit not in by_key for reference in offer.change.blocked):
            # They may be shelved, which is looked up between two turns; here the first turn hands nothing over.
            arrivals = list(self.state.arrivals)
            waiting = c.Offered(session, heads=(), examined=len(arrivals), fresh=(), expired=(), blocked=arrivals)
            apply_by_the_table(self.state, waiting)
            self.look_up()
            offer = decide()
        apply_by_the_table(self.state, offer.change)
        return offer

    def look_up(self) -> None:
        """Find out of units of which messages came whether they are shelved."""
        for unit in list(self.state.gates.awaiting_look):
            assert isinstance(unit, bytes)
            if not self.bring_unit_back(unit):
                apply_by_the_table(self.state, c.UnitNotShelved(unit))

    def bring_unit_back(self, unit: bytes) -> bool:
        for place, heads in self.shelved_units.items():
            for head in heads:
                if head.unit == unit:
                    self._unshelve_units(place, [head])
                    return True
        return False

    def spill(self, row: Spillable) -> None:
        key, moved = row.gate.key, row.references()
        assert len(moved) == row.count
        apply_by_the_table(self.state, c.Spilled(key=key, kept=row.kept))
        self.held_store[key] = sorted([*self.held_store.get(key, ()), *moved])

    def load(self, key: GateKey, count: int) -> None:
        stored = self.held_store[key]
        batch, rest = stored[:count], stored[count:]
        for reference in batch:
            reference.chosen_by = self.look_at(reference)
        apply_by_the_table(self.state, c.Unspilled(key=key, references=batch))
        if rest:
            self.held_store[key] = rest
        else:
            del self.held_store[key]

    def leave_the_store(self, offsets: set[int]) -> None:
        """These went on from elsewhere; the held store forgets them, as the sidecar does when it meets them there."""
        for key, stored in list(self.held_store.items()):
            self.held_store[key] = [reference for reference in stored if reference.offset not in offsets]
            if not self.held_store[key]:
                del self.held_store[key]
        for place, standing in list(self.shelved.items()):
            self.shelved[place] = [reference for reference in standing if reference.offset not in offsets]
            if not self.shelved[place]:
                del self.shelved[place]

    def shelve(self, gates: Sequence[Gate]) -> None:
        moved = {gate.key: gate.waiting[0] for gate in gates if gate.waiting}
        for change in shelved(self.state, gates):
            apply_by_the_table(self.state, change)
            if isinstance(change, c.UnitsShelved):
                heads = [*self.shelved_units.get(change.place, ()), *change.heads]
                self.shelved_units[change.place] = sorted(heads)
                continue
            mine = [moved[offset] for offset in change.offsets]
            self.shelved[change.place] = sorted([*self.shelved.get(change.place, ()), *mine])

    def bring_back(self, place: Place, count: int) -> None:
        """Sooner than they must is allowed."""
        if place.has_units:
            self._unshelve_units(place, self.shelved_units[place][:count])
            return
        self._unshelve(place, self.shelved[place][:count])

    def fetch(self, place: Place, offsets: Collection[int]) -> None:
        """What an operator has let go comes back."""
        if place.has_units:
            self._unshelve_units(place, [head for head in self.shelved_units[place] if head.offset in offsets])
            return
        self._unshelve(place, [reference for reference in self.shelved[place] if reference.offset in offsets])

    def ask_shelf(self, place: Place, count: int) -> None:
        """Let a selector that has come look at the next of a place."""
        if place.has_units:
            self._ask_units(place, count)
            return
        left = [each for each in self.shelved[place] if each.offset >= self.state.shelf.to_ask[place]]
        looked_at = left[:count]
        present = self.state.gates.present
        self._unshelve(place, [reference for reference in looked_at if self.look_at(reference) & present])
        below = looked_at[-1].offset + 1 if len(left) > count else None
        apply_by_the_table(self.state, c.ShelfAsked(place, below))

    def _unshelve(self, place: Place, references: Sequence[Reference]) -> None:
        if not references:
            return
        for reference in references:
            reference.chosen_by = self.look_at(reference)
        apply_by_the_table(self.state, c.Unshelved(place, references))
        gone = {reference.offset for reference in references}
        self.shelved[place] = [reference for reference in self.shelved[place] if reference.offset not in gone]
        if not self.shelved[place]:
            del self.shelved[place]

    def _ask_units(self, place: Place, count: int) -> None:
        left = [head for head in self.shelved_units[place] if head.offset >= self.state.shelf.to_ask[place]]
        looked_at, present = left[:count], self.state.gates.present
        chosen = [head for head in looked_at if self.look_at(self.held_store[head.unit][0]) & present]
        self._unshelve_units(place, chosen)
        below = looked_at[-1].offset + 1 if len(left) > count else None
        apply_by_the_table(self.state, c.ShelfAsked(place, below))

    def _unshelve_units(self, place: Place, heads: Sequence[UnitHead]) -> None:
        if not heads:
            return
        apply_by_the_table(self.state, c.UnitsUnshelved(place, heads))
        left = [head for head in self.shelved_units[place] if head not in heads]
        if left:
            self.shelved_units[place] = left
        else:
            del self.shelved_units[place]

    def begin_checkpoint(
        self, number: int, *, offered: int, tentative: Collection[int], parking: Sequence[int] = ()
    ) -> Freeze:
        assert self.frozen is None
        hands = [hand for session, hand in self.state.in_hand.items() if session != DEPARTING]
        in_hand = [offset for hand in hands for offset in hand]
        self.frozen = freeze(
            self.state,
            topic_id="t",
            checkpoint_id=f"jbm.model:{number}",
            offered_position=offered,
            tentative=tentative,
            attempted=in_hand if self.records_attempts else None,
            parking=[Parked(offset, None, b"", (), 1, 0) for offset in parking],
        )
        apply_by_the_table(self.state, self.frozen.frozen)
        return self.frozen

    def end_checkpoint(self, *, durable: bool) -> None:
        assert self.frozen is not None
        if durable:
            self.changelog.write(self.frozen.entries)
        apply_by_the_table(self.state, self.frozen.durable if durable else self.frozen.failed)
        self.frozen = None

    def crash(self, now_ms: int) -> None:
        self.frozen = None
        self.held_store = {}
        self.shelved = {}
        self.shelved_units = {}
        self.state = self.changelog.replay(now_ms)
        self.state.shelf.units = ShelvedUnits(MARK_BITS)
