"""Contract: partitions move between members one owner at a time, and a loser can write nothing more about them."""

from collections.abc import Sequence

import pytest

from jbm_kafka.ports import CommittedOffset, GroupConsumer, GroupFenced, Kafka, Outgoing
from tests.kafka.world import (
    WAIT_S,
    Listener,
    World,
    consume_records,
    consume_until,
    member,
    numbered,
    producer,
    send_all,
    values,
)


def test_two_members_share_and_each_takes_over_from_the_other(
    world: World, kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    first_listener, second_listener = Listener(), Listener()
    first = member(kafka, kafka_name, wide_topic, first_listener)
    consume_until(lambda: len(first.assignment()) == 4, first)
    assert first_listener.told == [("assigned", (0, 1, 2, 3))]
    second = member(world.kafka(), kafka_name, wide_topic, second_listener)
    consume_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    assert first.assignment() | second.assignment() == {0, 1, 2, 3}
    assert first_listener.told[-1] == ("revoked", tuple(sorted(second.assignment())))
    assert kafka.admin().group_members(kafka_name) == 2

    first.close()
    assert first_listener.told[-1][0] == "revoked"
    assert first.assignment() == frozenset()
    consume_until(lambda: len(second.assignment()) == 4, second)
    assert not [told for told in first_listener.told + second_listener.told if told[0] == "lost"]
    second.close()
    assert kafka.admin().group_members(kafka_name) == 0


def test_partitions_that_were_added_waited_half_a_minute_for_an_owner(
    kafka: Kafka, topic: str, kafka_name: str
) -> None:
    """librdkafka looks at its topics only so often."""
    reading = member(kafka, kafka_name, topic)
    consume_until(lambda: bool(reading.assignment()), reading)
    kafka.admin().add_partitions(topic, 3)
    consume_until(lambda: len(reading.assignment()) == 3, reading)
    reading.close()


def test_a_member_too_many_has_joined_with_nothing(world: World, kafka: Kafka, topic: str, kafka_name: str) -> None:
    first = member(kafka, kafka_name, topic)
    consume_until(lambda: bool(first.assignment()), first)
    second_listener = Listener()
    second = member(world.kafka(), kafka_name, topic, second_listener)
    assert not second.joined()
    consume_until(second.joined, first, second)
    assert second.assignment() == frozenset()
    first.close()
    consume_until(lambda: bool(second.assignment()), second)
    assert second_listener.told == [("assigned", (0,))]
    second.close()


def test_a_member_that_was_closed_has_no_metadata_left(kafka: Kafka, wide_topic: str, kafka_name: str) -> None:
    """LOG-6: a checkpoint that asks a group worker which has just left its group is told so, and goes on without it."""
    left = member(kafka, kafka_name, wide_topic)
    consume_until(lambda: len(left.assignment()) == 4, left)
    left.close()
    with pytest.raises(GroupFenced):
        left.group_metadata()


def test_a_last_transaction_inside_on_revoked_is_accepted_and_the_successor_sees_it(
    world: World, kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    """LOG-6: what is written with metadata read inside the callback counts; metadata from before is refused."""
    transaction = producer(kafka)
    listener = Listener()
    first = member(kafka, kafka_name, wide_topic, listener)
    consume_until(lambda: len(first.assignment()) == 4, first)
    before = first.group_metadata()
    refused: list[str] = []

    def last_checkpoint(partitions: Sequence[int]) -> None:
        offsets = {partition: CommittedOffset(partition + 1, "last") for partition in partitions}
        transaction.begin()
        with pytest.raises(GroupFenced) as caught:
            transaction.send_offsets(before, kafka_name, wide_topic, offsets)
        refused.append(caught.value.group)
        transaction.abort(WAIT_S)
        transaction.begin()
        transaction.produce(Outgoing(wide_topic, 0, b"changelog", b"1"))
        transaction.send_offsets(first.group_metadata(), kafka_name, wide_topic, offsets)
        transaction.commit(WAIT_S)

    listener.before_giving_up = last_checkpoint
    second = member(world.kafka(), kafka_name, wide_topic)
    consume_until(lambda: len(second.assignment()) == 2, first, second)
    listener.before_giving_up = None
    moved = sorted(second.assignment())
    assert refused == [kafka_name]
    committed = kafka.admin().committed(kafka_name, wide_topic, range(4))
    assert committed == {partition: CommittedOffset(partition + 1, "last") for partition in moved}
    first.close()
    second.close()
    transaction.close()


def test_closing_runs_a_last_transaction_too(kafka: Kafka, topic: str, kafka_name: str) -> None:
    transaction = producer(kafka)
    listener = Listener()
    consumer = member(kafka, kafka_name, topic, listener)
    consume_until(lambda: bool(consumer.assignment()), consumer)

    def last_checkpoint(partitions: Sequence[int]) -> None:
        transaction.begin()
        offsets = {partition: CommittedOffset(9, "") for partition in partitions}
        transaction.send_offsets(consumer.group_metadata(), kafka_name, topic, offsets)
        transaction.commit(WAIT_S)

    listener.before_giving_up = last_checkpoint
    consumer.close()
    consumer.close()  # once more is nothing
    assert kafka.admin().committed(kafka_name, topic, [0]) == {0: CommittedOffset(9, "")}
    transaction.close()


def test_fresh_metadata_does_not_fence_a_stale_offset(
    world: World, kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    """The group checks member and generation, not ownership: who redoes a checkpoint must look what it still owns."""
    first = member(kafka, kafka_name, wide_topic)
    consume_until(lambda: len(first.assignment()) == 4, first)
    second = member(world.kafka(), kafka_name, wide_topic)
    consume_until(lambda: len(first.assignment()) == len(second.assignment()) == 2, first, second)
    foreign = min(second.assignment())
    transaction = producer(kafka)
    transaction.begin()
    transaction.send_offsets(first.group_metadata(), kafka_name, wide_topic, {foreign: CommittedOffset(1, "stale")})
    transaction.commit(WAIT_S)
    assert kafka.admin().committed(kafka_name, wide_topic, [foreign]) == {foreign: CommittedOffset(1, "stale")}
    first.close()
    second.close()
    transaction.close()


def test_a_member_stopped_past_its_session_timeout_writes_nothing(
    world: World, kafka: Kafka, topic: str, kafka_name: str
) -> None:
    """LOG-6: its transaction is refused when it goes on, and it is told that its partitions are lost."""
    successors: list[GroupConsumer] = []

    def take_over() -> None:
        successors.append(member(kafka, kafka_name, topic))
        consume_until(lambda: bool(successors[0].assignment()), *successors)

    answer = world.frozen_member_refused(topic, kafka_name, while_frozen=take_over)
    [successor] = successors
    assert answer == "GroupFenced, then lost"
    assert kafka.admin().committed(kafka_name, topic, [0]) == {}
    send_all(kafka, numbered(topic, [1]))
    assert values(consume_records(successor, 1)) == [1]
    successor.close()


def test_records_of_a_partition_that_was_given_up_do_not_come_afterwards(
    world: World, kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    for partition in range(4):
        send_all(kafka, numbered(wide_topic, range(200), partition))
    first = member(kafka, kafka_name, wide_topic)
    consume_until(lambda: len(first.assignment()) == 4, first)
    second = member(world.kafka(), kafka_name, wide_topic)
    seen_late = 0
    while not second.assignment():
        second.consume(1, 0.01)
        records = first.consume(3, 0.02)
        seen_late += sum(record.partition() not in first.assignment() for record in records)
    assert seen_late == 0
    first.close()
    second.close()
