"""Decides on messages when a session is done with them, gives them back, or is gone: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.departure import OUT_OF_ATTEMPTS, REJECTED, RELEASED, Departure, route_of
from jbm_kafka.core.channel.entries import FAILURE_BYTES_MAX
from jbm_kafka.core.channel.redelivery import FOREVER_MS, is_exhausted, redelivery_delay_ms
from jbm_kafka.core.channel.redelivery_states import RETURNED
from jbm_kafka.core.channel.reference import GateKey, Reference, SessionId
from jbm_kafka.core.channel.states import MessageState, Move, transition
from jbm_kafka.core.failure_text import cut_to_bytes
from jbm_kafka.core.receiving.going_back import behind
from jbm_kafka.core.settings.address_settings import ResolvedSettings

HELD_FOR_OPERATOR = "held-for-operator"
REMOVED: Final = transition(MessageState.DELIVERED, Move.REMOVED)
"""Out of attempts, and no dead-letter address: it leaves from the session's hand."""


class Modified(NamedTuple):
    """One message a session gives back."""

    offset: int
    counted: bool
    """True when it reached the application: one more attempt (REDELIVER-1)."""
    delay_ms: int | None = None
    """How long it must wait; None: as the destination's settings say. Ignored unless counted."""
    was_seen: bool = False
    """The application had it, though that counts as no attempt of it. Ignored when counted."""
    last_error: str | None = None
    """Why the attempt failed, where that is known."""
    is_rejected: bool = False
    """The application gives it up: it leaves as one that is out of attempts does. Counted."""
    undeliverable_here: bool = False
    """Whoever gives it back must not get it again; the channel hears that by `UndeliverableHere`."""


def uncounted(offsets: Iterable[int], unread: Collection[int] | None) -> list[Modified]:
    """Return how messages go back of which their receiver says nothing: uncounted, and marked unless they are `unread`.

    What was seen is never first again, whoever takes it back and why (REDELIVER-1). `unread` None: nothing was seen.
    """
    return [Modified(offset, counted=False, was_seen=unread is not None and offset not in unread) for offset in offsets]


@dataclass(frozen=True, slots=True)
class Return:
    """The decision on messages given back."""

    changes: Sequence[c.Change]
    leaving: Sequence[Departure]
    """Now in DEPARTING's hand."""
    returned: Sequence[tuple[Reference, c.ReturnedMessage]]
    """Waiting again, with what is remembered of them."""
    unknown: Sequence[int]
    """Offsets the session does not hold; nothing happens to them."""


def decide_kept(state: ChannelState, settings: ResolvedSettings) -> c.KeptForOperator:
    """Return what crashes left with its attempts used up, where that stays for an operator. For a channel just
    recovered."""
    redeliveries = state.redeliveries.items() if settings.on_dead_letter == "hold" else ()
    return c.KeptForOperator(
        messages=[
            c.ReturnedMessage(offset, redelivery.attempts, FOREVER_MS, FOREVER_MS, HELD_FOR_OPERATOR)
            for offset, redelivery in redeliveries
            if redelivery.reason not in (HELD_FOR_OPERATOR, RELEASED)
            and is_exhausted(redelivery.attempts, settings.max_delivery_attempts)
        ]
    )


def unknown_offsets(state: ChannelState, session: SessionId, offsets: Sequence[int]) -> list[int]:
    """Return those of the offsets that the session does not hold, or not as often as they are named: each is held
    once."""
    hand = state.in_hand.get(session, {})
    if offsets == list(islice(hand, len(offsets))):
        return []  # in the order handed over, from the first on: so it mostly is, and nothing is looked up one by one
    unknown = [offset for offset in offsets if offset not in hand]
    if len(set(offsets)) < len(offsets):
        unknown += [offset for offset, times in Counter(offsets).items() if times > 1 and offset in hand]
    return unknown


def units_of(state: ChannelState, session: SessionId, offsets: Collection[int]) -> set[bytes]:
    """The units of what the session holds of these."""
    hand = state.in_hand.get(session, {})
    return {unit for offset in offsets if offset in hand and (unit := hand[offset].unit) is not None}


