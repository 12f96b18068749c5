"""A channel, the sidecar's work around it, and the paper queue that judges both: what the rules are made of."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis.stateful import RuleBasedStateMachine

from jbm_kafka.core import changes as c
from jbm_kafka.core.address_settings import ResolvedSettings
from jbm_kafka.core.departure import DEPARTS_BY
from jbm_kafka.core.entries import MessageFate
from jbm_kafka.core.offer import Offer
from jbm_kafka.core.reference import DEPARTING, Reference
from jbm_kafka.core.settlement import GivenBack, decide_return, unknown_offsets
from jbm_kafka.core.states import ACKNOWLEDGED, Transition
from tests.model import invariants as inv
from tests.model.carrier import Carrier
from tests.model.histories import INDIVIDUALS, SESSIONS, some
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
        self.carrier.state.apply(c.TimePassed(self.paper.now_ms))
        self.checkpoints = 0
        self.pending: Remembered | None = None
        self.committing: dict[str, list[int]] = {}
        """Whose messages the pending checkpoint settles; such a session does nothing else meanwhile."""
        self.attempts_before: dict[int, int] = {}
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
        references = [Reference(*self._fields(sent)) for sent in found]
        self.carrier.state.apply(c.Fetched(begin=begin, end=end, references=references))

    @staticmethod
    def _fields(sent: Sent) -> tuple[int, bytes | None, int, int, int]:
        return sent.offset, sent.unit, sent.priority, sent.expiration_ms, sent.delivery_time_ms

    # -- sessions --------------------------------------------------------------------------------------------------

    def ask_for(self, session: str, limit: int) -> Offer:
        paper, individual = self.paper, session in INDIVIDUALS
        heads = paper.deliverable_heads(session, one_per_unit=individual)
        expired = paper.expired_heads(session, one_per_unit=individual)
        offer = self.carrier.ask(session, limit=limit, now_ms=paper.now_ms, one_per_unit=individual)
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
            inv.nothing_deliverable_is_kept(heads, handed, still_there | paper.heads_that_must_leave())
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
            self.carrier.state.apply(c.Acknowledged(session=known_as, offsets=batch, transition=row))
        for offset in offsets:
            self.paper.settle(offset)
        self._something_happened()

    def take_back(self, session: str, rows: dict[int, tuple[bool, int | None]]) -> None:
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
        self._something_happened()
        before = self.paper.in_hand(session)
        left = self.paper.give_back(session, rows)
        assert {leaving.reference.offset for leaving in decision.leaving} == left
        gone = set(before) - set(self.paper.in_hand(session)) - left
        assert {reference.offset for reference, _ in decision.returned} == gone
        assert not decision.unknown

    # -- checkpoints and owners ------------------------------------------------------------------------------------

    def freeze(self, offered: int, tentative: set[int]) -> None:
        self.checkpoints += 1
        self.since_checkpoint = 0
        frozen = self.carrier.begin_checkpoint(self.checkpoints, offered=offered, tentative=tentative)
        inv.the_watermark_is_exact(self.paper, frozen.watermark, tentative)
        self.pending = self.paper.as_of_now(tentative, offered)
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
            self.carrier.state.apply(c.Acknowledged(known_as, offsets, durable=True, transition=row))
            for offset in offsets:
                self.paper.settle(offset)
        inv.replay_gives_the_durable_part(self.paper, remembered, self.carrier)
        inv.the_changelog_holds_only_what_is_open(self.paper, remembered, self.carrier)

    def start_again(self, now_ms: int) -> None:
        self.pending, self.committing, self.attempts_before, self.since_owner = None, {}, {}, 0
        self.paper.crash(now_ms)
        self.carrier.crash(now_ms)
        assert self.carrier.state.read_position == self.paper.read_to

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
