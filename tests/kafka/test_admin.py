"""Contract: questions about topics and groups, and what is answered when there is nothing."""

import gc
import time
import tracemalloc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import pairwise

import pytest

from jbm_kafka.ports import (
    CommittedOffset,
    GroupFenced,
    GroupKind,
    Kafka,
    KafkaAdmin,
    KafkaClientError,
    LogPlace,
    Outgoing,
    PositionOutOfRange,
    UnknownTopic,
)
from tests.kafka.world import WAIT_S, consume_until, member, numbered, send_all, values


def test_whoever_may_do_all_may_write_to_each_topic(kafka: Kafka, kafka_name: str) -> None:
    """And one that is not there is not missing for want of a right; tests/security asks where one is."""
    admin = kafka.admin()
    admin.create_topic(kafka_name, partitions=1, config={})
    assert admin.unwritable([kafka_name, f"{kafka_name}-nowhere"]) == frozenset()
    assert admin.unwritable([]) == frozenset()


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
    with pytest.raises(KafkaClientError, match=topic):
        admin.add_partitions(topic, 2)
    assert admin.describe([topic])[topic].partitions == 3


def test_a_topic_that_others_gave_the_partitions_first_has_them_and_that_is_no_error(kafka: Kafka, topic: str) -> None:
    """Processes that saw the same new partitions each grew the changelog: Topic already has 3 partition(s)."""
    admins = [kafka.admin() for _ in range(4)]
    with ThreadPoolExecutor(len(admins)) as pool:
        for partitions in (2, 3, 5):
            for future in [pool.submit(admin.add_partitions, topic, partitions) for admin in admins]:
                future.result()
            assert {admin.describe([topic])[topic].partitions for admin in admins} == {partitions}
    admins[0].add_partitions(topic, 5)
    with pytest.raises(UnknownTopic):
        admins[0].add_partitions(f"{topic}-missing", 1)


def test_a_new_client_is_told_positions_at_once(kafka: Kafka, topic: str) -> None:
    """librdkafka lets one in four wait 3 s that asks before it is connected."""
    slow = 0
    for _ in range(40):
        admin = kafka.admin()
        began = time.monotonic()
        assert admin.begin_positions(topic, [0]) == {0: 0}
        slow += time.monotonic() - began > 2.5
    assert slow < 4, "of ten that wait some are the machine's, which may be busy"


def test_a_topic_made_anew_with_more_partitions_has_stable_ends_for_all_of_them(kafka: Kafka, kafka_name: str) -> None:
    """Who had asked for those of the old topic was told that there is no such partition."""
    admin = kafka.admin()
    for partitions in (1, 3):
        admin.create_topic(kafka_name, partitions=partitions, config={})
        ends = admin.end_positions(kafka_name, range(partitions), stable=True)
        assert ends == dict.fromkeys(range(partitions), 0)
        admin.delete_topics([kafka_name])


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


def test_records_are_deleted_below_a_position_and_never_come_again(kafka: Kafka, wide_topic: str) -> None:
    admin = kafka.admin()
    for partition in (0, 1):
        send_all(kafka, numbered(wide_topic, range(6), partition))
    assert admin.delete_records(wide_topic, {0: 4, 1: 6}) == {0: 4, 1: 6}
    assert admin.begin_positions(wide_topic, [0, 1, 2]) == {0: 4, 1: 6, 2: 0}
    assert admin.delete_records(wide_topic, {0: 2}) == {0: 4}, "it begins above that already"
    assert values(kafka.log_reader().read(wide_topic, {0: (0, 6)}, timeout_s=WAIT_S)) == [4, 5]
    assert admin.delete_records(wide_topic, {}) == {}


def test_what_cannot_be_deleted_is_named(kafka: Kafka, topic: str, kafka_name: str) -> None:
    admin = kafka.admin()
    send_all(kafka, numbered(topic, range(3)))
    with pytest.raises(PositionOutOfRange, match=rf"{topic}\[0\]: position 4") as raised:
        admin.delete_records(topic, {0: 4})
    assert raised.value.partition == 0
    assert admin.begin_positions(topic, [0]) == {0: 0}
    with pytest.raises(UnknownTopic, match=f"{kafka_name}-missing"):
        admin.delete_records(f"{kafka_name}-missing", {0: 0})
    admin.create_topic(f"{kafka_name}-compact", partitions=1, config={"cleanup.policy": "compact"})
    send_all(kafka, numbered(f"{kafka_name}-compact", [1]))
    with pytest.raises(KafkaClientError, match=f"delete records of {kafka_name}-compact"):
        admin.delete_records(f"{kafka_name}-compact", {0: 1})


