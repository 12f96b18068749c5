"""Topics that take copies have room for what they copy: at creation, and when their source grew."""

import logging
from collections.abc import Mapping

import pytest

from jbm_kafka.core.destination import Queue, TemporaryQueue
from jbm_kafka.core.jms_errors import InvalidDestinationError, JMSError
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.registry.registry import Registry
from jbm_kafka.registry.topic_configs import DESTINATION_CONFIG, MARGIN_BYTES
from jbm_kafka.registry.topics import Topics
from tests.support.manual_clock import ManualClock

LETTERS = Queue("letters")
LARGE = 3_000_000


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock())


def topics_of(cluster: MemoryCluster) -> Topics:
    return Topics(MemoryKafka(cluster).admin(), namespace="")


def ensure(topics: Topics, size: int) -> TopicInfo:
    return topics.ensure(LETTERS, create=True, partitions=1, message_bytes_min=size)


def size_of(cluster: MemoryCluster, topic: str) -> int:
    return int(cluster.topics[topic].config["max.message.bytes"])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_topic_for_copies_is_created_with_room_for_the_largest(cluster: MemoryCluster) -> None:
    assert ensure(topics_of(cluster), LARGE).max_message_bytes == LARGE == size_of(cluster, "letters")
    assert size_of(cluster, "letters.jbm-changelog") == LARGE + MARGIN_BYTES
    assert cluster.topics["letters"].config.items() >= DESTINATION_CONFIG.items()


def test_a_temporary_queue_is_refused_also_when_a_queue_has_its_name(cluster: MemoryCluster) -> None:
    topics = topics_of(cluster)
    ensure(topics, 0)
    with pytest.raises(
        InvalidDestinationError, match="temporary-queue:letters: this is for queues and topics that stay"
    ):
        topics.ensure(TemporaryQueue("letters"), create=True, partitions=1)


def test_small_messages_make_no_topic_smaller_than_kafkas_default(cluster: MemoryCluster) -> None:
    assert ensure(topics_of(cluster), 10_000).max_message_bytes == 1_048_588


