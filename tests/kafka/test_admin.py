"""Contract: questions about topics and groups, and what is answered when there is nothing."""

import time

import pytest

from jbm_kafka.ports import Kafka, KafkaClientError, UnknownTopic
from tests.kafka.world import numbered, send_all


def test_a_topic_is_described_with_its_partitions_and_config(kafka: Kafka, kafka_name: str) -> None:
    admin = kafka.admin()
    config = {"cleanup.policy": "compact", "max.message.bytes": "123456"}
    assert admin.create_topic(kafka_name, partitions=3, config=config)
    described = admin.describe([kafka_name, f"{kafka_name}-missing"], with_config=True)
    assert list(described) == [kafka_name]
    assert described[kafka_name].partitions == 3
    assert {name: described[kafka_name].config[name] for name in config} == config
    assert not admin.describe([kafka_name])[kafka_name].config
    assert admin.describe([]) == {}
    assert kafka_name in admin.topic_names()


def test_a_topics_config_can_be_changed_and_the_rest_of_it_stays(kafka: Kafka, kafka_name: str) -> None:
    admin = kafka.admin()
    admin.create_topic(kafka_name, partitions=1, config={"retention.ms": "-1", "max.message.bytes": "123456"})
    admin.alter_config(kafka_name, {"max.message.bytes": "234567"})
    config = admin.describe([kafka_name], with_config=True)[kafka_name].config
    assert (config["max.message.bytes"], config["retention.ms"]) == ("234567", "-1")
    with pytest.raises(UnknownTopic, match=f"{kafka_name}-missing"):
        admin.alter_config(f"{kafka_name}-missing", {"max.message.bytes": "1"})


def test_creating_a_topic_twice_changes_nothing(kafka: Kafka, topic: str) -> None:
    admin = kafka.admin()
    before = admin.describe([topic])
    assert not admin.create_topic(topic, partitions=5, config={})
    assert admin.describe([topic]) == before


def test_a_topic_created_again_has_another_id_and_no_committed_offsets(kafka: Kafka, topic: str) -> None:
    admin = kafka.admin()
    send_all(kafka, numbered(topic, [1]))
    before = admin.describe([topic])[topic].topic_id
    admin.delete_topics([topic, f"{topic}-missing"])
    assert admin.describe([topic]) == {}
    assert admin.create_topic(topic, partitions=1, config={})
    assert admin.describe([topic])[topic].topic_id != before
    assert admin.end_positions(topic, [0], stable=False) == {0: 0}


@pytest.mark.parametrize("name", ["no spaces", "", "a" * 250])
def test_an_illegal_topic_name_is_refused_on_one_line(kafka: Kafka, name: str) -> None:
    with pytest.raises(KafkaClientError, match="create topic") as caught:
        kafka.admin().create_topic(name, partitions=1, config={})
    assert "\n" not in str(caught.value)


def test_names_that_differ_only_in_dots_and_underscores_collide(kafka: Kafka, kafka_name: str) -> None:
    admin = kafka.admin()
    admin.create_topic(f"{kafka_name}.eu", partitions=1, config={})
    with pytest.raises(KafkaClientError, match="collides"):
        admin.create_topic(f"{kafka_name}_eu", partitions=1, config={})


def test_partitions_can_be_added_and_begin_at_0(kafka: Kafka, topic: str) -> None:
    admin = kafka.admin()
    admin.add_partitions(topic, 3)
    assert admin.describe([topic])[topic].partitions == 3
    assert admin.begin_positions(topic, [0, 1, 2]) == {0: 0, 1: 0, 2: 0}
    with pytest.raises(KafkaClientError):
        admin.add_partitions(topic, 2)


def test_a_new_client_is_told_positions_at_once(kafka: Kafka, topic: str) -> None:
    """librdkafka lets one in four wait 3 s that asks before it is connected."""
    for _ in range(40):
        admin = kafka.admin()
        began = time.monotonic()
        assert admin.begin_positions(topic, [0]) == {0: 0}
        assert time.monotonic() - began < 2.5


def test_positions_of_what_does_not_exist_are_an_error(kafka: Kafka, topic: str) -> None:
    admin = kafka.admin()
    with pytest.raises(UnknownTopic, match=f"{topic}-missing"):
        admin.end_positions(f"{topic}-missing", [0], stable=True)
    with pytest.raises(UnknownTopic, match=topic):
        admin.begin_positions(topic, [1])
    assert admin.end_positions(topic, [], stable=True) == {}


def test_a_group_that_never_was_has_no_offsets_and_no_members(kafka: Kafka, topic: str, kafka_name: str) -> None:
    admin = kafka.admin()
    assert admin.committed(kafka_name, topic, [0, 1]) == {}
    assert admin.committed(kafka_name, topic, []) == {}
    assert admin.group_members(kafka_name) == 0


def test_the_cluster_has_one_id(kafka: Kafka) -> None:
    assert kafka.admin().cluster_id() == kafka.admin().cluster_id() != ""
