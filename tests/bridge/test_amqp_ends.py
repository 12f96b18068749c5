"""Bridges from and to servers of AMQP 1.0 that are not ours: Apache Artemis and RabbitMQ (docs/moving-in.md)."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import closing

import pytest

from jbm_kafka import Context, Destination, Queue, Topic
from jbm_kafka.amqp_client.amqp_records import AmqpRecord
from jbm_kafka.amqp_client.transfer_connection import TransferConnection, TransferOutcome
from jbm_kafka.bridge import BridgeEnd, Guarantee
from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.amqp_peers import PEERS, AmqpPeer, amqp_peer
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(600)]

ORDERS, BACK, HOME = Queue("orders"), Queue("back"), Queue("orders-home")
SOON_S = 90.0


@pytest.fixture(scope="module", params=PEERS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AmqpPeer]:
    with amqp_peer(request.param, tmp_path_factory.mktemp("peer")) as running:
        yield running


def end_at(peer: AmqpPeer, address: str, name: Queue = ORDERS, **more: str | None) -> BridgeEnd:
    return BridgeEnd(peer.url, name, address=address, kafka=peer.kafka, **more)


def target_at(peer: AmqpPeer, address: str) -> BridgeEnd:
    return end_at(peer, address, duplicate_property=peer.duplicate_property)


def send_there(peer: AmqpPeer, address: str, numbers: range, destination: Destination = ORDERS) -> None:
    """As a program does that has not moved yet."""
    told: queue.Queue[TransferOutcome] = queue.Queue()
    with closing(TransferConnection(peer.settings)) as connection:
        sending = connection.send_to(destination, address)
        for number in numbers:
            headers = encode_headers(message_id=f"ID:old:{number}", properties={}, body_kind=b"text")
            record = AmqpRecord("", None, b"joe", b"%d" % number, headers, 0)
            data = encode_transfer(record, b"text", destination, delivery_count=0, now_ms=0)
            sending.send(data, lambda outcome, _: told.put(outcome))
        assert {told.get(timeout=SOON_S) for _ in numbers} == {TransferOutcome.ACCEPTED}


def receive_there(peer: AmqpPeer, address: str, count: int) -> list[int]:
    """So many, and what comes in a moment beside them."""
    found: list[int] = []
    with closing(TransferConnection(peer.settings)) as connection:
        receiving = connection.receive_from(ORDERS, address, "", 100)
        while taken := receiving.take(100, SOON_S if len(found) < count else 0.5):
            found += [int(decode_transfer(each.data, now_ms=0).value or b"") for each in taken]
            receiving.accept(taken)
    return found


def bodies(jms: Context, queue: Queue, count: int) -> list[int]:
    """So many, and what comes beside them."""
    with jms.create_consumer(queue) as consumer:
        found = [consumer.receive(SOON_S) for _ in range(count)]
        found.append(consumer.receive(0.5))
    return [int(message.body) for message in found if message is not None]


def in_order(numbers: list[int], units: int) -> bool:
    return all(
        mine == sorted(mine) for unit in range(units) if (mine := [each for each in numbers if each % units == unit])
    )


def test_a_message_goes_to_the_server_and_back_as_it_was_sent(
    world: MemoryWorld, peer: AmqpPeer, bridged: Bridged
) -> None:
    """BRIDGE-6, of BRIDGE-2 and BRIDGE-3."""
    here, address = world.factory(), peer.new_address()
    with here.create_context() as jms:
        sent = jms.create_producer().send(
            ORDERS,
            {"books": 2},
            unit_of_order="joe",
            priority=7,
            time_to_live_ms=3_600_000,
            properties={"region": "EU", "count": 3},
            correlation_id="c-1",
            type="order",
            reply_to=Queue("answers"),
        )
        there = bridged(BridgeEnd(here, ORDERS), target_at(peer, address))
        is_dropping = peer.duplicate_property is not None
        assert there.guarantee is (Guarantee.EXACTLY_ONCE if is_dropping else Guarantee.DUPLICATES_OKAY)
        back = bridged(end_at(peer, address), BridgeEnd(here, BACK))
        assert back.guarantee is Guarantee.EXACTLY_ONCE
        found = jms.create_consumer(BACK).receive(SOON_S)
    assert found is not None, (there.health(), back.health())
    assert (found.body, found.unit_of_order, found.priority) == ({"books": 2}, "joe", 7)
    for name in ("message_id", "timestamp", "expiration", "correlation_id", "type", "reply_to"):
        assert getattr(found, name) == getattr(sent, name), name
    assert {name: found.properties[name] for name in ("region", "count")} == {"region": "EU", "count": 3}


def test_nothing_is_lost_twice_or_out_of_order_when_the_server_is_killed(
    world: MemoryWorld, peer: AmqpPeer, bridged: Bridged
) -> None:
    """BRIDGE-2, BRIDGE-5, BRIDGE-8: into Kafka once, whatever the server knows of acknowledgements."""
    here, address, count, units = world.factory(), peer.new_address(), 1_000, 7
    out = bridged(BridgeEnd(here, ORDERS), target_at(peer, address), in_flight=50)
    with here.create_context() as jms:
        producer = jms.create_producer()
        for number in range(count):
            producer.send(ORDERS, str(number), unit_of_order=f"u{number % units}")
        wait_until(lambda: out.statistics().arrived >= count // 3, about="some", timeout_s=SOON_S)
        peer.kill()
        peer.start()
        wait_until(lambda: out.statistics().arrived == count, about="all there", timeout_s=2 * SOON_S)
        back = bridged(end_at(peer, address), BridgeEnd(here, BACK), in_flight=50)
        wait_until(lambda: back.statistics().arrived >= count // 3, about="some back", timeout_s=SOON_S)
        peer.kill()
        peer.start()
        numbers = bodies(jms, BACK, count)
        while len(set(numbers)) < count and (more := bodies(jms, BACK, count - len(set(numbers)))):
            numbers += more  # what a server that knows no duplicates had twice comes twice
    first = list(dict.fromkeys(numbers))
    assert sorted(first) == list(range(count))
    assert in_order(first, units)
    if peer.duplicate_property is not None:
        assert numbers == first


def test_what_was_not_sent_yet_waits_while_the_server_is_away(
    world: MemoryWorld, peer: AmqpPeer, bridged: Bridged
) -> None:
    """BRIDGE-8."""
    here, address = world.factory(), peer.new_address()
    peer.kill()
    try:
        out = bridged(BridgeEnd(here, ORDERS), target_at(peer, address))
        with here.create_context() as jms:
            jms.create_producer().send(ORDERS, "1")
            wait_until(lambda: out.statistics().failures > 0, about="it was tried", timeout_s=SOON_S)
            assert "nobody answers" in out.health().reasons[0]
    finally:
        peer.start()
    back = bridged(end_at(peer, address), BridgeEnd(here, BACK))
    with here.create_context() as jms:
        assert bodies(jms, BACK, 1) == [1], back.health()


def test_a_selector_that_the_server_does_not_serve_stops_the_bridge(
    world: MemoryWorld, peer: AmqpPeer, bridged: Bridged
) -> None:
    """Of BRIDGE-2: RabbitMQ says that it serves it, and sends everything."""
    here, address = world.factory(), peer.new_address()
    with here.create_context() as jms:
        for number, region in enumerate(("EU", "US")):
            jms.create_producer().send(ORDERS, str(number), properties={"region": region})
        out = bridged(BridgeEnd(here, ORDERS), target_at(peer, address))
        wait_until(lambda: out.statistics().arrived == 2, about="there", timeout_s=SOON_S)
        back = bridged(end_at(peer, address), BridgeEnd(here, BACK), selector="region = 'US'")
        if peer.name == "artemis":
            assert bodies(jms, BACK, 1) == [1]
        else:
            wait_until(lambda: back.statistics().failures > 0, about="it was seen", timeout_s=SOON_S)
            assert "does not serve selectors" in back.health().reasons[0]
            assert jms.create_consumer(BACK).receive(0.5) is None


def test_a_topic_is_received_by_a_subscription_that_the_server_keeps(
    world: MemoryWorld, peer: AmqpPeer, bridged: Bridged
) -> None:
    """Of BRIDGE-2: also what came while the bridge did not run; a server that keeps none loses that, and is refused."""
    here, prices = world.factory(), Topic("prices")
    address = peer.new_address() if peer.name == "artemis" else "/exchange/amq.topic/prices"
    source = BridgeEnd(peer.url, prices, address=address, kafka=peer.kafka)
    bridge = bridged(source, BridgeEnd(here, BACK))
    if peer.name != "artemis":
        wait_until(lambda: bridge.statistics().failures > 0, about="it was tried", timeout_s=SOON_S)
        assert "does not say that it keeps subscriptions" in bridge.health().reasons[0]
        return
    wait_until(lambda: bridge.trouble is None, about="it receives", timeout_s=SOON_S)
    with here.create_context() as jms:
        send_there(peer, address, range(5), prices)
        assert bodies(jms, BACK, 5) == list(range(5)), bridge.health()
        wait_until(lambda: bridge.statistics().arrived == 5, about="settled", timeout_s=SOON_S)
        assert bridge.stop()
        send_there(peer, address, range(5, 10), prices)
        peer.kill()
        peer.start()
        bridged(source, BridgeEnd(here, BACK))
        assert bodies(jms, BACK, 5) == list(range(5, 10))


def test_a_queue_moves_in_and_back_again(world: MemoryWorld, peer: AmqpPeer, bridged: Bridged) -> None:
    """The steps of docs/moving-in.md; each message of the unit is received once, in order."""
    here, address = world.factory(), peer.new_address()
    with here.create_context() as jms:
        producer = jms.create_producer()
        send_there(peer, address, range(10))
        coming = bridged(end_at(peer, address), BridgeEnd(here, ORDERS))
        assert bodies(jms, ORDERS, 10) == list(range(10))
        send_there(peer, address, range(10, 20))
        assert bodies(jms, ORDERS, 10) == list(range(10, 20))
        for number in range(20, 30):
            producer.send(ORDERS, str(number), unit_of_order="joe")
        assert bodies(jms, ORDERS, 10) == list(range(20, 30))
    with here.create_context() as jms:  # and now back
        send_there(peer, address, range(30, 35))
        wait_until(lambda: coming.statistics().arrived == 25, about="what came last", timeout_s=SOON_S)
        assert coming.stop()
        jms.create_producer().send(ORDERS, "35", unit_of_order="joe")
        going = bridged(BridgeEnd(here, ORDERS), end_at(peer, address, HOME))
        wait_until(lambda: going.statistics().arrived == 6, about="what goes home", timeout_s=SOON_S)
        assert going.stop()
        assert going.health(None).is_alive is False
    assert receive_there(peer, address, 6) == list(range(30, 36))