def decide_return(
    state: ChannelState,
    session: SessionId,
    given_back: Sequence[Modified],
    *,
    settings: ResolvedSettings,
    now_ms: int,
    chance: float,
    keep: Collection[int] = (),
    unread: Collection[int] | None = None,
) -> Return:
    """Take messages back from a session, and with each the later ones of its unit that the session holds (UNIT-3).

    A counted one waits its delay, or leaves when its attempts are used up or it is rejected; on the way out its
    unit stays held. Only the first of its unit leaves at once: a later one waits its turn and leaves when it is
    offered. An offset named twice is given back once, as named first. What to `keep` (acknowledged in an open
    transaction) stays in hand, and nothing of its unit leaves before it is settled; nor before what a branch has of it,
    for that may come again. What goes back with an earlier
    one and is not `unread` was seen by the application: it comes again marked (REDELIVER-1); None: nothing of it
    was seen.
    """
    hand = state.in_hand.get(session, {})
    known: dict[int, Modified] = {}
    for row in given_back:
        if row.offset in hand:
            known.setdefault(row.offset, row)
    rows = [*known.values(), *(row for row in _stragglers(hand, known, unread) if row.offset not in keep)]
    kept = {hand[offset].gate_key for offset in keep if offset in hand}
    back: list[c.ReturnedMessage] = []
    out: list[c.ReturnedMessage] = []
    gone: list[int] = []
    leaving: list[Departure] = []
    first = _first_of_units(state, hand, rows)
    for row in rows:
        reference = hand[row.offset]
        message = _returned_message(state, row, settings, now_ms, chance)
        key = reference.gate_key
        is_kept = key in kept or key in state.gates.before
        if message.reason not in (OUT_OF_ATTEMPTS, REJECTED) or is_kept or first.get(key, row.offset) < row.offset:
            back.append(message)
            continue
        if route_of(message.reason, settings).address is None:
            gone.append(row.offset)
        else:
            out.append(message)
        leaving.append(Departure(reference, message.attempts, message.reason, row.last_error))
    changes: list[c.Change] = []
    if back:
        changes.append(c.Returned(session=session, messages=back))
    if out:
        changes.append(c.Transferred(session=session, messages=out))
    if gone:
        changes.append(c.Acknowledged(session=session, offsets=gone, transition=REMOVED))
    return Return(
        changes=changes,
        leaving=leaving,
        returned=[(hand[message.offset], message) for message in back],
        unknown=[row.offset for row in given_back if row.offset not in hand],
    )


def _stragglers(
    hand: Mapping[int, Reference], named: Mapping[int, Modified], unread: Collection[int] | None
) -> list[Modified]:
    """Return how the later messages of the returned units go back that are still in the session's hand."""
    later = behind(
        ((hand[offset].unit, offset) for offset in named),
        ((offset, (reference.unit, offset)) for offset, reference in hand.items()),
    )
    return uncounted((offset for offset in later if offset not in named), unread)


def _first_of_units(state: ChannelState, hand: Mapping[int, Reference], rows: Sequence[Modified]) -> dict[GateKey, int]:
    """The first message of each unit that the rows name, in hand or back already: only that may leave at once."""
    units = {unit for unit in (hand[row.offset].unit for row in rows) if unit is not None}
    first: dict[GateKey, int] = {}
    if units:
        for offset, reference in hand.items():
            if reference.unit is not None and reference.unit in units:
                first[reference.unit] = min(offset, first.get(reference.unit, offset))
    for unit, offset in first.items():
        waits = state.gates.by_key[unit].known_head
        first[unit] = offset if waits < 0 else min(offset, waits)
    return first


def _returned_message(
    state: ChannelState, row: Modified, settings: ResolvedSettings, now_ms: int, chance: float
) -> c.ReturnedMessage:
    redelivery = state.redeliveries.get(row.offset)
    attempts = 0 if redelivery is None else redelivery.attempts
    if row.is_rejected and settings.keeps_given_up:
        return c.ReturnedMessage(row.offset, attempts, 0, 0, RETURNED, was_seen=True)
    if not row.counted:
        return c.ReturnedMessage(row.offset, attempts, 0, 0, RETURNED, was_seen=row.was_seen)
    attempts += 1
    failure = None if row.last_error is None else cut_to_bytes(row.last_error, FAILURE_BYTES_MAX)
    if row.is_rejected or is_exhausted(attempts, settings.max_delivery_attempts):
        if settings.on_dead_letter == "hold":
            delay_ms, reason = FOREVER_MS, HELD_FOR_OPERATOR
            return c.ReturnedMessage(row.offset, attempts, delay_ms, delay_ms, reason, failure=failure)
        reason = REJECTED if row.is_rejected else OUT_OF_ATTEMPTS
        return c.ReturnedMessage(row.offset, attempts, 0, 0, reason, failure=failure)
    delay_ms = redelivery_delay_ms(settings, attempts, chance) if row.delay_ms is None else row.delay_ms
    due_at_ms = now_ms + delay_ms if delay_ms else 0
    return c.ReturnedMessage(row.offset, attempts, due_at_ms, delay_ms, RETURNED, failure=failure)
