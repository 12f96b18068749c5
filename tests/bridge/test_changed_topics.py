"""Bridges of which somebody changes or deletes the Kafka topic of a side while they run."""

from __future__ import annotations

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Context, Queue
from jbm_kafka.bridge import Bridge, BridgeEnd
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.sidecar.topics.topic_watch import LOOK_S
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.amqp_server import amqp_server
from tests.support.waiting import wait_until

IN, OUT, LETTERS = Queue("in"), Queue("out"), Queue("DLQ")
SOON_S = 10.0
SETTINGS = {"#": AddressSettings(partitions=1, dead_letter_address="DLQ")}
SMALL, LARGE = 1_000, 100_000
TEXT = "x" * 2_000
EVERY_WAY = pytest.mark.parametrize("way", ["one cluster", "exactly-once", "duplicates-okay"])


class Way:
    """One way between two ends, one message of which has gone."""

    def __init__(self, world: MemoryWorld, elsewhere: MemoryWorld, way: str, bridged: Bridged, takes: int) -> None:
        """`takes`: the bytes of a message that the target takes at the beginning."""
        target = world if way == "one cluster" else elsewhere
        self.cluster = target._world.cluster
        self.admin = MemoryKafka(self.cluster).admin()
        self.admin.create_topic(OUT.name, partitions=1, config={"max.message.bytes": str(takes)})
        self.here = world.factory(address_settings=SETTINGS)
        self.there: ConnectionFactory = self.here if target is world else target.factory()
        guarantee = None if way == "one cluster" else way
        self.bridge: Bridge = bridged(BridgeEnd(self.here, IN), BridgeEnd(self.there, OUT), guarantee=guarantee)
        self.send("first")
        self.wait_arrived(1)

    def send(self, *bodies: str) -> None:
        """One after the other, of one unit."""
        with self.here.create_context() as jms:
            for body in bodies:
                jms.create_producer().send(IN, body, unit_of_order="joe")

    def wait_arrived(self, count: int) -> None:
        """Return when so many have."""
        wait_until(
            lambda: self.bridge.statistics().arrived == count, about=lambda: str(self.bridge.trouble), timeout_s=SOON_S
        )

    def bodies(self, queue: Queue, at: ConnectionFactory) -> list[str]:
        """All that the queue holds."""
        jms: Context
        with at.create_context() as jms:
            return [str(message.body) for message in jms.create_browser(queue, include="all")]


@EVERY_WAY
def test_what_is_too_large_by_now_is_a_dead_letter_and_the_others_go_on(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, way: str
) -> None:
    """BRIDGE-7: nothing went on until the bridge was started anew."""
    made = Way(world, elsewhere, way, bridged, LARGE)
    made.admin.alter_config(OUT.name, {"max.message.bytes": str(SMALL)})
    made.cluster.faults.refuse = lambda record: (
        "too large" if (record.topic, record.value) == (OUT.name, TEXT.encode()) else None
    )
    made.send(TEXT, "last")
    made.wait_arrived(2)
    made.cluster.faults.refuse = None
    assert made.bodies(OUT, made.there) == ["first", "last"]
    assert made.bodies(LETTERS, made.here) == [TEXT]


@EVERY_WAY
def test_what_the_target_takes_by_now_is_no_dead_letter(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, way: str
) -> None:
    """BRIDGE-7: the limit was raised, and letters that were retried came back until the bridge was started anew."""
    made = Way(world, elsewhere, way, bridged, SMALL)
    made.admin.alter_config(OUT.name, {"max.message.bytes": str(LARGE)})
    made.send(TEXT, "last")
    made.wait_arrived(3)
    assert made.bodies(OUT, made.there) == ["first", TEXT, "last"]
    assert made.bridge.statistics().refused == 0


@EVERY_WAY
def test_a_target_that_was_deleted_is_made_anew(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged, way: str
) -> None:
    """Of BRIDGE-8: as each send makes it, unless auto_create is False; from another cluster nothing went on."""
    made = Way(world, elsewhere, way, bridged, LARGE)
    made.cluster.delete_topic(OUT.name)
    made.send("second")
    made.wait_arrived(2)
    assert made.bodies(OUT, made.there) == ["second"]


def test_what_comes_from_a_source_that_was_made_anew_is_no_duplicate(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-3: of messages that plain producers sent, which have no ids, a target that drops duplicates dropped those
    at the places of earlier ones."""
    here, cluster, ids = world.factory(address_settings=SETTINGS), world._world.cluster, set()
    with (
        amqp_server(elsewhere.url.removeprefix("memory://")) as server,
        here.create_context() as sender,
        elsewhere.factory().create_context() as receiver,
    ):
        producer, consumer = sender.create_producer(), receiver.create_consumer(OUT)
        producer.disable_message_id = True
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(server, OUT, duplicate_property="dup"))
        for count in (1, 2):
            producer.send(IN, "x")
            found = consumer.receive(SOON_S)
            assert found is not None
            ids.add(found.properties["dup"])
            wait_until(lambda: bridge.statistics().arrived == count, about=repr(bridge), timeout_s=SOON_S)  # noqa: B023
            config = cluster.topics[IN.name].config
            cluster.delete_topic(IN.name)
            cluster.create_topic(IN.name, 1, config)
            world.clock.advance(int(2 * LOOK_S * 1_000))
    assert len(ids) == 2
