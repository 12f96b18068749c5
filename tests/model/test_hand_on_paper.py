"""Goal: a hand moves as the table of decision 102 says, whatever session and group worker do in whatever order.

Method: seeds choose acts for two links of a session; paper, in hand_world.py, says what each must answer. Then the
hand is broken, one rule at a time, and acts that show it must be found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pytest

from jbm_kafka import compiled
from jbm_kafka.core.receiving import hand as hands
from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.core.receiving.credit import Demand
from jbm_kafka.core.receiving.hand import Buffer, Hand, HandMove
from jbm_kafka.core.receiving.unacknowledged import Unacknowledged
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink
from tests.model.hand_world import KINDS, ONE_BY_ONE, HandWorld

SEEDS = range(300)
ACTS = 120


def play(kind: str, seed: int) -> None:
    """One history; whoever sees it fail plays it again by its kind and seed."""
    world, choose = HandWorld(kind), Random(seed)
    for _ in range(ACTS):
        often, seldom = world.acts(), world.seldom()
        choose.choice(seldom if seldom and (not often or choose.random() < 0.1) else often)()
        world.check()


def play_all(kind: str) -> None:
    for seed in SEEDS:
        try:
            play(kind, seed)
        except AssertionError as error:
            raise AssertionError(f"play({kind!r}, {seed}): {error}") from error


@pytest.mark.parametrize("kind", KINDS)
def test_a_hand_moves_as_paper_says(kind: str) -> None:
    """UNIT-3, ORDER-1, REDELIVER-7; ACK-2, ACK-3, ACK-4, ACK-7, ACK-10."""
    play_all(kind)


Fault = Callable[[pytest.MonkeyPatch], None]


def of_apply(
    move: HandMove, instead: Callable[[Any, Any], object], owner: type[Buffer[Any] | Unacknowledged[Any, Any]] = Buffer
) -> Fault:
    """One move is made in another way."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        real: Callable[..., None] = owner.apply

        def apply(self: Any, made: HandMove, items: Any, *rank: Any) -> None:
            if made is move and items:
                instead(self, items)
            else:
                real(self, made, items, *rank)

        patch.setattr(owner, "apply", apply)

    return plant


def of_method(owner: type, name: str, instead: Any) -> Fault:
    return lambda patch: patch.setattr(owner, name, instead)


def _show_in_reverse(self: Any, items: Sequence[Any]) -> None:
    self.ready.extendleft(items)
    self.kept.clear()


def _take_all_but_the_announced(self: Any, items: Sequence[Any]) -> None:
    for item in items:
        if item in self.ready:
            self.ready.remove(item)


def _is_free_after_the_first(self: Any, said: object) -> None:
    self._returns.pop(said, None)
    self.fenced.clear()


def _ask_beside_siblings(self: Any, count: int) -> None:
    self.demand.credit = max(count, 0)


def _want_anyway(self: Any, count: int) -> None:
    self.demand.is_asking_alone, self.demand.credit = False, count


def _all_is_recorded(self: Any, item: object) -> None:
    self.is_recorded = True


def _only_unread(self: Any) -> list[Any]:
    return self.at(hands.UNREAD & self._returning)  # type: ignore[no-any-return]


FAULTS: dict[str, tuple[str, Fault]] = {
    "nothing waits for what goes back": ("plain", of_method(Hand, "is_free", lambda self: True)),
    "all goes on when the first is carried out": ("plain", of_method(Hand, "returned", _is_free_after_the_first)),
    "one that ended is waited for": ("plain", of_method(Hand, "is_free", lambda self: not self.fenced)),
    "what is granted overtakes what goes back": ("plain", of_method(Hand, "awaits_unread", lambda *_: False)),
    "the same is asked for twice": ("plain", of_method(Demand, "granted", lambda *_: None)),
    "one is put back behind the others": (
        "plain",
        of_apply(hands.PUT_BACK, lambda self, items: self.ready.extend(items)),
    ),
    "one is put back where nobody takes": (
        "plain",
        of_method(Link, "is_open", property(lambda self: not self.is_stopped)),
    ),
    "one asks beside its sibling": ("plain", of_method(Link, "request", _ask_beside_siblings)),
    "one gets more beside what waits": ("plain", of_method(Link, "want_now", _want_anyway)),
    "what is coming is not taken back": ("announced", of_apply(hands.TAKE_BACK, _take_all_but_the_announced)),
    "what is coming is not looked at": ("announced", of_method(Buffer, "returnable", _only_unread)),
    "an answer for another counts": ("recorded", of_method(Buffer, "recorded", _all_is_recorded)),
    "another comes before the recorded one": ("recorded", of_method(Buffer, "next_to_record", Buffer.next_one)),
    "the next of a unit comes though the application has one": (ONE_BY_ONE, of_method(Hand, "took", lambda *_: None)),
    "the next of a unit never comes": (ONE_BY_ONE, of_method(Hand, "let_go", lambda *_: None)),
    "a look waits for what is behind one that the application has": (
        f"recorded {ONE_BY_ONE}",
        of_method(Buffer, "has_takeable", property(lambda self: bool(self.ready))),
    ),
    "an acknowledgement takes later ones, too": (
        "plain",
        of_method(Unacknowledged, "through", lambda self, last: self.at(places.SEEN)),
    ),
    "a nack leaves the rest of its unit in hand": ("plain", of_method(Unacknowledged, "unit_from", Unacknowledged.one)),
    "a partition that came back is the one before": (
        "plain",
        of_method(Delivery, "place_in_unit", property(lambda self: (self.unit_place, self.offset))),
    ),
    "what goes back is in hand still": (
        "plain",
        of_apply(places.GIVE_BACK, lambda self, rows: None, Unacknowledged),
    ),
    "what nobody got is in hand": ("plain", of_method(Unacknowledged, "accept", Unacknowledged.one)),
    "what is lazily acknowledged has no place in the prefetch": (
        "lazy",
        of_method(Unacknowledged, "count", lambda self, link: sum(its is link for its in self.seen.values())),
    ),
    "what is lazily acknowledged is worked on still": (
        "lazy",
        of_method(Unacknowledged, "accept_lazily", lambda self, item: self.lazy.update(self.one(item))),
    ),
    "what is lazily acknowledged is lost": (
        "lazy",
        of_method(Unacknowledged, "accept_lazily", Unacknowledged.accept),
    ),
    "a commit that failed has nothing to give back": (
        "transacted",
        of_apply(places.TAKE_PART, lambda self, rows: self.apply(places.ACCEPT, rows), Unacknowledged),
    ),
    "a branch takes what ends with its session": (
        "transacted",
        of_apply(places.AWAIT, lambda self, rows: self.apply(places.COMMIT, rows), Unacknowledged),
    ),
    "what is kept comes in another order": ("pre announced", of_apply(hands.SHOW, _show_in_reverse)),
    "what is kept is lost": ("pre", of_apply(hands.KEEP, lambda self, items: self.ready.clear())),
    "a pause keeps nothing": ("pre", of_method(PreAcknowledgedLink, "keep_back", lambda self: None)),
}


@pytest.mark.skipif(compiled.are_used(), reason="faults are planted in the source: `make test-pure`")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_rule_of_the_hand_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """UNIT-3, ORDER-1, REDELIVER-7; ACK-2, ACK-3, ACK-4, ACK-7, ACK-10."""
    kind, plant = FAULTS[fault]
    plant(monkeypatch)

    with pytest.raises(AssertionError):
        play_all(kind)
