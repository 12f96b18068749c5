"""Bridges from a server of AMQP, here our own in memory: what they say of messages, and which ids they know."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from jbm_kafka import AddressSettings, Context, Queue, Topic
from jbm_kafka.amqp_client.amqp_records import AmqpRecord
from jbm_kafka.amqp_client.client_settings import ClientSettings
from jbm_kafka.amqp_client.remote_sender import AmqpSendFault
from jbm_kafka.amqp_client.transfer_connection import TransferConnection
from jbm_kafka.amqp_client.transfer_receiver import Arrived
from jbm_kafka.bridge import BridgeEnd
from jbm_kafka.bridge.amqp_source import AmqpSource
from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import checked_bridge
from jbm_kafka.bridge.sides import BridgeTarget
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.codec.scan import MESSAGE_ID_HEADER
from jbm_kafka.errors import InvalidDestinationError, JMSError, JMSSecurityError, ResourceAllocationError
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.bridge.conftest import Bridged
from tests.support.amqp_server import amqp_server
from tests.support.waiting import wait_until

IN, OUT, LETTERS = Queue("in"), Queue("out"), Queue("DLQ")
SOON_S = 10.0
SETTINGS = {"#": AddressSettings(dead_letter_address="DLQ")}


@pytest.fixture
def server(elsewhere: MemoryWorld) -> Iterator[str]:
    with amqp_server(elsewhere.url.removeprefix("memory://"), SETTINGS) as url:
        yield url


def settings_of(server: str) -> ClientSettings:
    return ClientSettings(server, (("127.0.0.1", int(server.rpartition(":")[2])),), "", "", "", None, False)


def bodies(jms: Context, queue: Queue, count: int) -> list[str]:
    """So many, and what comes beside them."""
    consumer = jms.create_consumer(queue)
    found = [consumer.receive(SOON_S) for _ in range(count)]
    found.append(consumer.receive(0.3))
    return [str(message.body) for message in found if message is not None]


def test_what_came_in_an_earlier_run_is_known_and_two_of_one_run_are_two(
    world: MemoryWorld, server: str, bridged: Bridged
) -> None:
    """Of BRIDGE-2: a server gives none twice over one connection, so the second one is another; and confirms none, so
    over the next one it may give again what came.
    """
    ends = BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT)
    headers = encode_headers(message_id="ID:same", properties={}, body_kind=b"text")
    data = encode_transfer(AmqpRecord("", None, None, b"x", headers, 0), b"text", IN, delivery_count=0, now_ms=0)
    with closing(TransferConnection(settings_of(server))) as connection, world.factory().create_context() as here:
        sending = connection.send_to(IN, IN.name)
        for came_again in (0, 1):
            bridge = bridged(*ends, in_flight=1)
            for _ in range(2):
                sending.send(data, lambda outcome, why: None)
            assert bodies(here, OUT, 2 - came_again) == ["x"] * (2 - came_again), bridge.health()
            assert bridge.statistics().came_again == came_again
            assert bridge.stop()


@pytest.mark.parametrize("guarantee", [None, "duplicates-okay", "at-most-once"])
def test_all_arrive_and_units_are_in_order(
    world: MemoryWorld, elsewhere: MemoryWorld, server: str, bridged: Bridged, guarantee: str | None
) -> None:
    """BRIDGE-2, BRIDGE-3, BRIDGE-4, BRIDGE-5."""
    with elsewhere.factory().create_context() as there, world.factory().create_context() as here:
        producer = there.create_producer()
        for number in range(30):
            producer.send(IN, str(number), unit_of_order=f"u{number % 3}")
        bridge = bridged(BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT), guarantee=guarantee, in_flight=10)
        numbers = [int(body) for body in bodies(here, OUT, 30)]
        assert sorted(numbers) == list(range(30)), bridge.health()
        for unit in range(3):
            mine = [number for number in numbers if number % 3 == unit]
            assert mine == sorted(mine)
        wait_until(lambda: bridge.statistics().arrived == 30, about="counted", timeout_s=SOON_S)
        assert bridge.stop()
        assert bodies(there, IN, 0) == []


def test_one_of_a_unit_is_given_until_it_has_arrived(world: MemoryWorld, server: str) -> None:
    """BRIDGE-5: whatever the server gives; ours gives one at a time by itself."""
    spec = checked_bridge("across", BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT), guarantee="duplicates-okay")
    headers = encode_headers(message_id="ID:1", properties={}, body_kind=b"text")
    record = AmqpRecord("", None, b"joe", b"x", headers, 0)
    data = encode_transfer(record, b"text", IN, delivery_count=0, now_ms=0)
    with closing(TransferConnection(settings_of(server))) as connection:
        connection.send_to(IN, IN.name).send(data, lambda outcome, why: None)
        with closing(AmqpSource(spec, LaneCounts(), is_one_by_one=True)) as source:
            first = wait_until(lambda: source.receive(waits=True), about="the first", timeout_s=SOON_S)
            source._arrive(Arrived(None, data))
            assert source.receive(waits=False) is None
            source.acknowledge(first)
            assert source.receive(waits=False) is not None


def test_two_messages_without_an_id_are_no_duplicates_of_each_other(world: MemoryWorld, server: str) -> None:
    """BRIDGE-3: their numbers, which begin anew with each connection, were their ids, and a target that drops
    duplicates dropped what came after a restart."""
    headers = encode_headers(message_id=None, properties={}, body_kind=b"text")
    data = encode_transfer(AmqpRecord("", None, None, b"x", headers, 0), b"text", IN, delivery_count=0, now_ms=0)
    with amqp_server(world.url.removeprefix("memory://")) as url:
        target = BridgeEnd(url, OUT, duplicate_property="dup")
        spec = checked_bridge("across", BridgeEnd(server, IN), target)
        with target.factory.create_connection() as there, closing(AmqpSource(spec, LaneCounts())) as source:
            source._arrive(Arrived(None, data))
            message = source.receive(waits=False)
            assert message is not None
            record, _ = BridgeTarget(there, None, spec).record(message)
    assert [name for name, _ in record.headers if "dup" in name or name == MESSAGE_ID_HEADER] == []


def test_a_source_that_is_closed_already_is_closed_once_more_without_an_error(world: MemoryWorld, server: str) -> None:
    """Of BRIDGE-8: where at-most-once did not get it again, closing it the second time was told as an error of ours."""
    ends = BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT)
    source = AmqpSource(checked_bridge("across", *ends, guarantee="at-most-once"), LaneCounts(), accepts_first=True)
    source.close()
    source.close()


def test_what_can_never_be_sent_is_the_servers_dead_letter(
    world: MemoryWorld, elsewhere: MemoryWorld, server: str, bridged: Bridged
) -> None:
    """BRIDGE-7."""
    with elsewhere.factory(address_settings=SETTINGS).create_context() as there:
        place = BridgeEnd(world.factory(), OUT).place
        there.create_producer().send(IN, "round", properties={"JBM_BRIDGED": place})
        bridge = bridged(BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT))
        assert bodies(there, LETTERS, 1) == ["round"], bridge.health()
        assert bridge.statistics().refused == 1


def test_a_message_larger_than_the_server_takes_is_a_dead_letter_and_no_other_is(
    world: MemoryWorld, elsewhere: MemoryWorld, bridged: Bridged
) -> None:
    """BRIDGE-3, BRIDGE-7: the server ended the link for it, and all that was under way became dead letters."""
    address = elsewhere.url.removeprefix("memory://")
    here = world.factory(address_settings=SETTINGS)
    with (
        amqp_server(address, message_bytes=20_000) as server,
        here.create_context() as jms,
        elsewhere.factory().create_context() as there,
    ):
        producer = jms.create_producer()
        for number in range(20):
            producer.send(IN, "x" * 30_000 if number == 7 else str(number), unit_of_order=f"u{number}")
        bridge = bridged(BridgeEnd(here, IN), BridgeEnd(server, OUT))
        assert sorted(map(int, bodies(there, OUT, 19))) == [number for number in range(20) if number != 7]
        assert bodies(jms, LETTERS, 1) == ["x" * 30_000]
        assert (bridge.statistics().refused, bridge.statistics().failures) == (1, 0)


def test_a_topic_is_received_by_a_subscription_that_lasts(
    world: MemoryWorld, elsewhere: MemoryWorld, server: str, bridged: Bridged
) -> None:
    """Of BRIDGE-2: what came while the bridge did not run, too."""
    with elsewhere.factory().create_context() as there, world.factory().create_context() as here:
        source, producer = BridgeEnd(server, Topic("prices"), subscription="audit"), there.create_producer()
        bridge = bridged(source, BridgeEnd(world.factory(), OUT))
        wait_until(lambda: bridge.trouble is None, about="it receives", timeout_s=SOON_S)
        producer.send(Topic("prices"), "1.20")
        assert bodies(here, OUT, 1) == ["1.20"], bridge.health()
        assert bridge.stop()
        producer.send(Topic("prices"), "1.30")
        bridge = bridged(source, BridgeEnd(world.factory(), OUT))
        assert bodies(here, OUT, 1) == ["1.30"], bridge.health()


@pytest.mark.parametrize(
    ("rule", "arrives"),
    [
        ("keep", (None, b"/queue/answers")),
        ("drop", (None, None)),
        ({"/queue/answers": "answers"}, (Queue("answers"), None)),
        ({"/queue/answers": ""}, (None, None)),
        ({"/queue/others": "answers"}, (None, b"/queue/answers")),
    ],
)
def test_answers_to_an_address_that_is_no_name_of_ours_go_where_the_rule_says(
    world: MemoryWorld, elsewhere: MemoryWorld, server: str, bridged: Bridged, rule: str | dict[str, str],
    arrives: tuple[Queue | None, bytes | None],
) -> None:  # fmt: skip
    """BRIDGE-6: they were kept, whatever the rule was, and could not be mapped."""
    headers = [
        *encode_headers(message_id="ID:1", properties={}, body_kind=b"text"),
        ("amqp.reply-to", b"/queue/answers"),
    ]
    data = encode_transfer(AmqpRecord("", None, None, b"x", headers, 0), b"text", IN, delivery_count=0, now_ms=0)
    with closing(TransferConnection(settings_of(server))) as connection, world.factory().create_context() as here:
        connection.send_to(IN, IN.name).send(data, lambda outcome, reason: None)
        bridged(BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT), reply_to=rule)
        found = here.create_consumer(OUT).receive(SOON_S)
    assert found is not None
    assert found._record is not None
    assert (found.reply_to, dict(found._record.headers() or ()).get("amqp.reply-to")) == arrives


def test_no_more_go_than_the_rate_says(
    world: MemoryWorld, elsewhere: MemoryWorld, server: str, bridged: Bridged
) -> None:
    """BRIDGE-8."""
    with elsewhere.factory().create_context() as there, world.factory().create_context() as here:
        producer = there.create_producer()
        for number in range(9):
            producer.send(IN, str(number))
        bridged(BridgeEnd(server, IN), BridgeEnd(world.factory(), OUT), rate="1/h")
        assert bodies(here, OUT, 1) == ["0"]


def test_large_messages_do_not_all_come_at_a_time(elsewhere: MemoryWorld, server: str) -> None:
    """Of BRIDGE-8: what is in hand is bounded in bytes, too."""
    with elsewhere.factory().create_context() as there:
        producer = there.create_producer()
        for number in range(60):
            producer.send(IN, b"x" * (10_000 if number < 30 else 10))
    with closing(TransferConnection(settings_of(server))) as connection:
        receiving = connection.receive_from(IN, IN.name, "", 500, 100_000)
        first: list[Arrived] = []
        while taken := receiving.take(500, 0.5):
            first += taken
        assert 1 <= len(first) <= 16
        receiving.accept(first)
        count = len(first)
        while count < 60:
            taken = receiving.take(500, SOON_S)
            assert taken, count
            assert len(taken) <= 100
            receiving.accept(taken)
            count += len(taken)


def test_a_rejection_is_the_messages_fault_but_for_room_rights_and_address() -> None:
    """Of BRIDGE-3: what is not waited for becomes a dead letter."""
    assert AmqpSendFault(JMSError("not like this"), is_for_good=True).is_for_good
    assert not AmqpSendFault(JMSError("released"), is_for_good=False).is_for_good
    for kind in (ResourceAllocationError, JMSSecurityError, InvalidDestinationError):
        assert not AmqpSendFault(kind("of now"), is_for_good=True).is_for_good
