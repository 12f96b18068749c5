"""A channel to try single promises on: short calls that decide and apply at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import DEPARTS_BY
from jbm_kafka.core.channel.entries import Entry, MessageFate
from jbm_kafka.core.channel.freeze import Freeze, freeze
from jbm_kafka.core.channel.offer import Offer, decide_offer
from jbm_kafka.core.channel.reference import DEPARTING, EVERYONE, Reference
from jbm_kafka.core.channel.settlement import Modified, Return, decide_return
from jbm_kafka.core.channel.states import ACKNOWLEDGED
from jbm_kafka.core.settings.address_settings import ResolvedSettings

START_MS = 1_000


def message(
    offset: int, unit: bytes | None = None, *, priority: int = 4, expires: int = 0, delivery: int = 0
) -> Reference:
    return Reference(offset, unit, priority, expires, delivery)


class Channel:
    """A channel state and its clock. Everything is reserved unless `offered_position` says how far."""

    def __init__(
        self, *references: Reference, offered_position: int = 1 << 40, settings: ResolvedSettings | None = None
    ) -> None:
        self.state = ChannelState()
        self.now_ms = START_MS
        self.settings = settings or ResolvedSettings(dead_letter_address="DLQ")
        self.state.apply(c.TimePassed(self.now_ms))
        self.state.apply(c.OfferedRaised(offered_position))
        if references:
            self.fetch(*references)

    def fetch(self, *references: Reference, end: int | None = None) -> None:
        end = references[-1].offset + 1 if end is None else end
        begin = self.state.read_position
        self.state.apply(c.Fetched(begin=begin, end=end, references=references, at_ms=self.now_ms))

    def ask(self, session: str, limit: int = 100, *, one_per_unit: bool = False, chooses: int = EVERYONE) -> Offer:
        offer = self.decide(session, limit, one_per_unit=one_per_unit, chooses=chooses)
        self.state.apply(offer.change)
        return offer

    def decide(self, session: str, limit: int = 100, *, one_per_unit: bool = False, chooses: int = EVERYONE) -> Offer:
        return decide_offer(
            self.state, session, limit=limit, now_ms=self.now_ms, one_per_unit=one_per_unit, chooses=chooses
        )

    def got(self, session: str, limit: int = 100, *, one_per_unit: bool = False) -> list[int]:
        return [reference.offset for reference in self.ask(session, limit, one_per_unit=one_per_unit).references]

    def acknowledge(self, session: str, *offsets: int, durable: bool = False) -> None:
        """The session is done with these; what DEPARTING holds went to the dead-letter address."""
        row = DEPARTS_BY[MessageFate.DEAD_LETTERED] if session == DEPARTING else ACKNOWLEDGED
        self.state.apply(c.Acknowledged(session=session, offsets=offsets, durable=durable, transition=row))

    def give_back(
        self,
        session: str,
        *rows: Modified | int,
        keep: Collection[int] = (),
        unread: Collection[int] | None = None,
    ) -> Return:
        """A bare offset goes back counted, with the delay of the settings."""
        decision = decide_return(
            self.state,
            session,
            [Modified(row, counted=True) if isinstance(row, int) else row for row in rows],
            settings=self.settings,
            now_ms=self.now_ms,
            chance=0.5,
            keep=keep,
            unread=unread,
        )
        for change in decision.changes:
            self.state.apply(change)
        return decision

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.state.apply(c.TimePassed(self.now_ms))

    def prepare(self, branch: str, taken: Mapping[str, Sequence[int]]) -> Sequence[Entry]:
        """A branch gets these by a checkpoint that becomes durable."""
        passed = c.PassedToBranch(branch, taken)
        frozen = self.freeze(preparing=[passed])
        self.state.apply(frozen.durable)
        self.state.apply(passed)
        return frozen.entries

    def freeze(
        self,
        *,
        offered_position: int | None = None,
        tentative: Collection[int] = (),
        preparing: Sequence[c.PassedToBranch] = (),
    ) -> Freeze:
        taken = freeze(
            self.state,
            topic_id="topic",
            checkpoint_id="jbm.test:1",
            offered_position=self.state.offered_position if offered_position is None else offered_position,
            tentative=tentative,
            preparing=preparing,
        )
        self.state.apply(taken.frozen)
        return taken

    def checkpoint(self, *, offered_position: int | None = None, tentative: Collection[int] = ()) -> Sequence[Entry]:
        """A freeze that becomes durable; what was tentative is not acknowledged yet."""
        taken = self.freeze(offered_position=offered_position, tentative=tentative)
        self.state.apply(taken.durable)
        return taken.entries


def recovered(*entries: Entry, now_ms: int = START_MS) -> Channel:
    """A channel of a new owner."""
    channel = Channel(offered_position=0)
    channel.state.apply(c.TimePassed(now_ms))
    channel.now_ms = now_ms
    for entry in entries:
        channel.state.apply(entry)
    return channel
