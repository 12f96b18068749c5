"""What only the owner of a partition knows, each rule as `explain` tells it: over one world in memory, end to end."""

from __future__ import annotations

import re
import threading
from contextlib import suppress

import pytest

from jbm_kafka import AcknowledgeMode, ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Explanation, Rule
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.session import Session
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import Unreachable
from tests.admin.owners.brokers import Brokers
from tests.admin.test_explain import has_rule, only, rules, until
from tests.jms.support import receive

MANY = 26_000
"""More than an owner reads ahead of its receivers, with what it reads at once."""


def of_partition(found: Explanation) -> list[Rule]:
    return [reason.rule for partition in found.partitions for reason in partition.reasons]


def test_what_a_commit_settles_whose_end_is_not_known(
    admin: Admin, connection: Connection, orders: Queue, cluster: MemoryCluster
) -> None:
    """UNIT-17: of decision 39, IN_DOUBT: in nobody's hand any more, and not finished."""
    session = connection.create_session(AcknowledgeMode.TRANSACTED)
    connection.create_session().create_producer(orders).send("1", unit_of_order="joe")
    receive(session.create_consumer(orders))
    with Brokers(cluster):
        committing = threading.Thread(target=session.commit)
        committing.start()
        found = only(until(lambda: admin.explain(orders, unit="joe"), has_rule(Rule.IN_DOUBT)))
        assert rules(found) == [Rule.IN_DOUBT]
    committing.join()
    until(lambda: admin.explain(orders, unit="joe"), lambda found: not found.messages)


def test_what_waits_for_the_checkpoint_that_records_its_hand_over(
    admin: Admin, connection: Connection, orders: Queue, cluster: MemoryCluster
) -> None:
    """UNIT-17: of decision 39, RECORDING: a receiver asks, nothing else keeps it."""
    session, came = connection.create_session(AcknowledgeMode.AUTO), threading.Event()
    session.create_producer(orders).send("1", unit_of_order="joe")
    with Brokers(cluster):
        session.create_consumer(orders).set_listener(lambda message: came.set())
        until(lambda: admin.explain(orders, unit="joe"), has_rule(Rule.RECORDING))
        assert not came.is_set()
    assert came.wait(20)


def test_what_lies_behind_what_its_owner_has_read(admin: Admin, connection: Connection, orders: Queue) -> None:
    """UNIT-17: of decision 39, NOT_READ: how far it has read."""
    session = connection.create_session(AcknowledgeMode.CLIENT)
    producer = session.create_producer(orders)
    consumer = session.create_consumer(orders, prefetch=1)
    for _ in range(MANY):
        last = session.create_text_message("x")
        producer.send(last)
    receive(consumer)
    found = until(
        lambda: admin.explain(orders, message_id=last.message_id),
        lambda found: of_partition(found) == [Rule.NOT_READ],
    )
    assert rules(only(found)) == [Rule.NOT_READ]
    assert re.search(r" offset \d+$", only(found).reasons[0].text)


def test_who_has_a_message_in_hand_is_known_while_partitions_move(
    admin: Admin, connection: Connection, kafka_name: str, url: str, tmp_path: object
) -> None:
    """UNIT-17, UNIT-13: of decision 39, MOVING: the group lists nobody for such a partition, and "no process has it"
    was said for 30 s."""
    admin.create_queue(f"{kafka_name}-two", partitions=2)
    queue = Queue(f"{kafka_name}-two")
    session = connection.create_session(AcknowledgeMode.CLIENT)
    producer, consumer = session.create_producer(queue), session.create_consumer(queue)
    for unit in "abcdefgh":
        producer.send(unit, unit_of_order=unit)
    for _ in "abcdefgh":
        receive(consumer)
    with ConnectionFactory(url, namespace=kafka_name, state_dir=str(tmp_path)).create_connection() as coming:
        joining = threading.Thread(target=coming.create_session().create_consumer, args=(queue,))
        joining.start()
        (going,) = until(lambda: admin.counts(queue), lambda counts: counts.without_owner).without_owner
        found = admin.explain(queue)
        assert [rules(each) for each in found.messages] == [[Rule.IN_HAND]] * 8
        (partition,) = (each for each in found.partitions if each.partition == going)
        assert [each.rule for each in partition.reasons] == [Rule.MOVING]
        assert partition.owner.startswith("process ")
        assert [each.state for each in admin.browse(queue, include="all")] == [MessageState.DELIVERED] * 8
        assert admin.counts(queue).without_owner == (going,), "it was not asked meanwhile"
        session.recover()
        joining.join(20)
        until(lambda: admin.explain(queue), lambda found: Rule.MOVING not in of_partition(found))


@pytest.fixture
def with_changelog(url: str, kafka_name: str, orders: Queue, cluster: MemoryCluster) -> Queue:
    """The queue, which another process has received from."""
    with ConnectionFactory(url, namespace=kafka_name, state_dir="another").create_context() as before:
        before.create_producer().send(orders, "0")
        receive(before.create_consumer(orders))
    with ConnectionFactory(url, namespace=kafka_name, state_dir="another").create_context() as before:
        before.create_producer().send(orders, "1", unit_of_order="joe")
    return orders


def is_recovering() -> bool:
    """An owner's own reading of what is recorded asks, and nobody else's."""
    return threading.current_thread().name.startswith("jbm-recovery")


def test_a_partition_whose_owner_reads_what_is_recorded_of_it(
    admin: Admin, connection: Connection, with_changelog: Queue, cluster: MemoryCluster
) -> None:
    """UNIT-17: of decision 39, OPENING: it does not come to the end of its changelog."""

    def silent(topic: str, partition: int, offset: int) -> bool:
        if is_recovering():
            raise Unreachable(f"{topic}[{partition}]: no answer")
        return False

    cluster.faults.damaged = silent
    session = connection.create_session(AcknowledgeMode.AUTO)
    opening = threading.Thread(target=session.create_consumer, args=(with_changelog,))  # it waits for its partitions
    opening.start()
    found = until(lambda: admin.explain(with_changelog), lambda found: Rule.OPENING in of_partition(found))
    assert rules(only(found)) == [Rule.OPENING]
    cluster.faults.damaged = None
    opening.join(20)
    until(lambda: admin.explain(with_changelog), lambda found: Rule.OPENING not in of_partition(found))


def test_a_partition_that_its_owner_cannot_read(
    admin: Admin, connection: Connection, with_changelog: Queue, cluster: MemoryCluster
) -> None:
    """UNIT-17: of decision 39, CLOSED: with what its owner's log says."""
    cluster.faults.damaged = lambda topic, partition, offset: is_recovering()
    session = connection.create_session(AcknowledgeMode.AUTO)
    opening = threading.Thread(target=_consumer_of, args=(session, with_changelog))
    opening.start()
    found = until(lambda: admin.explain(with_changelog), lambda found: Rule.CLOSED in of_partition(found))
    (reason,) = only(found).reasons
    assert reason.rule is Rule.CLOSED
    assert "what is stored there cannot be read" in reason.text
    assert reason.remedy == "see the log of that process"
    assert of_partition(found) == [Rule.CLOSED]
    opening.join(20)


def _consumer_of(session: Session, queue: Queue) -> None:
    with suppress(JMSError):  # it may be told, too
        session.create_consumer(queue)
