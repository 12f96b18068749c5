"""Spark writes no queue of which units keep a partition by a path, or get one: it would not hear of changes in time."""

import pytest

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin, PathsEnded
from jbm_kafka.core.murmur2 import partition_for
from jbm_kafka.errors import OrderError
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.registry.registry import Registry
from jbm_spark.target import target
from tests.jms.support import receive
from tests.spark.conftest import Topics

JOE = next(name for n in range(99) if partition_for((name := f"u{n}").encode(), 1) != partition_for(name.encode(), 4))
"""A unit that three more partitions would move."""


def begin_admission(bootstrap: str, queue: str) -> None:
    """As a run of admit-partitions leaves it that is killed while it waits."""
    kafka = ConfluentKafka(bootstrap)
    admin = kafka.admin()
    registry = Registry(kafka, admin, "jbm.registry")
    registry.refresh()
    topic_id = admin.describe([queue])[queue].topic_id
    registry.places.change(queue, topic_id, lambda places: places.admitting(4, "killed"))
    registry.close()
    admin.close()


def test_a_queue_of_which_units_have_paths_is_refused_until_they_have_ended(topics: Topics) -> None:
    """Of UNIT-11: while they are admitted and afterwards; the text names both commands. Every batch looks first."""
    queue = topics.create()
    with Admin(topics.bootstrap) as admin, ConnectionFactory(topics.bootstrap).create_context() as jms:
        admin.create_queue(queue, partitions=1)
        jms.create_producer().send(Queue(queue), "waits", unit_of_order=JOE)
        begin_admission(topics.bootstrap, queue)
        with pytest.raises(OrderError, match=rf"jbm-kafka admit-partitions {queue}"):
            target(Queue(queue), bootstrap=topics.bootstrap)
        assert admin.admit_partitions(queue, partitions=4, wait_s=0) == (1, 4)
        assert dict(admin.unit_paths(queue)) == {JOE: 0}
        with pytest.raises(OrderError, match=rf"1 units keep theirs .* jbm-kafka end-paths {queue}"):
            target(Queue(queue), bootstrap=topics.bootstrap)
        assert receive(jms.create_consumer(Queue(queue))).body == "waits"
    with Admin(topics.bootstrap) as admin:
        assert admin.end_paths(queue, wait_s=0) == PathsEnded(1, 0)
    assert target(Queue(queue), bootstrap=topics.bootstrap).info.unit_partitions == 4
