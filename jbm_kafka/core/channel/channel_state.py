"""The unsettled messages of one channel, and the only way they change.

`ChannelState.apply` is the one mutator, one `match` over all that can happen. It serves the live path (changes,
core/channel/changes.py) and recovery (changelog entries, core/channel/entries.py) alike, so a channel rebuilt from its
changelog has the durable part (core/channel/durable_state.py) of the channel that wrote it: watermark, settled offsets,
`end_position`, `offered_position`, and what is remembered of returned messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.cold_index import ColdIndex
from jbm_kafka.core.channel.departure import GIVEN_UP
from jbm_kafka.core.channel.duplicate_window import DuplicateWindow
from jbm_kafka.core.channel.durable_state import DurableState
from jbm_kafka.core.channel.entries import Duplicates, Entry, Parked, Position, Prepared
from jbm_kafka.core.channel.holders import branch_holder, kind_of
from jbm_kafka.core.channel.read_times import ReadTimes
from jbm_kafka.core.channel.redelivery import FOREVER_MS, held_back_until_ms, is_expired
from jbm_kafka.core.channel.redelivery_states import RedeliveryStates
from jbm_kafka.core.channel.reference import DEFAULT_PRIORITY, DEPARTING, GateKey, Reference, SessionId
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.channel.unit_of_order import Gate, Gates, by_gate
from jbm_kafka.core.channel.unsettled import UnsettledOffsets

_NEW: Final = MessageState.NEW
_DELIVERED: Final = MessageState.DELIVERED
JUMP_MS: Final = 1_000
"""A wall clock that was set back by less may come nearer to ours unnoticed: it is how clocks are rounded."""


def state_in_hand(session: SessionId) -> MessageState:
    """Where stands what this session holds; what DEPARTING holds is NEW, for no receiver has it."""
    return _DELIVERED if kind_of(session).has_receiver else _NEW


class ChannelState:
    """One partition of one queue or subscription. Only `apply` changes it; everything else reads."""

    __slots__ = (
        "arrivals",
        "aside",
        "changes",
        "delivered_position",
        "durable",
        "gates",
        "in_hand",
        "read_position",
        "read_times",
        "set_back_ms",
        "shelf",
        "time_ms",
        "uncommitted",
        "window",
    )

    def __init__(self) -> None:
        self.changes = 0
        """How many were made; a reader of the state looks again when there are more."""
        self.durable = DurableState()
        self.window = DuplicateWindow()
        self.read_position = 0
        """Live head: one past the last offset read since it was built; while catching up below `end_position`."""
        self.read_times = ReadTimes()
        self.delivered_position = 0
        """One past the highest offset really handed over."""
        self.time_ms = 0
        """The latest time that this channel was given; it needs one before recovery."""
        self.set_back_ms = 0
        """How far the wall clock was behind then."""
        self.arrivals: deque[Reference] = deque()
        """Fetched and not yet looked at, ascending; all of default priority and without history."""
        self.gates = Gates()
        self.shelf = ColdIndex()
        self.in_hand: dict[SessionId, dict[int, Reference]] = {}
        """The messages that each session holds, by offset; see `state_in_hand`. A session that holds nothing is not in
        it."""
        self.aside: dict[int, str] = {}
        """The messages of prepared branches that were not read yet since the recovery, by offset: each goes into its
        branch's hand."""
        self.uncommitted: dict[int, str] = {}
        """Offsets sent in an open transaction, with its id: NOT_COMMITTED (only in local/contract_state.py)."""

    def apply(self, change: c.Change | Entry) -> None:
        """Make one change. The caller has decided that it is legal; what is not is a bug and asserts."""
        self.changes += 1
        durable = self.durable
        match change:
            case c.Offered():
                self._offered(change)
            case c.Acknowledged():
                self._acknowledged(change)
            case c.Fetched():
                self._fetched(change)
            case c.TakenOut():
                self._taken_out(change)
            case c.DepartureFailed():
                self._departure_failed(change)
            case c.TimePassed():
                self._time_passed(change)
            case c.Returned():
                self._returned(change)
            case c.Transferred():
                self._transferred(change)
            case c.PassedToBranch():
                self._passed_to_branch(change)
            case c.BranchEnded():
                assert branch_holder(change.branch) not in self.in_hand, change
                durable.end_branch(change.branch)
            case c.Selected():
                self._selected(change)
            case c.UndeliverableHere():
                self.in_hand[change.session][change.offset].chosen_by &= ~change.chooses
            case c.Spilled():
                self.gates.spill(self.gates.by_key[change.key], change.kept)
            case c.Unspilled():
                self._unspilled(change)
            case c.Shelved():
                self._shelved(change)
            case c.Unshelved():
                self._unshelved(change)
            case c.UnitsShelved():
                self._units_shelved(change)
            case c.UnitsUnshelved():
                self._units_unshelved(change)
            case c.UnitNotShelved():
                self._unit_not_shelved(change)
            case c.ShelfAsked():
                self.shelf.note_asked(change.place, change.below)
            case c.KeptForOperator():
                durable.keep(change)
            case c.Released():
                self._released(change)
            case c.LetGo():
                self._let_go(change)
            case c.OfferedRaised():
                durable.raise_offered(change)
            case c.LogTruncated():
                durable.note_truncated(change)
            case c.Frozen():
                durable.mark_frozen(change)
                if change.buckets:
                    self.window.mark_frozen(change.buckets)
            case c.FreezeDurable():
                durable.mark_durable(change)
                if change.frozen.buckets:
                    self.window.mark_durable(change.frozen.buckets)
            case c.FreezeFailed():
                durable.mark_failed(change)
                self.window.mark_failed(change.frozen.buckets)
            case _:
                self._recovered(change)

    def _recovered(self, entry: Entry) -> None:
        """Make one change that was read from the changelog."""
        if isinstance(entry, Duplicates):
            self.window.recover(entry)
            return
        self.durable.recover(entry, self.time_ms)
        if isinstance(entry, Position):
            self.read_position, self.delivered_position = entry.watermark, entry.offered
        elif isinstance(entry, Parked):  # it is read first, from the changelog
            self.read_position = min(self.read_position, entry.offset)
        elif isinstance(entry, Prepared) and entry.offsets is not None:
            self.aside.update(dict.fromkeys(self.durable.prepared[entry.branch], entry.branch))

    # -- what the changelog remembers, for readers -------------------------------------------------------------

    @property
    def unsettled(self) -> UnsettledOffsets:
        """Known and not settled."""
        return self.durable.unsettled

    @property
    def redeliveries(self) -> RedeliveryStates:
        """Unsettled messages with a history, by offset."""
        return self.durable.redeliveries

    @property
    def end_position(self) -> int:
        """Durable head: one past the highest offset ever seen."""
        return self.durable.end_position

    @property
    def offered_position(self) -> int:
        """Offsets below may be handed over."""
        return self.durable.offered_position

    @property
    def redelivered_below(self) -> int:
        """Offsets below were possibly handed over by an earlier owner (REDELIVER-7)."""
        return self.durable.redelivered_below

    @property
    def watermark(self) -> int:
        """Every offset below is settled: where a restarted reader must resume."""
        return self.durable.watermark

    @property
    def is_dirty(self) -> bool:
        """A checkpoint has something to write."""
        return self.durable.is_dirty or bool(self.window.dirty)

    # -- live changes ------------------------------------------------------------------------------------------

    def _fetched(self, change: c.Fetched) -> None:
        assert self.read_position <= change.begin <= change.end, (self.read_position, change.begin, change.end)
        references = change.references
        if change.begin < self.end_position:
            references = self._catch_up(change)
        else:
            self.durable.know(references, change.end)
        if change.repeated or change.remembered:
            # Recorded as settled, or they would be messages again once their ids are forgotten.
            self.unsettled.add(change.repeated)
            self.durable.settle(change.repeated)
            self.window.take(change.remembered, change.forgotten)
        self.durable.fetch(change.end)
        if change.is_ahead:
            return
        self.read_position = change.end
        if change.at_ms:  # not our own time, which stands still while nothing is due
            self.read_times.note(change.end, change.at_ms)
        self._arrive(references)

    def _catch_up(self, change: c.Fetched) -> list[Reference]:
        """Read what is known already, after a recovery or a look ahead: what of it is unsettled, and waits for nobody.

        And learn which offsets hold no message at all.
        """
        assert change.begin == self.read_position, (
            "an unsettled offset that is passed over would hold the watermark for ever"
        )
        known = [r for r in change.references if r.offset >= self.end_position or r.offset in self.unsettled]
        present = {reference.offset for reference in known}
        gaps = [o for o in self.unsettled.within(change.begin, min(change.end, self.end_position)) if o not in present]
        if gaps:
            self.durable.settle(gaps)
            for offset in gaps:
                self.durable.forget_past(offset)
                self.aside.pop(offset, None)
        self.unsettled.add([offset for offset in present if offset >= self.end_position])
        if self.aside:
            known = self._give_to_branches(known)
        leaving = self.in_hand.get(DEPARTING)
        return [r for r in known if r.offset not in leaving] if leaving else known

    def _give_to_branches(self, known: Sequence[Reference]) -> list[Reference]:
        """Put those that branches have into their hands, where they hold their units, and return the others."""
        left: list[Reference] = []
        for reference in known:
            branch = self.aside.pop(reference.offset, None)
            if branch is None:
                left.append(reference)
                continue
            holder = branch_holder(branch)
            self._hand(holder)[reference.offset] = reference
            if reference.unit is not None:
                gate = self.gates.gate(reference.unit)
                self.gates.hold(gate, 1, holder)
                self._list_anew(gate)
        return left

    def _arrive(self, references: Sequence[Reference]) -> None:
        if self.gates.is_selecting:
            self._arrive_chosen(references)
            return
        time_ms, redeliveries = self.time_ms - self.set_back_ms, self.redeliveries
        has_redeliveries = len(redeliveries) > 0
        plain = self.arrivals.append
        for reference in references:
            if (
                reference.priority == DEFAULT_PRIORITY
                and reference.delivery_time_ms <= time_ms
                and not (has_redeliveries and reference.offset in redeliveries)
            ):
                plain(reference)
                continue
            if reference.unit is not None:
                self._look_at_all_arrivals()
            self._wait(reference)

    def _arrive_chosen(self, references: Sequence[Reference]) -> None:
        """As `_arrive`, where some have selectors: what not all of them choose does not stay among the arrivals."""
        time_ms, redeliveries, present = self.time_ms - self.set_back_ms, self.redeliveries, self.gates.present
        for reference in references:
            if (
                reference.chosen_by & present == present
                and reference.priority == DEFAULT_PRIORITY
                and reference.delivery_time_ms <= time_ms
                and reference.offset not in redeliveries
            ):
                self.arrivals.append(reference)
                continue
            if reference.unit is not None:
                self._look_at_all_arrivals()
            self._wait(reference)

    def _look_at_all_arrivals(self) -> None:
        """Send every arrival to its gate, so that one of another priority finds the earlier ones of its unit there."""
        arrivals = self.arrivals
        while arrivals:
            self._wait(arrivals.popleft())

    def _offered(self, change: c.Offered) -> None:
        session, arrivals = change.session, self.arrivals
        for taken in change.heads:
            assert taken.leaving or change.transition.target is state_in_hand(session), change
            self._take_heads(taken, DEPARTING if taken.leaving else session)
        if change.examined == len(arrivals):
            arrivals.clear()
        else:
            take = arrivals.popleft
            for _ in range(change.examined):
                take()
        if change.fresh:
            assert change.transition.target is state_in_hand(session), change
            self._hand_fresh(session, change.fresh)
            self.delivered_position = max(self.delivered_position, change.fresh[-1].offset + 1)
        if change.expired:
            self._hand_expired(change.expired)
        for reference in change.blocked:
            self._wait(reference)

    def _take_heads(self, taken: c.HeadTaken, owner: SessionId) -> None:
        """Move the first waiting messages of a unit into the owner's hand, and list the unit anew.

        Those that leave (dead letters, expired ones) do not move `delivered_position`: no application has had them.
        """
        gate = self.gates.by_key[taken.key]
        references = self.gates.take_heads(gate, taken.count, owner)
        self._hand(owner).update((reference.offset, reference) for reference in references)
        if not taken.leaving:
            self.delivered_position = max(self.delivered_position, references[-1].offset + 1)
        self._list_anew(gate)

    def _hand_fresh(self, owner: SessionId, references: Sequence[Reference]) -> None:
        hand, gates = self._hand(owner), self.gates
        by_key = gates.by_key
        for reference in references:
            unit = reference.unit
            hand[reference.offset] = reference
            if unit is None:
                continue
            gate = by_key.get(unit)
            if gate is None:
                gate = gates.open(unit)
                gate.owner = owner
            assert gate.owner == owner, (unit, gate.owner, owner)
            gate.in_hand += 1

    def _hand_expired(self, references: Sequence[Reference]) -> None:
        hand = self._hand(DEPARTING)
        for reference in references:
            hand[reference.offset] = reference
            if reference.unit is not None:
                self.gates.hold(self.gates.gate(reference.unit), 1, DEPARTING)

    def _acknowledged(self, change: c.Acknowledged) -> None:
        if not change.offsets:
            return
        row = change.transition
        assert row.leaves, row
        is_leaving = change.session == DEPARTING
        assert row.state is (_NEW if is_leaving else _DELIVERED), (change.session, row)
        take = self.in_hand[change.session].pop
        gates, has_redeliveries = self.gates, len(self.redeliveries) > 0
        by_key = gates.by_key
        for offset in change.offsets:
            unit = take(offset).unit
            gate = by_key.get(offset if unit is None else unit)
            if is_leaving and gate is not None and gate.passed_over:
                gate.passed_over -= 1
            elif unit is not None and gates.before and gates.before.get(unit, ("", 0))[0] == change.session:
                gates.finish_before(unit)
            elif gate is not None and gates.finish_one(gate):
                self._list_anew(gate)
            if has_redeliveries:
                self.durable.forget_past(offset, durable=change.durable)
        self._drop_empty_hand(change.session)
        self.durable.settle(change.offsets, durable=change.durable)

    def _returned(self, change: c.Returned) -> None:
        assert change.transition.state is state_in_hand(change.session), change.session
        self._put_back(change.session, change.messages)

    def _put_back(self, session: SessionId, messages: Sequence[c.ReturnedMessage]) -> None:
        hand = self.in_hand[session]
        groups: dict[GateKey, list[Reference]] = {}
        for message in messages:
            reference = hand.pop(message.offset)
            groups.setdefault(reference.gate_key, []).append(reference)
            self.durable.remember(message, reference)
        for key, references in groups.items():
            gate = self.gates.gate(key)
            if isinstance(key, int) and not gate.in_hand:
                gate.in_hand = 1  # handed over straight from the arrivals, which makes no gate
            self.gates.put_back(gate, references)
            self._list_anew(gate)
        self._drop_empty_hand(session)

    def _transferred(self, change: c.Transferred) -> None:
        assert change.transition.state is state_in_hand(change.session), change.session
        hand, leaving = self.in_hand[change.session], self._hand(DEPARTING)
        for message in change.messages:
            reference = leaving[message.offset] = hand.pop(message.offset)
            self.durable.remember(message, reference)
            gate = self.gates.by_key.get(reference.gate_key)
            if gate is not None:
                self.gates.depart(gate)
                self._list_anew(gate)
        self._drop_empty_hand(change.session)

    def _passed_to_branch(self, change: c.PassedToBranch) -> None:
        holder = branch_holder(change.branch)
        self.durable.prepare(change)
        for session, offsets in change.taken.items():
            hand, taken = self.in_hand[session], self._hand(holder)
            for key, references in by_gate([hand.pop(offset) for offset in offsets]).items():
                taken.update((reference.offset, reference) for reference in references)
                gate = self.gates.by_key.get(key)
                if gate is not None:
                    self.gates.change_holder(gate, len(references), holder)
                    self._list_anew(gate)
            self._drop_empty_hand(session)

    def _taken_out(self, change: c.TakenOut) -> None:
        self._look_at_all_arrivals()
        self._wait_from_shelf(change.references)
        hand = self._hand(DEPARTING)
        for key, references in by_gate(change.references).items():
            hand.update((reference.offset, reference) for reference in references)
            gate = self.gates.gate(key)
            self.gates.take_out(gate, references, self.read_position)
            self._list_anew(gate)

    def _departure_failed(self, change: c.DepartureFailed) -> None:
        self._look_at_all_arrivals()  # what was read meanwhile stands behind what was taken out unread
        hand = self.in_hand[DEPARTING]
        references = [hand.pop(message.offset) for message in change.messages]
        for message, reference in zip(change.messages, references, strict=True):
            self.durable.remember(message, reference)
        for key, mine in by_gate(references).items():
            gate = self.gates.gate(key)
            if isinstance(key, int) and not gate.in_hand:
                gate.in_hand = 1  # it left straight from the arrivals, which makes no gate
                gate.owner = DEPARTING
            self.gates.undo_departure(gate, mine, self.read_position)
            self._list_anew(gate)
        self._drop_empty_hand(DEPARTING)

    def _time_passed(self, change: c.TimePassed) -> None:
        has_jumped = self.set_back_ms - change.set_back_ms > change.now_ms - self.time_ms + JUMP_MS
        self.time_ms = max(self.time_ms, change.now_ms)
        self.set_back_ms = change.set_back_ms
        # How long each waits was reckoned by a wall clock that does not jump forward.
        for gate in self.gates.due(FOREVER_MS - 1 if has_jumped else self.time_ms):
            self._list_anew(gate)
        if has_jumped:
            self.shelf.fetch_timed()
        self.shelf.pass_time(self.time_ms)

    def _selected(self, change: c.Selected) -> None:
        gates, changed = self.gates, change.chosen_by
        if changed:
            for reference in self.in_memory():
                chosen_by = changed.get(reference.offset)
                if chosen_by is not None:
                    reference.chosen_by = chosen_by
        self._look_at_all_arrivals()
        gates.change_present(change.present)
        if change.asks:
            self.shelf.ask_anew()
        # The last ones first, for what goes next stands at the end of its listing.
        for gate in reversed(list(gates.by_key.values())):
            if gate.is_unchosen or (gate.waiting and not gate.due_at_ms):
                self._list_anew(gate)

    def in_memory(self) -> Iterator[Reference]:
        """Every reference, but for what is in the held store."""
        yield from self.arrivals
        yield from self.gates.waiting()
        for hand in self.in_hand.values():
            yield from hand.values()

    def _released(self, change: c.Released) -> None:
        self.durable.keep(change)
        offsets = [message.offset for message in change.messages]
        self.shelf.fetch(offsets, back_at_ms=FOREVER_MS)
        for gate in self.gates.headed_by(set(offsets)):
            self._list_anew(gate)

    def _let_go(self, change: c.LetGo) -> None:
        for offset, unit in change.units.items():
            self.durable.let_go(offset, unit)
        self.shelf.fetch_early(list(change.units))
        for gate in self.gates.headed_by(change.units.keys()):
            self._list_anew(gate)

    def _unspilled(self, change: c.Unspilled) -> None:
        gate = self.gates.by_key[change.key]
        self.gates.unspill(gate, change.references)
        self._list_anew(gate)

    def _shelved(self, change: c.Shelved) -> None:
        self.gates.take_alone(change.offsets)
        self.shelf.put(change.place, change.offsets)

    def _unshelved(self, change: c.Unshelved) -> None:
        self.shelf.take(change.place, [reference.offset for reference in change.references])
        for reference in change.references:
            self._wait(reference)

    def _units_shelved(self, change: c.UnitsShelved) -> None:
        self.shelf.put_units(change.place, change.heads, self.gates.fold(change.heads))

    def _units_unshelved(self, change: c.UnitsUnshelved) -> None:
        place = change.place
        # Of what nobody chose a selector that has come meanwhile may choose the head: it is loaded and looked at.
        due_at_ms = 0 if place.is_unchosen or place.back_at_ms <= self.time_ms else place.back_at_ms
        fetched = {head for head in change.heads if self.shelf.is_fetched(place, head.offset)}
        for head, count in self.shelf.take_units(place, change.heads):
            self.gates.unfold(head, count, due_at_ms=0 if head in fetched else due_at_ms)

    def _unit_not_shelved(self, change: c.UnitNotShelved) -> None:
        gate = self.gates.by_key[change.unit]
        self.gates.end_look(gate)
        self._list_anew(gate)

    def _wait_from_shelf(self, references: Sequence[Reference]) -> None:
        """Let those of them that are shelved wait at gates; the held store's rows are passed over from now on."""
        for place, mine in self.shelf.find(references):
            self._unshelved(c.Unshelved(place, mine))

    # -- leaves ------------------------------------------------------------------------------------------------

    def _hand(self, session: SessionId) -> dict[int, Reference]:
        hand = self.in_hand.get(session)
        if hand is None:
            hand = self.in_hand[session] = {}
        return hand

    def _drop_empty_hand(self, session: SessionId) -> None:
        if not self.in_hand[session]:
            del self.in_hand[session]
            self.gates.drop_session(session)

    def _wait(self, reference: Reference) -> None:
        gates, unit, key = self.gates, reference.unit, reference.gate_key
        gate = gates.by_key.get(key)
        if gate is None:
            gate = gates.open(key)
            if unit is not None and self.shelf.units.may_have(unit):
                gates.awaiting_look[unit] = None
        if gates.wait(gate, reference):
            self._list_anew(gate)

    def _list_anew(self, gate: Gate) -> None:
        gates, due_at_ms, blocked, must_leave = self.gates, 0, False, False
        if gate.waiting:
            head = gate.waiting[0]
            redelivery = self.redeliveries.get(head.offset)
            waits_for_sender = redelivery is None or redelivery.waits_for_sender
            delay_ms = head.delivery_delay_ms if waits_for_sender else 0
            due_at_ms = held_back_until_ms(
                head.delivery_time_ms if waits_for_sender else 0,
                0 if redelivery is None else redelivery.due_at_ms,
                now_ms=self.time_ms,
                set_back_ms=self.set_back_ms,
                waited_ms=self.read_times.of(head.offset) + delay_ms if delay_ms else FOREVER_MS,
            )
            blocked = head.offset in self.uncommitted
            if gates.is_selecting:
                has_expired = is_expired(head.expiration_ms, self.time_ms - self.set_back_ms)
                must_leave = has_expired or (redelivery is not None and redelivery.reason in GIVEN_UP)
        gates.list_head(gate, due_at_ms=due_at_ms, blocked=blocked, must_leave=must_leave)
        if gates.is_selecting and not must_leave and gates.may_wait_long(gate) and gate.waiting[0].expiration_ms:
            gates.schedule_expiry(gate, gate.waiting[0].expiration_ms + self.set_back_ms)
