"""Bridges between places with stores of large bodies of their own, or none."""

from __future__ import annotations

import pytest

from jbm_kafka import AddressSettings, Queue
from jbm_kafka.bridge import BridgeEnd
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.counted_store import CountedStore
from tests.support.waiting import wait_until

IN, OUT, LETTERS = Queue("in"), Queue("out"), Queue("DLQ")
SOON_S = 10.0
SETTINGS = {"#": AddressSettings(partitions=1, dead_letter_address="DLQ")}
TEXT = "a large text, " * 100


@pytest.mark.parametrize(("has_store", "is_same"), [(True, False), (True, True), (False, False)])
def test_a_large_body_can_be_had_at_the_target(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, has_store: bool, is_same: bool
) -> None:
    """BRIDGE-6: in the target's store if there is one, else in the record."""
    of_source, of_target = CountedStore(), CountedStore()
    of_target = of_source if is_same else of_target
    here = world.factory(large_bodies=of_source, large_body_bytes=500)
    more = {"large_bodies": of_target, "large_body_bytes": 500} if has_store else {}
    there = elsewhere.factory(**more)
    bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT))
    with here.create_context() as sender, there.create_context() as receiver:
        sender.create_producer().send(IN, TEXT)
        assert (found := receiver.create_consumer(OUT).receive(SOON_S)) is not None
        assert found.body == TEXT
    assert len(list(of_source.list())) == 1
    assert len(list(of_target.list())) == has_store


def test_a_body_that_is_gone_is_a_dead_letter_and_the_others_go_on(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-7: nothing went on because of one."""
    store = CountedStore()
    here = world.factory(large_bodies=store, large_body_bytes=500, address_settings=SETTINGS)
    with here.create_context() as sender, elsewhere.factory().create_context() as receiver:
        for body in ("before", TEXT, "behind"):
            sender.create_producer().send(IN, body, unit_of_order="joe")
        store.remove(next(iter(store.bodies)))
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(elsewhere.factory(), OUT))
        consumer = receiver.create_consumer(OUT)
        found = [consumer.receive(SOON_S) for _ in range(2)]
        assert [each.body for each in found if each is not None] == ["before", "behind"], bridge.health()
        assert bridge.statistics().refused == 1
        assert len(list(sender.create_browser(LETTERS))) == 1


def test_what_came_before_a_body_whose_store_is_down_goes_on(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-8: it went back with it, again and again."""
    store = CountedStore()
    here = world.factory(large_bodies=store, large_body_bytes=500, address_settings=SETTINGS)
    with here.create_context() as sender, elsewhere.factory().create_context() as receiver:
        for body in ("before", TEXT):
            sender.create_producer().send(IN, body, unit_of_order="joe")
        store.is_down = True
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(elsewhere.factory(), OUT))
        consumer = receiver.create_consumer(OUT)
        assert (found := consumer.receive(SOON_S)) is not None, bridge.health()
        assert found.body == "before"
        wait_until(lambda: "no route" in (bridge.trouble or ""), about=repr(bridge), timeout_s=SOON_S)
        assert (bridge.statistics().arrived, bridge.statistics().refused) == (1, 0)
        store.is_down = False
        assert (found := consumer.receive(SOON_S)) is not None, bridge.health()
        assert found.body == TEXT


@pytest.mark.parametrize("way", ["one cluster", "exactly-once", "duplicates-okay"])
def test_a_body_that_cannot_be_had_now_holds_its_unit_alone(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, way: str
) -> None:
    """BRIDGE-5, BRIDGE-8: it was the first message of each try, and nothing else went."""
    store = CountedStore()
    here = world.factory(large_bodies=store, large_body_bytes=500, address_settings=SETTINGS)
    there = world.factory(namespace="other") if way == "one cluster" else elsewhere.factory()
    guarantee = None if way == "one cluster" else way
    with here.create_context() as sender, there.create_context() as receiver:
        producer = sender.create_producer()
        for body in (TEXT, "behind"):
            producer.send(IN, body, unit_of_order="joe")
        for number in range(5):
            producer.send(IN, str(number), unit_of_order=f"u{number}")
        producer.send(IN, "of none")
        store.is_down = True
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT), guarantee=guarantee)
        consumer = receiver.create_consumer(OUT)
        others = [consumer.receive(SOON_S) for _ in range(6)]
        assert {each.body for each in others if each is not None} == {"0", "1", "2", "3", "4", "of none"}
        wait_until(lambda: "no route" in (bridge.trouble or ""), about=repr(bridge), timeout_s=SOON_S)
        assert (bridge.statistics().arrived, bridge.statistics().refused) == (6, 0)
        store.is_down = False
        found = [consumer.receive(SOON_S) for _ in range(2)]
        assert [each.body for each in found if each is not None] == [TEXT, "behind"], bridge.health()
