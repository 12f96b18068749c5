"""Bridges within one cluster, where a transaction has both ends."""

from __future__ import annotations

import gc
import weakref

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Destination, Queue, Topic
from jbm_kafka.bridge import Bridge, BridgeEnd, Guarantee
from jbm_kafka.codec.bridged_headers import HOPS, HOPS_MAX
from jbm_kafka.errors import TransactionRolledBackError
from jbm_kafka.jms.settling.transacted_acknowledge import TransactedAcknowledge
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import TransactionAborted
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.waiting import wait_until

IN, OUT, LETTERS = Queue("in"), Queue("out"), Queue("DLQ")
SOON_S = 10.0
SETTINGS = {"#": AddressSettings(partitions=2, max_delivery_attempts=2, dead_letter_address="DLQ")}


def test_a_message_arrives_in_another_namespace_as_it_was_sent(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-1, BRIDGE-6, UNIT-15."""
    here, there = world.factory(), world.factory(namespace="other")
    with here.create_context() as sender, there.create_context() as receiver:
        sent = sender.create_producer().send(
            IN,
            {"books": 2},
            unit_of_order="joe",
            priority=7,
            delivery_delay_ms=1_000,
            time_to_live_ms=60_000,
            properties={"region": "EU", "count": 3},
            correlation_id="c-1",
            type="order",
            reply_to=Queue("answers"),
            headers={"traceparent": b"00-1"},
            duplicate_id="d-1",
        )
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(there, OUT))
        assert bridge.guarantee is Guarantee.EXACTLY_ONCE
        world.clock.advance(1_000)
        found = receiver.create_consumer(OUT).receive(SOON_S)
    assert found is not None
    assert (found.body, found.unit_of_order, found.priority) == ({"books": 2}, "joe", 7)
    for name in ("message_id", "timestamp", "expiration", "delivery_time", "correlation_id", "type", "reply_to"):
        assert getattr(found, name) == getattr(sent, name), name
    assert dict(found.properties) == {
        "region": "EU",
        "count": 3,
        "traceparent": "00-1",
        "JBM_BRIDGED": f"queue:in at {world.url}",
    }
    assert found.kafka is not None
    assert "JBMDuplicateID" not in dict(found.kafka.headers)


def test_a_bridge_that_was_stopped_is_kept_by_nobody(world: MemoryWorld) -> None:
    """Of BRIDGE-8: an operator's request to drain was still to be carried out by it, while others used its sidecar."""
    with world.factory().create_context() as other:
        bridge = Bridge("across", BridgeEnd(world.factory(), IN), BridgeEnd(world.factory(), OUT))
        bridge.start()
        other.create_producer().send(IN, "one")
        assert other.create_consumer(OUT).receive(SOON_S) is not None
        assert bridge.stop()
        kept = weakref.ref(bridge)
        del bridge
        gc.collect()
        assert kept() is None


def test_how_far_it_is_behind_is_told_by_what_it_took_last(world: MemoryWorld, bridged: Bridged) -> None:
    """Of BRIDGE-8."""
    here = world.factory()
    with here.create_context() as jms:
        jms.create_producer().send(IN, "old", delivery_delay_ms=10_000)
        world.clock.advance(100_000)
        behind = bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT), rate="1/h")
        wait_until(lambda: behind.statistics().arrived == 1, about="there", timeout_s=SOON_S)
        assert 90 <= behind.statistics().behind_s < 100
        assert behind.stop()
        jms.create_producer().send(IN, "new")
        world.clock.advance(1_000)
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT))
        wait_until(lambda: bridge.statistics().arrived == 1, about="there, too", timeout_s=SOON_S)
        wait_until(lambda: not bridge.statistics().behind_s, about="nothing waits", timeout_s=SOON_S)


