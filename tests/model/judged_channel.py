"""A channel, the sidecar's work around it, and the paper queue that judges both: what the rules are made of."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis.stateful import RuleBasedStateMachine

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import MessageFate
from jbm_kafka.core.channel.offer import Offer
from jbm_kafka.core.channel.on_hold import decide_released
from jbm_kafka.core.channel.operator_removal import decide_put_back, may_wait_again
from jbm_kafka.core.channel.reference import DEPARTING, Reference
from jbm_kafka.core.channel.settlement import Modified, decide_return, unknown_offsets
from jbm_kafka.core.channel.states import ACKNOWLEDGED, Transition
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.model import invariants as inv
from tests.model.carrier import Carrier
from tests.model.histories import INDIVIDUALS, SESSIONS, some
from tests.model.moves import apply_by_the_table
from tests.model.paper_queue import GIVEN_AWAY, PaperQueue, Remembered, Rules, Sent


class JudgedChannel(RuleBasedStateMachine):
    """Does one thing to channel and paper alike, and asks the paper whether what came of it was right."""

    def begin(self, attempts_max: int, delay_ms: int, dead_letters: str, records_attempts: bool) -> None:
        copied, held = dead_letters == "copied", dead_letters == "held"
        records_attempts = records_attempts and not held
        self.paper = PaperQueue(Rules(attempts_max, delay_ms, copied, held, records_attempts))
        self.settings = ResolvedSettings(
            max_delivery_attempts=attempts_max,
            redelivery_delay_ms=delay_ms,
            dead_letter_address="DLQ" if copied else None,
            on_dead_letter="hold" if held else "continue",
        )
        self.carrier = Carrier(attempts_max=-1 if held else attempts_max, records_attempts=records_attempts)
        self.carrier.look_at = lambda reference: self.chosen_by(self.paper.log[reference.offset])
        apply_by_the_table(self.carrier.state, c.TimePassed(self.paper.now_ms))
        self.checkpoints = 0
        self.pending: Remembered | None = None
        self.committing: dict[str, list[int]] = {}
        """Whose messages the pending checkpoint settles; such a session does nothing else meanwhile."""
        self.attempts_before: dict[int, int] = {}
        self.selectors: list[frozenset[int]] = []
        """Each stands for its place in the list, plus one: the bit that the channel knows it by."""
        self.since_checkpoint = self.since_owner = 0
        """How much has happened: checkpoints and new owners are rare, or nothing else would happen."""

    def _something_happened(self) -> None:
        self.since_checkpoint += 1
        self.since_owner += 1

    # -- the log ---------------------------------------------------------------------------------------------------

    def read_to(self, end: int) -> None:
        begin = self.carrier.state.read_position
        assert begin <= self.paper.read_to
        if end < self.paper.read_to:
            return
        self.paper.log_end = max(self.paper.log_end, end)
        found = self.paper.read(end)
        references = [self._reference(sent) for sent in found]
        apply_by_the_table(self.carrier.state, c.Fetched(begin=begin, end=end, references=references))

    def _reference(self, sent: Sent) -> Reference:
        reference = Reference(sent.offset, sent.unit, sent.priority, sent.expiration_ms, sent.delivery_time_ms)
        reference.chosen_by = self.chosen_by(sent)
        return reference

    # -- selectors -------------------------------------------------------------------------------------------------

    def chosen_by(self, sent: Sent) -> int:
        """A bit for each selector there ever was, and that of everyone."""
        return 1 + sum(2 << place for place, colours in enumerate(self.selectors) if sent.colour in colours)

    def chooses(self, session: str) -> int:
        return 2 << self.selectors.index(self.paper.wanted[session]) if session in self.paper.wanted else 1

    def select(self, session: str, colours: frozenset[int] | None) -> None:
        """The session has this selector from now on, or none."""
        if colours is None:
            self.paper.wanted.pop(session, None)
        else:
            self.paper.wanted[session] = colours
            if colours not in self.selectors:
                self.selectors.append(colours)
        self.tell_selectors()
        self._something_happened()

    def tell_selectors(self) -> None:
        state, present = self.carrier.state, 0
        for session in SESSIONS:
            present |= self.chooses(session)
        chosen_by = {each.offset: self.chosen_by(self.paper.log[each.offset]) for each in state.in_memory()}
        apply_by_the_table(state, c.Selected(present, chosen_by, asks=bool(present & ~state.gates.present)))

    # -- sessions --------------------------------------------------------------------------------------------------

    def ask_for(self, session: str, limit: int) -> Offer:
        paper, individual = self.paper, session in INDIVIDUALS
        heads = paper.deliverable_heads(session, one_per_unit=individual)
        expired = paper.expired_heads(session, one_per_unit=individual)
        offer = self.carrier.ask(
            session, limit=limit, now_ms=paper.now_ms, one_per_unit=individual, chooses=self.chooses(session)
        )
        handed = [reference.offset for reference in offer.references]
        assert len(handed) <= limit
        for offset, reason in _unit_by_unit(offer):
            if reason is not None:
                self._sees_leave(offset, reason, session)
                continue
            inv.it_waited_there(paper, offset)
            inv.it_is_next_of_its_unit(paper, offset, session)
            inv.nobody_else_has_its_unit(paper, offset, session)
            if individual:
                inv.individual_holds_one_of_a_unit(paper, offset)
            inv.it_is_chosen(paper, offset, session)
            inv.its_time_has_come(paper, offset)
            inv.it_is_not_expired(paper, offset)
            inv.it_is_not_given_up(paper, offset)
            inv.it_is_durably_reserved(paper, offset)
            paper.hand_over(offset, session)
        if handed:
            self._something_happened()
        inv.best_first(paper, heads, handed)
        if len(handed) < limit and not offer.needs_offered:
            still_there = {offset for offset in expired if offset not in paper.holder}
            inv.nothing_deliverable_is_kept(heads, handed, still_there | paper.heads_that_must_leave(session))
        if offer.needs_offered:
            assert any(o >= paper.offered and o not in paper.holder for o in paper.unsettled())
        return offer

    def _sees_leave(self, offset: int, reason: str, session: str) -> None:
        """SEND-5, REDELIVER-3: only heads of units leave, for a reason; what is expired also behind what this has."""
        holder = session if reason == "expired" and session not in INDIVIDUALS else "nobody"
        inv.it_waited_there(self.paper, offset)
        inv.it_is_next_of_its_unit(self.paper, offset, holder)
        inv.nobody_else_has_its_unit(self.paper, offset, holder)
        inv.its_time_has_come(self.paper, offset)
        assert self.paper.is_expired(offset) if reason == "expired" else self.paper.is_given_up(offset)
        assert not self.paper.is_held_for_operator(offset)
        self.paper.hand_over(offset, GIVEN_AWAY)

    def somebody_waits(self) -> bool:
        return len(self.paper.unsettled()) > len(self.paper.holder)

    def free_hand(self, session: str) -> list[int]:
        return [] if session in self.committing else self.paper.in_hand(session)

    def holding(self, pick: int, *, leaving: bool = False) -> str:
        """One of those that hold something, if there is one."""
        holding = [s for s in ([*SESSIONS, GIVEN_AWAY] if leaving else SESSIONS) if self.free_hand(s)]
        return holding[pick % len(holding)] if holding else SESSIONS[0]

    def settle(self, session: str, mask: int, one_by_one: bool) -> None:
        offsets = some(self.free_hand(session), mask)
        known_as, row = ends(session)
        assert unknown_offsets(self.carrier.state, known_as, [*offsets, 1 << 40]) == [1 << 40]
        for batch in [[o] for o in offsets] if one_by_one else [offsets]:
            apply_by_the_table(self.carrier.state, c.Acknowledged(session=known_as, offsets=batch, transition=row))
        for offset in offsets:
            self.paper.settle(offset)
        self._something_happened()

    def take_back(self, session: str, rows: dict[int, tuple[bool, int | None]]) -> None:
        decision = decide_return(
            self.carrier.state,
            session,
            [Modified(offset, counted, delay_ms) for offset, (counted, delay_ms) in rows.items()],
            settings=self.settings,
            now_ms=self.paper.now_ms,
            chance=0.5,
        )
        for change in decision.changes:
            apply_by_the_table(self.carrier.state, change)
        self._something_happened()
        before = self.paper.in_hand(session)
        left = self.paper.give_back(session, rows)
        assert {leaving.reference.offset for leaving in decision.leaving} == left
        gone = set(before) - set(self.paper.in_hand(session)) - left
        assert {reference.offset for reference, _ in decision.returned} == gone
        assert not decision.unknown

    # -- operators -------------------------------------------------------------------------------------------------

    def take_out(self, offsets: list[int]) -> None:
        """Of REDELIVER-4, UNIT-14: messages leave from wherever they wait."""
        references = [self._reference(self.paper.log[offset]) for offset in offsets]
        for unit in {reference.unit for reference in references if reference.unit is not None}:
            self.carrier.bring_unit_back(unit)
        apply_by_the_table(self.carrier.state, c.TakenOut(references))
        self.carrier.leave_the_store(set(offsets))
        for offset in offsets:
            self.paper.hand_over(offset, GIVEN_AWAY)
        self.paper.taken_out.update(offsets)
        self._something_happened()

    def put_back(self, offsets: list[int]) -> None:
        """Nobody takes their copies: they wait again."""
        hand = self.carrier.state.in_hand[DEPARTING]
        references = [hand[offset] for offset in offsets]
        if may_wait_again(self.carrier.state, references):
            apply_by_the_table(self.carrier.state, decide_put_back(self.carrier.state, references))
            for offset in offsets:
                del self.paper.holder[offset]
            self.paper.taken_out.difference_update(offsets)
            self._something_happened()

    def on_hold(self) -> list[int]:
        """What waits for an operator and has not left."""
        paper = self.paper
        return [o for o in paper.unsettled() if paper.is_held_for_operator(o) and o not in paper.holder]

    def let_go(self, offsets: list[int]) -> None:
        """UNIT-16: to be tried anew, with all their attempts."""
        released = decide_released(self.carrier.state, offsets, again=True)
        assert [message.offset for message in released.messages] == offsets
        apply_by_the_table(self.carrier.state, released)
        self.paper.let_go(offsets)
        for offset in offsets:
            self.attempts_before.pop(offset, None)
        self._something_happened()

    # -- checkpoints and owners ------------------------------------------------------------------------------------

    def freeze(self, offered: int, tentative: set[int], parking: set[int]) -> None:
        self.checkpoints += 1
        self.since_checkpoint = 0
        frozen = self.carrier.begin_checkpoint(
            self.checkpoints, offered=offered, tentative=tentative, parking=sorted(parking)
        )
        inv.the_watermark_is_exact(self.paper, frozen.watermark, tentative | parking)
        self.pending = self.paper.as_of_now(tentative, parking, offered)
        self.pending.watermark = frozen.watermark  # judged just now; where the next owner resumes

    def settle_checkpoint(self, *, durable: bool) -> None:
        assert self.pending is not None
        self.carrier.end_checkpoint(durable=durable)
        committed, self.committing = self.committing, {}
        remembered, self.pending = self.pending, None
        if not durable:
            return
        self.paper.is_durable(remembered)
        for session, offsets in committed.items():
            known_as, row = ends(session)
            apply_by_the_table(self.carrier.state, c.Acknowledged(known_as, offsets, durable=True, transition=row))
            for offset in offsets:
                self.paper.settle(offset)
        inv.replay_gives_the_durable_part(self.paper, remembered, self.carrier)
        inv.the_changelog_holds_only_what_is_open(self.paper, remembered, self.carrier)

    def start_again(self, now_ms: int) -> None:
        self.pending, self.committing, self.attempts_before, self.since_owner = None, {}, {}, 0
        self.paper.crash(now_ms)
        self.carrier.crash(now_ms)
        self.tell_selectors()
        self.read_parked()
        assert self.carrier.state.read_position == self.paper.read_to

    def read_parked(self) -> None:
        """What the changelog keeps comes first, and nothing of the log below the watermark is looked at any more."""
        begin, end = self.carrier.state.read_position, self.paper.read_to
        parked = sorted(offset for offset in self.paper.parked if offset < end)
        assert bool(parked) == (begin < end)
        if parked:
            references = [self._reference(self.paper.log[offset]) for offset in parked]
            apply_by_the_table(self.carrier.state, c.Fetched(begin=begin, end=end, references=references))

    # -- after every step ------------------------------------------------------------------------------------------

    def check(self) -> None:
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


def ends(session: str) -> tuple[str, Transition]:
    """What the session of the paper is called in the channel, and by which row leaves what it is done with."""
    if session == GIVEN_AWAY:
        return DEPARTING, DEPARTS_BY[MessageFate.DEAD_LETTERED]
    return session, ACKNOWLEDGED


def _unit_by_unit(offer: Offer) -> Iterator[tuple[int, str | None]]:
    """What was handed over, in its order, with the reason None; before each what leaves from before it in its unit."""
    leaving = list(offer.leaving)
    for reference in offer.references:
        passed = [row for row in leaving if row[0].gate_key == reference.gate_key and row[0] < reference]
        yield from ((row[0].offset, row[1]) for row in passed)
        leaving = [row for row in leaving if row not in passed]
        yield reference.offset, None
    yield from ((gone.offset, reason) for gone, reason in leaving)
