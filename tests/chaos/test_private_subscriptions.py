"""Private subscriptions over a broker that is killed and comes back: nothing is lost while the process lives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Topic
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.sidecar.private import private_subscriptions

PRICES = Topic("prices")
UNITS, EACH = 4, 150
COME_S = 90.0
EXPECTED = {f"u{unit}": list(range(EACH)) for unit in range(UNITS)}

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(300)
def test_nothing_is_lost_while_the_broker_is_away(
    dedicated_broker: Callable[[], LocalBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """TOPIC-1, and of CONN-3: nor by one that is slow and reads from the log what its memory has no room for."""
    monkeypatch.setattr(private_subscriptions, "KEPT_BYTES_MIN", 20_000)
    monkeypatch.setattr(private_subscriptions, "KEPT_BYTES_MAX", 20_000)
    broker = dedicated_broker()
    with ConnectionFactory(broker.bootstrap).create_connection() as connection, ThreadPoolExecutor() as side_by_side:
        sessions = [connection.create_session(AcknowledgeMode.AUTO) for _ in range(3)]
        fast, slow, idle = [session.create_consumer(PRICES, prefetch=10) for session in sessions]
        producer = connection.create_session().create_producer(PRICES)
        send_all(producer.send, range(EACH // 3))
        received = side_by_side.submit(by_unit, fast)
        assert slow.receive_body(str, COME_S) == "0"
        broker.kill()
        sent = side_by_side.submit(send_all, producer.send, range(EACH // 3, EACH))
        broker.start()
        sent.result(COME_S)
        assert received.result(COME_S) == EXPECTED
        found = by_unit(slow, UNITS * EACH - 1)
        assert {unit: numbers[-1] for unit, numbers in found.items()} == dict.fromkeys(EXPECTED, EACH - 1)
        assert sum(map(len, found.values())) == UNITS * EACH - 1
        assert all(numbers == sorted(numbers) for numbers in found.values())
        assert by_unit(idle) == EXPECTED


def send_all(send: Callable[..., object], numbers: range) -> None:
    for number in numbers:
        for unit in EXPECTED:
            send(str(number), unit_of_order=unit)


def by_unit(consumer: MessageConsumer, count: int = UNITS * EACH) -> dict[str, list[int]]:
    found: defaultdict[str, list[int]] = defaultdict(list)
    for _ in range(count):
        message = consumer.receive(COME_S)
        assert message is not None, {unit: len(numbers) for unit, numbers in found.items()}
        found[message.unit_of_order or ""].append(int(str(message.body)))
    return dict(found)