def test_nothing_is_twice_and_units_are_in_order(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-1, BRIDGE-5."""
    here = world.factory(address_settings=SETTINGS)
    bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT), in_flight=10)
    count, units = 300, 7
    with here.create_context() as jms:
        producer = jms.create_producer()
        for number in range(count):
            producer.send(IN, str(number), unit_of_order=f"u{number % units}")
        consumer = jms.create_consumer(OUT)
        found = [consumer.receive(SOON_S) for _ in range(count)]
        assert consumer.receive(0.0) is None
    bodies = [int(message.body) for message in found if message is not None]
    assert sorted(bodies) == list(range(count))
    for unit in range(units):
        mine = [number for number in bodies if number % units == unit]
        assert mine == sorted(mine)


def test_a_topic_is_bridged_by_a_subscription_that_lasts(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-1: what is sent while the bridge is stopped goes when it runs again."""
    here, news = world.factory(), Topic("news")
    ends = BridgeEnd(here, news), BridgeEnd(here, "out")
    first = bridged(*ends)
    with here.create_context() as jms:
        consumer = jms.create_consumer(OUT)
        producer = jms.create_producer()
        while not first.health().is_ready:
            world.wait_idle()
        producer.send(news, "first")
        assert (found := consumer.receive(SOON_S)) is not None
        assert found.body == "first"
        assert first.stop()
        producer.send(news, "second")
        bridged(*ends)
        assert (found := consumer.receive(SOON_S)) is not None
        assert found.body == "second"


def test_what_the_selector_does_not_choose_stays(world: MemoryWorld, bridged: Bridged) -> None:
    """Of BRIDGE-1."""
    here = world.factory()
    bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT), selector="region = 'EU'")
    with here.create_context() as jms:
        producer = jms.create_producer()
        producer.send(IN, "stays", properties={"region": "US"})
        producer.send(IN, "goes", properties={"region": "EU"})
        assert (found := jms.create_consumer(OUT).receive(SOON_S)) is not None
        assert found.body == "goes"
        assert [message.body for message in jms.create_browser(IN, include="all")] == ["stays"]


def test_what_is_too_large_is_a_dead_letter_with_the_reason(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-7: its unit goes on."""
    here = world.factory(address_settings=SETTINGS)
    MemoryKafka(world._world.cluster).admin().create_topic(OUT.name, partitions=1, config={"max.message.bytes": "1000"})
    with here.create_context() as jms:
        producer = jms.create_producer()
        for body in ("first", "x" * 2_000, "last"):
            producer.send(IN, body, unit_of_order="joe")
        bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT))
        consumer = jms.create_consumer(OUT)
        assert [found.body for found in (consumer.receive(SOON_S), consumer.receive(SOON_S)) if found] == [
            "first",
            "last",
        ]
        assert (letter := jms.create_consumer(LETTERS).receive(SOON_S)) is not None
    assert letter.body == "x" * 2_000
    assert "takes 1000" in str(letter.properties["_JBM_LAST_ERROR"])


def test_a_loop_is_found_before_a_message_is_there_twice(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-7."""
    here = world.factory(address_settings=SETTINGS)
    bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT))
    bridged(BridgeEnd(here, OUT), BridgeEnd(here, IN))
    with here.create_context(AcknowledgeMode.AUTO) as jms:
        jms.create_producer().send(IN, "round")
        assert (letter := jms.create_consumer(LETTERS).receive(SOON_S)) is not None
        assert letter.properties["_JBM_ORIG_DESTINATION"] == "queue:out"
        assert "a loop: it has passed queue:in at" in str(letter.properties["_JBM_LAST_ERROR"])


def test_one_that_passed_very_many_bridges_is_a_dead_letter(world: MemoryWorld, bridged: Bridged) -> None:
    """Of BRIDGE-7: it may go round by places of other names."""
    here = world.factory(address_settings=SETTINGS)
    bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT))
    with here.create_context() as jms:
        for hops in (HOPS_MAX, HOPS_MAX - 1):
            passed = " > ".join(f"queue:{number} at there" for number in range(hops))
            jms.create_producer().send(IN, str(hops), properties={HOPS: passed})
        assert (letter := jms.create_consumer(LETTERS).receive(SOON_S)) is not None
        assert letter.body == str(HOPS_MAX)
        assert (found := jms.create_consumer(OUT).receive(SOON_S)) is not None
        assert found.body == str(HOPS_MAX - 1)


