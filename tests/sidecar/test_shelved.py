"""What waits alone, for a time or a selector, in the held store: however many there are, no partition pauses."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from jbm_kafka.browsing.intake import reference_of
from jbm_kafka.core.channel.changes import Acknowledged, Fetched, TakenOut
from jbm_kafka.core.channel.offer import decide_offer
from jbm_kafka.core.channel.reference import EVERYONE, Reference
from jbm_kafka.ports.link import Link
from tests.sidecar.test_flow import BODY, LATER_MS, NOW_MS, GroupWorkerUnderTest
from tests.sidecar.test_selections import choosing
from tests.support.store_parts import MadeRecord

COUNT = 6_000


class Shelving(GroupWorkerUnderTest):
    """Messages without units, each with its colour, and receivers with selectors."""

    def paint(self, *colours: str, expires_ms: int = 0) -> None:
        begin = self.state.read_position
        references = [self._painted(begin + n, colour, expires_ms) for n, colour in enumerate(colours)]
        self.group_worker.data.selections.look(references)
        self.state.apply(Fetched(begin, begin + len(references), references))

    def _painted(self, offset: int, colour: str, expires_ms: int) -> Reference:
        headers = [("JMSType", colour.encode())]
        if expires_ms:
            headers.append(("JMSExpiration", b"%d" % expires_ms))
        return reference_of(MadeRecord(offset, key=None, value=BODY, headers=headers))

    def choose(self, *colours: str | None) -> list[Link]:
        """These receivers and no others from now on."""
        links = [choosing(None if colour is None else f"JMSType = '{colour}'") for colour in colours]
        data = self.group_worker.data
        data.links.clear()
        data.links.update((f"link-{number}", link) for number, link in enumerate(links))
        data.links_changed()
        return links

    def bit_of(self, link: Link) -> int:
        """What the channel knows its selector by."""
        return self.group_worker.data.selections.bit_of(link)

    def drink(self, link: Link, now_ms: int = NOW_MS) -> Iterator[int]:
        """What the receiver gets, until nothing stands on the shelf that it may choose and nothing comes."""
        link.demand.credit = 100
        idle = 0
        while idle < 3:
            self.group_worker.turn.keep_within_memory(self.consumer)
            offer = decide_offer(self.state, "a", limit=100, now_ms=now_ms, chooses=self.bit_of(link))
            self.state.apply(offer.change)
            offsets = [reference.offset for reference in offer.references]
            idle = 0 if offsets or self.state.shelf.is_awaited else idle + 1
            yield from offsets
            if offsets:
                self.state.apply(Acknowledged(session="a", offsets=offsets))


def test_more_delayed_messages_than_fit_pause_nothing_and_come_each_in_its_time() -> None:
    """SEND-6, of LOG-9: some tens of times the budget."""
    group_worker, chance = Shelving(budget_bytes=1 << 20), random.Random(1)
    due_ms = {offset: NOW_MS + 1 + chance.randrange(100_000) for offset in range(COUNT)}
    for offset in range(COUNT):
        group_worker.fetch(1, None, due_ms[offset])
        group_worker.turn(offset % 10 == 9)
        assert not group_worker.channel.memory.is_paused
    gates, shelf = group_worker.state.gates, group_worker.state.shelf
    assert len(gates.by_key) + sum(len(standing) for standing in shelf.places.values()) == COUNT
    assert len(gates.by_key) < 500
    assert len(gates.timers) < 500 + 2 * 4_096
    got: set[int] = set()
    for now_ms in range(NOW_MS, NOW_MS + 110_000, 10_000):
        new = set(group_worker.drain(now_ms))
        assert new == {offset for offset in due_ms if due_ms[offset] <= now_ms} - got
        got |= new
    assert len(got) == COUNT
    assert not shelf.places


def test_what_nobody_chooses_pauses_nothing_and_each_selector_gets_its_own() -> None:
    """Of LOG-9, SEL-1 and UNIT-6: each comes once."""
    group_worker = Shelving(budget_bytes=1 << 20)
    (red,) = group_worker.choose("red")
    got: list[int] = []
    for number in range(COUNT // 100):
        group_worker.paint(*["grey"] * 98, "red", "blue")
        got += group_worker.drink(red)
        assert not group_worker.channel.memory.is_paused, number
    assert got == list(range(98, COUNT, 100))
    assert len(group_worker.state.gates.by_key) < 500
    _, blue = group_worker.choose("red", "blue")
    assert sorted(group_worker.drink(blue)) == list(range(99, COUNT, 100))
    (everything,) = group_worker.choose(None)
    rest = list(group_worker.drink(everything))
    assert sorted(rest) == [offset for offset in range(COUNT) if offset % 100 < 98]
    assert not group_worker.state.shelf.places
    assert group_worker.state.watermark == COUNT


def test_a_selector_that_chooses_most_of_the_shelf_gets_it_within_memory() -> None:
    """Of LOG-9: what it asks for comes back as far as there is room."""
    group_worker = Shelving(budget_bytes=1 << 20)
    group_worker.choose("red")
    for _ in range(COUNT // 500):
        group_worker.paint(*["grey"] * 500)
        group_worker.turn()
    (grey,) = group_worker.choose("grey")
    for _ in range(100):
        group_worker.turn()
        assert group_worker.body_bytes < 1 << 20
    assert len(set(group_worker.drink(grey))) == COUNT


def test_what_nobody_chooses_leaves_from_the_shelf_when_it_expires() -> None:
    """Of SEND-5 and UNIT-6."""
    group_worker = Shelving(budget_bytes=1 << 20)
    (red,) = group_worker.choose("red")
    for _ in range(4):
        group_worker.paint(*["grey"] * 500, expires_ms=LATER_MS)
        group_worker.turn()
    assert group_worker.state.shelf.places
    left = 0
    group_worker.channel.pass_time(LATER_MS + 1, 0)
    for _ in range(2_000):
        group_worker.turn()
        offer = decide_offer(group_worker.state, "a", limit=100, now_ms=LATER_MS + 1, chooses=group_worker.bit_of(red))
        group_worker.state.apply(offer.change)
        assert not offer.references
        left += len(offer.leaving)
    assert left == 2_000


def test_a_selector_that_only_leaves_has_nothing_asked_again() -> None:
    group_worker = Shelving(budget_bytes=1 << 20)
    group_worker.choose("red", "blue")
    group_worker.paint(*["grey"] * 1_000)
    group_worker.turn()
    group_worker.choose("red")
    assert group_worker.state.shelf.places
    assert not group_worker.state.shelf.is_awaited


def test_what_a_full_disk_kept_of_messages_that_stayed_in_memory_comes_once(caplog: pytest.LogCaptureFixture) -> None:
    """Of LOG-9: rows that the store has although it refused them are passed over."""
    group_worker = Shelving(budget_bytes=1 << 20)
    group_worker.store.is_full = True
    group_worker.fetch(1_000, None, LATER_MS)
    group_worker.turn(3)
    assert "disk full; make room" in caplog.text
    assert not group_worker.state.shelf.places
    assert group_worker.channel.memory.is_paused
    group_worker.store.is_full = False
    group_worker.turn(200)
    assert not group_worker.channel.memory.is_paused
    assert group_worker.state.shelf.places
    assert sorted(group_worker.drain(LATER_MS)) == list(range(1_000))


@pytest.mark.parametrize("is_asked", [False, True])
def test_what_the_held_store_has_lost_has_the_channel_recovered(is_asked: bool) -> None:
    """Of LOG-9: in memory it is known what must be there."""
    group_worker = Shelving(budget_bytes=1 << 20)
    group_worker.choose("red")
    group_worker.paint(*["grey"] * 1_000, expires_ms=LATER_MS)
    group_worker.turn()
    group_worker.store.clear(group_worker.channel.name)
    now_ms, chooses = LATER_MS + 1, EVERYONE
    if is_asked:
        now_ms, chooses = NOW_MS, group_worker.bit_of(group_worker.choose("grey")[0])
    group_worker.channel.pass_time(now_ms, 0)
    in_memory = decide_offer(group_worker.state, "a", limit=1_000, now_ms=now_ms, chooses=chooses)
    group_worker.state.apply(in_memory.change)
    unreadable = group_worker.flow.keep_within_memory(group_worker.group_worker.data, group_worker.consumer)
    assert unreadable == [group_worker.channel]


def test_what_an_operator_takes_out_does_not_come_back_from_the_held_store() -> None:
    """Of REDELIVER-4."""
    group_worker = Shelving(budget_bytes=1 << 20)
    group_worker.fetch(1_000, None, LATER_MS)
    group_worker.turn()
    (standing,) = group_worker.state.shelf.places.values()
    taken = [offset for offset in range(1_000) if offset in standing][:100]
    records = [MadeRecord(o, key=None, headers=[("JMSDeliveryTime", b"%d" % LATER_MS)]) for o in taken]
    group_worker.state.apply(TakenOut([reference_of(record) for record in records]))
    assert set(group_worker.drain(LATER_MS)) == set(range(1_000)) - set(taken)
