"""Which queues and topics are listed: on a Kafka and in a world in memory."""

from __future__ import annotations

from jbm_kafka import ConnectionFactory, Queue, Topic
from jbm_kafka.admin import Admin
from jbm_kafka.ports import KafkaAdmin


def test_a_queue_whose_changelog_was_deleted_is_listed_with_what_it_holds(
    url: str, admin: Admin, cluster: KafkaAdmin, kafka_name: str
) -> None:
    queue, topic = Queue(f"{kafka_name}.memo"), Topic(f"{kafka_name}.news")
    admin.create_topic(topic)
    admin.create_queue(queue, partitions=1)
    with ConnectionFactory(url, namespace=kafka_name).create_context() as jms:
        jms.create_producer().send(queue, "remember")
    assert admin.counts(queue).has_changelog
    cluster.delete_topics([queue.changelog_topic(kafka_name), topic.changelog_topic(kafka_name)])

    assert admin.destinations() == [queue, topic], "it holds a message"
    assert (admin.counts(queue).held, admin.counts(queue).has_changelog) == (1, False)
    assert admin.create_queue(queue) is False
    assert admin.counts(queue).has_changelog, "made again by the next use"
    admin.delete_destination(queue)
    assert admin.destinations() == [topic]


def test_a_topic_that_was_made_anew_by_another_program_is_not_the_queue_of_before(
    url: str, admin: Admin, cluster: KafkaAdmin, kafka_name: str
) -> None:
    queue = Queue(f"{kafka_name}.memo")
    admin.create_queue(queue, partitions=1)
    cluster.delete_topics([queue.name, queue.changelog_topic(kafka_name)])
    assert admin.destinations() == []
    cluster.create_topic(queue.name, partitions=1, config={})
    assert admin.destinations() == []
