"""What is settled leaves the log of a real cluster."""

from __future__ import annotations

import secrets

import pytest

from jbm_kafka import AcknowledgeMode, AddressSettings, ConnectionFactory, Queue
from jbm_kafka.admin import Admin
from jbm_kafka.ports import Kafka
from tests.conftest import MakeTopic
from tests.kafka.world import RealWorld
from tests.support.waiting import wait_until

WAIT_S = 20.0


def test_credentials_without_limits_see_all_groups(kafka: Kafka) -> None:
    """Of LOG-4: a broker without access rules says so."""
    assert kafka.admin().sees_all_groups()


@pytest.mark.thorough  # a look is twenty seconds away
@pytest.mark.timeout(120)
def test_what_is_settled_is_deleted_and_what_is_held_comes_again(bootstrap: str, kafka_name: str) -> None:
    """Of LOG-4."""
    rules = {kafka_name: AddressSettings(truncate="settled", partitions=1)}
    queue = Queue(kafka_name)
    with ConnectionFactory(bootstrap, address_settings=rules).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        for number in range(10):
            producer.send(str(number))
        for _ in range(10):
            message = consumer.receive(timeout=WAIT_S)
            assert message is not None
            if message.body != "7":
                message.acknowledge()
        admin = RealWorld(bootstrap).kafka().admin()
        wait_until(lambda: admin.begin_positions(kafka_name, [0])[0] == 7 or None, about="the log", timeout_s=60)
        row = connection.statistics().of(kafka_name)
        assert (row.log_records, row.log_deletable, row.log_for_receivers, row.log_for_groups) == (3, 0, 3, 0)
    with ConnectionFactory(bootstrap, address_settings=rules).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        again = session.create_consumer(queue).receive(timeout=WAIT_S)
        assert again is not None
        assert again.body == "7"
        again.acknowledge()


@pytest.mark.thorough
def test_the_original_of_a_letter_without_its_body_stays(
    bootstrap: str, kafka_name: str, make_topic: MakeTopic
) -> None:
    """REDELIVER-4: everything else is settled and deleted; the letter is sent again with its body."""
    letters = make_topic(".letters", partitions=1, config={"max.message.bytes": "2000"})
    rules = {kafka_name: AddressSettings(partitions=1, dead_letter_address=letters)}
    queue = Queue(kafka_name)
    large = secrets.token_hex(5_000)  # nothing makes it smaller
    with ConnectionFactory(bootstrap, address_settings=rules).create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.INDIVIDUAL)
        producer, consumer = session.create_producer(queue), session.create_consumer(queue)
        for number in range(10):
            producer.send(large if number == 3 else str(number))
        for number in range(10):
            message = consumer.receive(timeout=WAIT_S)
            assert message is not None
            if number == 3:
                message.reject("no such customer")
            else:
                message.acknowledge()
        with Admin(bootstrap) as admin:
            wait_until(lambda: admin.counts(kafka_name).held == 0 or None, about="all settled", timeout_s=WAIT_S)
            (kept,) = admin.truncate(kafka_name).partitions
            assert (kept.needed_from, kept.end) == (3, 10)
            assert kept.needed_by[0].startswith("reader letter|")
            assert len(admin.retry_dead_letters(letters).letters) == 1
        again = consumer.receive(timeout=WAIT_S)
        assert again is not None
        assert again.body == large
        again.acknowledge()
