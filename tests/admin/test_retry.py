"""A retry carried out, in memory: what it sends, what it leaves as it was, and what a broker refuses."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, Queue
from jbm_kafka.admin.dead_letters.letters import DeadLetter, LetterFilter, letter_of
from jbm_kafka.admin.dead_letters.retry import LetterRetry, carry_out
from jbm_kafka.admin.dead_letters.retry_plan import RetryPlanner, passed_over
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import KafkaRecord, Outgoing
from jbm_kafka.testing.memory_world import MemoryWorld

ORDERS, DLQ = Queue("orders"), Queue("DLQ")
TIMEOUT_S = 0.2


class Shop:
    """One process that gives everything up, and whoever retries."""

    def __init__(self, world: MemoryWorld) -> None:
        self.world = world
        self.cluster = world._world.cluster
        once = {"orders": AddressSettings(max_delivery_attempts=1)}
        self.factory = world.factory(address_settings={"#": AddressSettings(partitions=2), **once})

    def give_up(self, *rows: tuple[str, str]) -> None:
        """Messages of units, sent and refused."""
        with self.factory.create_connection() as connection:
            sending = connection.create_session().create_producer(ORDERS)
            for unit, body in rows:
                sending.send(body, unit_of_order=unit)
            refusing = connection.create_session(AcknowledgeMode.INDIVIDUAL).create_consumer(ORDERS)
            for _ in rows:
                message = refusing.receive(10.0)
                assert message is not None
                message.nack()
            self.world.wait_idle()

    def records(self) -> Iterator[KafkaRecord]:
        kafka = MemoryKafka(self.cluster)
        for partition, end in kafka.admin().end_positions("DLQ", [0, 1], stable=True).items():
            yield from kafka.log_reader().read("DLQ", {partition: (0, end)}, timeout_s=1)

    def retry(
        self,
        wanted: LetterFilter | None = None,
        *,
        meanwhile: Callable[[], object] = lambda: None,
        rate: float | None = None,
    ) -> LetterRetry:
        kafka = MemoryKafka(self.cluster)
        connection = self.factory.create_connection()
        planner = RetryPlanner(
            DLQ,
            admin=kafka.admin(),
            reader=kafka.log_reader(),
            info_of=connection._core.provider.ensure,
            subscriptions_of=lambda _: [],
            namespace="",
        )
        plan = planner.plan(self.records(), wanted or LetterFilter(), None)
        assert not plan.kept
        meanwhile()
        return carry_out(connection, DLQ, plan.letters, planner.outgoing, TIMEOUT_S, rate)

    def received(self, queue: Queue) -> list[tuple[str | None, object, int, bool]]:
        """(unit, body, delivery count, redelivered) of what is in a queue."""
        found: list[tuple[str | None, object, int, bool]] = []
        with self.factory.create_connection() as connection:
            consumer = connection.create_session().create_consumer(queue)
            while (message := consumer.receive(TIMEOUT_S)) is not None:
                found.append((message.unit_of_order, message.body, message.delivery_count, message.redelivered))
        return found


@pytest.fixture
def shop() -> Iterator[Shop]:
    with MemoryWorld() as world:
        yield Shop(world)


def test_letters_are_sent_and_those_in_front_of_them_are_as_they_were(shop: Shop) -> None:
    """Of REDELIVER-9: not counted, not marked, in their order."""
    shop.give_up(("joe", "1"), ("ann", "1"), ("joe", "2"), ("joe", "3"), ("ann", "2"))
    done = shop.retry(LetterFilter(unit="ann"))
    assert (len(done.sent), done.kept, done.wanted) == (2, [], {})
    assert shop.received(ORDERS) == [("ann", "1", 1, False), ("ann", "2", 1, False)]
    assert shop.received(DLQ) == [("joe", str(number), 1, False) for number in (1, 2, 3)]


def test_letters_are_chosen_by_their_places_and_sent_at_a_rate(shop: Shop) -> None:
    """Of REDELIVER-9: two at once, and two a second later."""
    shop.give_up(*(("joe", str(number)) for number in range(6)))
    letters = [letter_of(record) for record in shop.records()]
    wanted = LetterFilter(places=frozenset(letter.place for letter in letters[:4]))
    begun_at = time.monotonic()
    done = shop.retry(wanted, rate=2.0)
    assert time.monotonic() - begun_at >= 1.0
    assert [letter.place for letter in done.sent] == [letter.place for letter in letters[:4]]
    assert [body for _, body, *_ in shop.received(ORDERS)] == ["0", "1", "2", "3"]
    assert [body for _, body, *_ in shop.received(DLQ)] == ["4", "5"]


def test_a_letter_that_the_brokers_refuse_keeps_no_other(shop: Shop) -> None:
    """Its batch was rolled back whole, again and again, and nothing was sent."""
    shop.give_up(*(("joe", str(number)) for number in range(20)))

    def refuse_one() -> None:
        shop.cluster.faults.refuse = lambda record: "Not today" if _is(record, b"7") else None

    done = shop.retry(meanwhile=refuse_one)
    assert [(row.letter.unit, "Not today" in row.why) for row in done.kept] == [("joe", True)]
    assert [body for _, body, *_ in shop.received(ORDERS)] == [str(number) for number in range(20) if number != 7]
    assert shop.received(DLQ) == [("joe", "7", 1, False)]
    (warning,) = passed_over(DLQ, done.sent, [row.letter for row in done.kept])
    assert warning.startswith("unit 'joe': earlier letters stay in DLQ while later ones are sent")


def _is(record: Outgoing, body: bytes) -> bool:
    return record.topic == "orders" and record.value == body


def test_what_another_took_meanwhile_is_left_to_it(shop: Shop) -> None:
    """It waited for letters that are not there any more, or sent them a second time."""
    shop.give_up(("joe", "1"), ("ann", "1"))
    done = shop.retry(meanwhile=lambda: shop.received(DLQ))
    assert (done.sent, len(done.wanted)) == ([], 2)
    assert shop.received(ORDERS) == []


def test_a_retry_that_is_interrupted_leaves_letters_as_they_were(shop: Shop) -> None:
    """Of REDELIVER-9: Ctrl-C counted an attempt of what it had taken and not sent."""
    shop.give_up(*(("joe", str(number)) for number in range(4)))
    letters = [letter_of(record) for record in shop.records()]

    def interrupted(letter: DeadLetter, record: KafkaRecord) -> Outgoing:
        if record.value() == b"2":
            raise KeyboardInterrupt
        return Outgoing("orders", 0, None, None)

    with pytest.raises(KeyboardInterrupt):
        carry_out(shop.factory.create_connection(), DLQ, letters, interrupted, TIMEOUT_S, None)
    assert shop.received(ORDERS) == []
    assert shop.received(DLQ) == [("joe", str(number), 1, False) for number in range(4)]


def test_what_dies_again_meanwhile_is_left_for_another_time(shop: Shop) -> None:
    """A retry beside a handler that is not mended went round for ever."""
    shop.give_up(("joe", "1"))
    done = shop.retry(meanwhile=lambda: shop.give_up(("ann", "later")))
    assert [letter.unit for letter in done.sent] == ["joe"]
    assert [body for _, body, *_ in shop.received(DLQ)] == ["later"]