def test_more_than_a_transaction_holds_goes_in_several(world: MemoryWorld, bridged: Bridged) -> None:
    """BRIDGE-1: what did not fit in became a dead letter."""
    here = world.factory(address_settings=SETTINGS, memory_budget_bytes=16 << 20)
    with here.create_context() as jms:
        producer = jms.create_producer()
        for number in range(12):
            producer.send(IN, b"x" * 600_000, unit_of_order=f"u{number % 3}")
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT))
        wait_until(lambda: bridge.statistics().arrived == 12, about="all there", timeout_s=SOON_S)
        assert bridge.statistics().refused == 0


def test_no_more_go_than_the_rate_says(world: MemoryWorld, bridged: Bridged) -> None:
    """Of BRIDGE-8. core/rate.py has the rule of it, and tests of its own."""
    here = world.factory()
    bridge = bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT), rate="1/h")
    with here.create_context() as jms:
        producer = jms.create_producer()
        for number in range(3):
            producer.send(IN, str(number))
        consumer = jms.create_consumer(OUT)
        assert (found := consumer.receive(SOON_S)) is not None
        assert found.body == "0"
        assert consumer.receive(0.5) is None
        assert bridge.health().is_ready
        assert [each.body for each in jms.create_browser(IN, include="all")] == ["1", "2"]


@pytest.mark.parametrize(
    ("rule", "arrives"),
    [
        ("keep", Queue("answers")),
        ("drop", None),
        ({"answers": "topic:news"}, Topic("news")),
        ({"answers": ""}, None),
        ({"others": ""}, Queue("answers")),
    ],
)
def test_answers_go_where_the_rule_says(
    world: MemoryWorld, bridged: Bridged, rule: str | dict[str, str], arrives: Destination | None
) -> None:
    """BRIDGE-6."""
    here = world.factory()
    bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT), reply_to=rule)
    with here.create_context() as jms:
        jms.create_producer().send(IN, "question", reply_to=Queue("answers"))
        assert (found := jms.create_consumer(OUT).receive(SOON_S)) is not None
        assert found.reply_to == arrives


def test_who_asked_by_a_temporary_queue_is_answered_within_an_installation(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-6: elsewhere nobody could answer there, and it is dropped."""
    here, there = world.factory(), elsewhere.factory()
    bridged(BridgeEnd(here, IN), BridgeEnd(here, OUT))
    bridged(BridgeEnd(here, "far"), BridgeEnd(there, OUT))
    with here.create_context() as jms, there.create_context() as far:
        asked = jms.create_temporary_queue()
        producer = jms.create_producer()
        producer.send(IN, "near", reply_to=asked)
        producer.send(Queue("far"), "far", reply_to=asked)
        assert (near := jms.create_consumer(OUT).receive(SOON_S)) is not None
        assert near.reply_to == asked
        assert (gone := far.create_consumer(OUT).receive(SOON_S)) is not None
        assert gone.reply_to is None


def test_what_a_failed_commit_had_comes_again_marked_and_uncounted(world: MemoryWorld) -> None:
    """Of REDELIVER-1: it was no fault of the messages, and an application may have had them."""

    def fail(producer: str, step: str) -> None:
        if step == "commit":
            raise TransactionAborted(f"{producer}: a fault of the test")

    once = {"#": AddressSettings(max_delivery_attempts=1)}
    with world.factory(address_settings=once).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.TRANSACTED)
        strategy = session._strategy
        assert isinstance(strategy, TransactedAcknowledge)
        strategy.counts_failures = False
        session.create_producer(Queue("orders")).send("again")
        session.commit()
        consumer = session.create_consumer(Queue("orders"))
        assert consumer.receive(timeout=10) is not None
        world._world.cluster.faults.step = fail
        with pytest.raises(TransactionRolledBackError):
            session.commit()
        world._world.cluster.faults.step = None
        message = consumer.receive(timeout=10)
        assert message is not None
        assert (message.body, message.redelivered) == ("again", True)  # and is no dead letter
        session.commit()