def test_one_of_ours_grows_with_its_changelog_and_never_shrinks(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topics = topics_of(cluster)
    ensure(topics, 0)
    assert ensure(topics, LARGE).max_message_bytes == LARGE == size_of(cluster, "letters")
    assert size_of(cluster, "letters.jbm-changelog") == LARGE + MARGIN_BYTES
    assert ensure(topics, 2_000_000).max_message_bytes == LARGE
    assert ensure(topics_of(cluster), 2_000_000).max_message_bytes == LARGE == size_of(cluster, "letters")
    assert warnings(caplog) == []


def test_what_another_process_enlarged_is_seen(cluster: MemoryCluster) -> None:
    topics = topics_of(cluster)
    ensure(topics, 0)
    ensure(topics_of(cluster), LARGE)
    assert ensure(topics, LARGE - 1).max_message_bytes == LARGE


def test_a_foreign_topic_is_left_as_it_is_with_one_warning(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("letters", 1, {})
    topics = topics_of(cluster)
    assert [ensure(topics, LARGE).max_message_bytes for _ in range(2)] == [1_048_588] * 2
    (line,) = warnings(caplog)
    assert "topic letters takes messages of 1048588 bytes and should take 3000000" in line
    assert "did not create it" in line


def test_a_topic_that_may_not_be_changed_is_used_with_one_warning(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topics = topics_of(cluster)
    ensure(topics, 0)
    cluster.faults.alter = refused
    assert [ensure(topics, LARGE).max_message_bytes for _ in range(2)] == [1_048_588] * 2
    (line,) = warnings(caplog)
    assert "Topic authorization failed" in line


def test_a_changelog_grows_when_its_destination_did(cluster: MemoryCluster) -> None:
    topics = topics_of(cluster)
    ensure(topics, 0)
    MemoryKafka(cluster).admin().alter_config("letters", {"max.message.bytes": str(LARGE)})
    assert topics.refresh(LETTERS).max_message_bytes == LARGE
    assert size_of(cluster, "letters.jbm-changelog") == LARGE + MARGIN_BYTES


def refused(topic: str, config: Mapping[str, str]) -> None:
    raise KafkaClientError(f"change {', '.join(config)} of topic {topic}: Topic authorization failed")


def test_a_browsed_name_that_does_not_exist_is_refused_and_makes_no_topic(cluster: MemoryCluster) -> None:
    """Browsing a mistyped name made a topic of 16 partitions."""
    with pytest.raises(InvalidDestinationError, match="there is no Kafka topic 'letters'; create it"):
        topics_of(cluster).partitions_of(LETTERS)
    assert not cluster.topics


def test_system_topics_that_somebody_mis_made_are_put_right(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.create_topic("jbm.events", 1, {"cleanup.policy": "compact", "retention.ms": "-1"})
    cluster.create_topic("jbm.registry", 1, {})
    topics_of(cluster).ensure_system_topics()
    assert len(cluster.topics["jbm.events"].logs) == 16
    assert [cluster.topics[name].config["cleanup.policy"] for name in ("jbm.events", "jbm.registry")] == [
        "delete",
        "compact",
    ]
    assert cluster.topics["jbm.events"].config["retention.ms"] == str(7 * 24 * 3_600_000), "else it grows for ever"
    assert "topic jbm.events has 1 partitions and needs 16; put right" in warnings(caplog)


def test_topics_of_ours_with_large_segments_get_small_ones(cluster: MemoryCluster) -> None:
    """A start read every record of the registry since a week: brokers compact closed segments, and none was closed."""
    large = {"cleanup.policy": "compact", "segment.bytes": str(2**30)}
    cluster.create_topic("jbm.registry", 1, large)
    cluster.create_topic(Queue("orders").changelog_topic(""), 16, large)
    topics = topics_of(cluster)
    topics.ensure_system_topics()
    topics.ensure(Queue("orders"), create=True, partitions=16)
    found = {name: topic.config.get("segment.bytes") for name, topic in cluster.topics.items()}
    assert found["jbm.registry"] == str(2**20)
    assert found[Queue("orders").changelog_topic("")] == str(4 * 2**20)


def test_a_system_topic_that_cannot_be_put_right_is_refused_with_the_remedy(cluster: MemoryCluster) -> None:
    cluster.create_topic("jbm.registry", 1, {})
    cluster.faults.alter = refused
    with pytest.raises(JMSError, match=r"jbm.registry has cleanup.policy=delete and needs compact.*Kafka's tools"):
        topics_of(cluster).ensure_system_topics()


def test_a_changelog_that_deletes_by_time_is_put_right_at_the_start(cluster: MemoryCluster) -> None:
    """Of LOG-7: what it forgets is delivered again."""
    ensure(topics_of(cluster), 0)
    MemoryKafka(cluster).admin().alter_config("letters.jbm-changelog", {"cleanup.policy": "delete"})
    ensure(topics_of(cluster), 0)
    assert cluster.topics["letters.jbm-changelog"].config["cleanup.policy"] == "compact"


def test_what_is_lost_while_running_is_put_right_by_the_next_look(cluster: MemoryCluster) -> None:
    topics = topics_of(cluster)
    topics.ensure_system_topics()
    ensure(topics, 0)
    for name in ("jbm.events", "jbm.registry"):
        cluster.delete_topic(name)
    MemoryKafka(cluster).admin().alter_config("letters.jbm-changelog", {"cleanup.policy": "compact,delete"})
    topics.look()
    assert [len(cluster.topics[name].logs) for name in ("jbm.events", "jbm.registry")] == [16, 1]
    assert cluster.topics["letters.jbm-changelog"].config["cleanup.policy"] == "compact"


def test_what_cannot_be_put_right_while_running_is_told_once(
    cluster: MemoryCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topics = topics_of(cluster)
    topics.ensure_system_topics()
    MemoryKafka(cluster).admin().alter_config("jbm.registry", {"cleanup.policy": "delete"})
    cluster.faults.alter = refused
    for _ in range(3):
        topics.look()
    [told] = warnings(caplog)
    assert told.startswith("topic jbm.registry has cleanup.policy=delete and needs compact")


def test_a_topic_that_got_more_partitions_is_known_with_them_after_a_look(cluster: MemoryCluster) -> None:
    topics = topics_of(cluster)
    before = ensure(topics, 0)
    assert topics.look().found == [before]
    assert ensure(topics, 0) is before
    cluster.add_partitions("letters", 4)
    topics.look()
    assert ensure(topics, 0).partitions == 4


@pytest.mark.parametrize(("config", "is_ours"), [(DESTINATION_CONFIG, True), ({"retention.ms": "-1"}, False)])
def test_a_topic_whose_maker_died_before_it_was_recorded_is_recorded_at_its_next_use(
    cluster: MemoryCluster, config: Mapping[str, str], is_ours: bool
) -> None:
    """Of LOG-2: else it counts as somebody else's and is kept for ever. One that others made stays theirs."""
    cluster.create_topic("letters", 1, config)
    kafka = MemoryKafka(cluster)
    registry = Registry(kafka, kafka.admin(), "jbm.registry")
    topics = Topics(kafka.admin(), namespace="", registry=registry)
    found = topics.ensure(LETTERS, create=False, partitions=1)
    registry.refresh()
    assert registry.is_made_by_us("letters", found.topic_id) is is_ours