def test_offsets_of_a_group_without_members_can_be_set_and_the_group_is_listed(
    kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    admin, group = kafka.admin(), f"{kafka_name}-group"
    send_all(kafka, numbered(wide_topic, range(6)))
    assert group not in admin.groups()
    wanted = {0: CommittedOffset(4, "checkpoint 7"), 1: CommittedOffset(0, "")}
    admin.alter_offsets(group, wide_topic, wanted)
    assert admin.committed(group, wide_topic, [0, 1, 2]) == wanted
    listed = admin.groups()[group]
    assert (listed.name, listed.kind, listed.is_empty) == (group, GroupKind.CLASSIC, True)
    admin.alter_offsets(group, wide_topic, {0: CommittedOffset(2, "")})
    assert admin.committed(group, wide_topic, [0, 1]) == {0: CommittedOffset(2, ""), 1: wanted[1]}
    admin.alter_offsets(group, wide_topic, {})
    admin.delete_groups([group])
    assert group not in admin.groups()
    assert admin.committed(group, wide_topic, [0, 1]) == {}
    with pytest.raises(UnknownTopic, match=f"{kafka_name}-missing"):
        admin.alter_offsets(group, f"{kafka_name}-missing", {0: CommittedOffset(0, "")})


def test_positions_of_a_group_that_has_members_are_theirs(kafka: Kafka, topic: str, kafka_name: str) -> None:
    admin, group = kafka.admin(), f"{kafka_name}-group"
    send_all(kafka, numbered(topic, [1]))
    admin.alter_offsets(group, topic, {0: CommittedOffset(1, "")})
    consumer = member(kafka, group, topic, partitions=1)
    consume_until(lambda: consumer.assignment() == {0}, consumer)
    with pytest.raises(GroupFenced, match=f"offsets of group {group}") as raised:
        admin.alter_offsets(group, topic, {0: CommittedOffset(0, "")})
    assert raised.value.group == group
    assert not admin.groups()[group].is_empty
    assert admin.committed(group, topic, [0]) == {0: CommittedOffset(1, "")}
    consumer.close()


@pytest.mark.parametrize(
    "question",
    [
        lambda admin, topic: admin.end_positions(topic, range(4), stable=True),
        lambda admin, topic: admin.end_positions(topic, range(4), stable=False),
        lambda admin, topic: admin.describe([topic]),
    ],
    ids=["the stable end", "the end", "the topic"],
)
def test_a_question_leaves_nothing_behind(
    kafka: Kafka, wide_topic: str, question: Callable[[KafkaAdmin, str], object]
) -> None:
    """AMQP-10: each client that came and left leaked: what the client answers to such questions was never freed."""
    admin = kafka.admin()
    answer = question(admin, wide_topic)

    def ask(count: int) -> int:
        for _ in range(count):
            assert question(admin, wide_topic) == answer
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        known = [ask(300), ask(400), ask(400), ask(400)]
        # It was 64 bytes a question, and more. Some thousand in all are of the last threads that asked, which end
        # meanwhile; and Python's own table of strings grows at times, by two megabytes at once.
        assert min(after - before for before, after in pairwise(known)) < 400 * 32, "bytes"
    finally:
        tracemalloc.stop()
        admin.close()


def test_positions_since_a_time_are_those_of_the_first_record_since(kafka: Kafka, kafka_name: str) -> None:
    """Kafka's index of times; a partition without such a record ends there."""
    admin = kafka.admin()
    admin.create_topic(kafka_name, partitions=3, config={})
    stamped = [Outgoing(kafka_name, 0, None, b"", (), 1_000 * at) for at in range(1, 6)]
    send_all(kafka, [*stamped, Outgoing(kafka_name, 1, None, b"", (), 1_000)])
    places = [0, 1, 2]
    assert admin.positions_since(kafka_name, places, 3_000) == {0: 2, 1: 1, 2: 0}
    assert admin.positions_since(kafka_name, places, 3_001) == {0: 3, 1: 1, 2: 0}
    assert admin.positions_since(kafka_name, places, -5) == {0: 0, 1: 0, 2: 0}
    assert admin.positions_since(kafka_name, places, 9_000) == {0: 5, 1: 1, 2: 0}
    assert admin.positions_since(kafka_name, [], 0) == {}
    admin.close()


def test_positions_and_members_of_many_are_asked_for_at_once(kafka: Kafka, kafka_name: str) -> None:
    """One that is not there is missing, and the others are told all the same."""
    admin, names = kafka.admin(), [f"{kafka_name}-{at}" for at in range(3)]
    for name in names:
        admin.create_topic(name, partitions=2, config={})
    send_all(kafka, numbered(names[0], range(3)))
    topics = {**dict.fromkeys(names, 2), f"{kafka_name}-missing": 2}
    ends = admin.positions(topics, LogPlace.STABLE_END)
    assert {name: sum(of.values()) for name, of in ends.items()} == {names[0]: 3, names[1]: 0, names[2]: 0}
    assert admin.positions(topics, LogPlace.END) == ends
    assert admin.positions(topics, LogPlace.BEGIN) == {name: {0: 0, 1: 0} for name in names}
    assert admin.positions({}, LogPlace.BEGIN) == {}
    with closing(member(kafka, kafka_name, names[0])) as consumer:
        consume_until(consumer.joined, consumer)
        assert admin.member_counts([kafka_name, f"{kafka_name}-none"]) == {kafka_name: 1, f"{kafka_name}-none": 0}
    assert admin.member_counts([]) == {}
