"""Bridges between places with stores of large bodies of their own, or none."""

from __future__ import annotations

import pytest

from jbm_kafka import Queue
from jbm_kafka.bridge import BridgeEnd
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.counted_store import CountedStore

IN, OUT = Queue("in"), Queue("out")
SOON_S = 10.0
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
