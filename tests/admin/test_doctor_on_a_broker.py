"""The doctor on a real broker: it sees replicas, the limits of topics and what credentials may do."""

from __future__ import annotations

from jbm_kafka import ConnectionFactory, Queue
from jbm_kafka.admin import Admin, Ailment
from jbm_kafka.admin.doctor.doctor_look import ROLES
from jbm_kafka.kafka import ConfluentKafka

WAIT_S = 20.0


def test_of_a_broker_whose_topics_are_ours_nothing_is_found_until_somebody_sets_a_retention(
    bootstrap: str, kafka_name: str
) -> None:
    queue = Queue(kafka_name)
    with (
        ConnectionFactory(bootstrap, namespace=kafka_name).create_connection() as connection,
        Admin(bootstrap, namespace=kafka_name) as admin,
    ):
        admin.create_queue(queue, partitions=1)
        session = connection.create_session()
        session.create_producer(queue).send("hello")
        assert session.create_consumer(queue).receive(timeout=WAIT_S) is not None
        for role in ROLES:
            found = admin.doctor(role=role, timeout_s=WAIT_S)  # type: ignore[arg-type]
            assert (found.findings, found.brokers, len(found.members)) == ((), 1, 1), role
        cluster = ConfluentKafka(bootstrap).admin()
        cluster.alter_config(kafka_name, {"retention.ms": "1000000"})
        cluster.close()
        assert [each.kind for each in admin.doctor(timeout_s=WAIT_S).findings] == [Ailment.RETENTION]
