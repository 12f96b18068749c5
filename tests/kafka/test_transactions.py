"""Contract: records and offsets of a transaction appear together or not at all, and failures say what to do."""

import os
import random
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from jbm_kafka.core.channel.companion_group import companion_of
from jbm_kafka.devbroker import LocalBroker
from jbm_kafka.kafka import ConfluentKafka, transactional_producer
from jbm_kafka.kafka.transactional_producer import ConfluentTransactionalProducer
from jbm_kafka.ports import (
    CommittedOffset,
    GroupFenced,
    Kafka,
    KafkaClientError,
    OutcomeUnknown,
    Outgoing,
    TransactionAborted,
    Unreachable,
)
from tests.conftest import MakeTopic
from tests.kafka.world import WAIT_S, RealWorld, World, consume_until, member, numbered, producer, values
from tests.support.waiting import wait_until

ABORT_AT_CLOSE_S = 30.0
"""How long a producer that is closed in a transaction tries to abort it, where a test has to see whether it does."""


def committed_values(kafka: Kafka, topic: str) -> list[int]:
    """What a reader of a topic's only partition sees once every transaction has its mark.

    A commit returns before its mark is written: the stable end asked right after it may still be before its records.
    """
    end = kafka.admin().end_positions(topic, [0], stable=False)[0]
    return values(kafka.log_reader().read(topic, {0: (0, end)}, timeout_s=WAIT_S))


def test_records_and_offsets_with_their_metadata_commit_together(kafka: Kafka, topic: str, kafka_name: str) -> None:
    """LOG-5: several groups in one transaction included."""
    groups = [f"{kafka_name}-{index}" for index in range(2)]
    members = [member(kafka, group, topic) for group in groups]
    consume_until(lambda: all(consumer.assignment() for consumer in members), *members)
    transaction, admin = producer(kafka), kafka.admin()
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    for group, consumer in zip(groups, members, strict=True):
        transaction.send_offsets(consumer.group_metadata(), group, topic, {0: CommittedOffset(7, f"id of {group}")})
    transaction.commit(WAIT_S)
    for group in groups:
        assert admin.committed(group, topic, [0]) == {0: CommittedOffset(7, f"id of {group}")}

    transaction.begin()
    transaction.produce(numbered(topic, [2])[0])
    transaction.send_offsets(members[0].group_metadata(), groups[0], topic, {0: CommittedOffset(9, "never")})
    transaction.abort(WAIT_S)
    assert admin.committed(groups[0], topic, [0]) == {0: CommittedOffset(7, f"id of {groups[0]}")}
    assert committed_values(kafka, topic) == [1]
    for consumer in members:
        consumer.close()
    transaction.close()


def test_a_fenced_group_spoils_the_transaction_and_a_redo_without_it_commits(
    kafka: Kafka, topic: str, kafka_name: str
) -> None:
    """LOG-6: the others go on."""
    healthy, fenced = f"{kafka_name}-healthy", f"{kafka_name}-fenced"
    survivor, leaver = member(kafka, healthy, topic), member(kafka, fenced, topic)
    consume_until(lambda: bool(survivor.assignment() and leaver.assignment()), survivor, leaver)
    stale = leaver.group_metadata()
    leaver.close()
    transaction, admin = producer(kafka), kafka.admin()
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    transaction.send_offsets(survivor.group_metadata(), healthy, topic, {0: CommittedOffset(5, "a")})
    with pytest.raises(GroupFenced, match=fenced) as caught:
        transaction.send_offsets(stale, fenced, topic, {0: CommittedOffset(5, "a")})
    assert caught.value.group == fenced
    with pytest.raises(TransactionAborted):
        transaction.commit(WAIT_S)
    transaction.abort(WAIT_S)
    assert admin.committed(healthy, topic, [0]) == {}
    transaction.begin()
    transaction.produce(numbered(topic, [2])[0])
    transaction.send_offsets(survivor.group_metadata(), healthy, topic, {0: CommittedOffset(5, "b")})
    transaction.commit(WAIT_S)
    assert admin.committed(healthy, topic, [0]) == {0: CommittedOffset(5, "b")}
    assert admin.committed(fenced, topic, [0]) == {}
    assert committed_values(kafka, topic) == [2]
    survivor.close()
    transaction.close()


def test_a_record_too_large_is_named_and_the_producer_goes_on(kafka: Kafka, kafka_name: str, topic: str) -> None:
    small = f"{kafka_name}-small"
    kafka.admin().create_topic(small, partitions=1, config={"max.message.bytes": "2000"})
    transaction = producer(kafka)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0], "innocent")
    transaction.produce(Outgoing(small, 0, b"key", os.urandom(5_000)), "too large")
    with pytest.raises(TransactionAborted, match=r"small\[0\].*too large") as caught:
        transaction.commit(WAIT_S)
    assert caught.value.failed == {"too large"}
    assert {token: refusal.topic for token, refusal in caught.value.refusals.items()} == {"too large": small}
    transaction.abort(WAIT_S)
    transaction.begin()
    transaction.produce(numbered(topic, [2])[0], "innocent")
    transaction.commit(WAIT_S)
    assert committed_values(kafka, topic) == [2]
    transaction.close()


def test_records_that_fit_commit_although_one_batch_of_them_would_not(bootstrap: str, make_topic: MakeTopic) -> None:
    """Of REDELIVER-4: librdkafka's batches are of one size for all topics."""
    topic = make_topic(config={"max.message.bytes": "10000"})
    transaction = producer(ConfluentKafka(bootstrap))
    transaction.begin()
    for number in range(12):
        value = random.Random(number).randbytes(3_000)
        transaction.produce(Outgoing(topic, 0, None, value, batch_bytes_max=10_000))
    assert transaction.commit(WAIT_S) == {(topic, 0): 12}
    transaction.close()


def test_what_waits_behind_a_refused_record_does_not_hold_up_the_commit(bootstrap: str, make_topic: MakeTopic) -> None:
    """Of LOG-5: more than is under way at once, so that some of it has not left when the transaction fails."""
    topic = make_topic()
    records = [Outgoing(topic, 0, None, os.urandom(size)) for size in (2_000_000, *[900_000] * 20)]
    transaction = ConfluentKafka(bootstrap).transactional_producer(
        f"{topic}-bulk", transaction_timeout_ms=600_000, is_bulk=True
    )
    transaction.initialise(WAIT_S)
    transaction.begin()
    with pytest.raises(TransactionAborted, match="too large"):  # noqa: PT012  (either may hear of it first)
        transaction.produce_all(records)
        transaction.commit(WAIT_S)
    transaction.close()


def test_what_the_end_of_a_transaction_sweeps_away_is_not_to_blame(bootstrap: str, make_topic: MakeTopic) -> None:
    """Of LOG-5: librdkafka purges what others have queued beside a refused record."""
    transaction = producer(ConfluentKafka(bootstrap))
    assert isinstance(transaction, ConfluentTransactionalProducer)
    transaction.begin()
    for record in numbered(make_topic(), range(1_000)):
        transaction.produce(record, "innocent")
    transaction._producer.purge()
    with pytest.raises(TransactionAborted) as caught:
        transaction.commit(WAIT_S)
    assert caught.value.failed == frozenset()
    transaction.abort(WAIT_S)
    transaction.close()


@pytest.mark.parametrize("place", [("missing", 0), ("", 7)], ids=["topic", "partition"])
def test_a_record_for_nowhere_is_named(kafka: Kafka, topic: str, place: tuple[str, int]) -> None:
    transaction = producer(kafka)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0], "innocent")

    def commit_with_it() -> None:
        # Who knows the topic's partitions already may refuse at once.
        transaction.produce(Outgoing(topic + place[0], place[1], b"key", b"value"), "nowhere")
        transaction.commit(WAIT_S)

    with pytest.raises(TransactionAborted) as caught:
        commit_with_it()
    assert caught.value.failed == {"nowhere"}
    with pytest.raises(TransactionAborted):
        transaction.commit(WAIT_S)  # not without it either
    transaction.abort(WAIT_S)
    transaction.close()


def test_the_offset_of_a_commit_is_told_by_partition(kafka: Kafka, wide_topic: str) -> None:
    transaction = producer(kafka)
    for expected in ({(wide_topic, 0): 2, (wide_topic, 3): 1}, {(wide_topic, 0): 5, (wide_topic, 3): 3}):
        transaction.begin()
        for record in [*numbered(wide_topic, [1, 2], 0), *numbered(wide_topic, [3], 3)]:
            transaction.produce(record)
        assert transaction.commit(WAIT_S) == expected
    transaction.begin()
    assert transaction.commit(WAIT_S) == {}
    transaction.close()


def test_where_each_record_was_written_is_told_before_the_commit(kafka: Kafka, wide_topic: str) -> None:
    transaction = producer(kafka)
    for expected in ({"a": 0, "b": 1, "c": 0}, {"a": 3, "b": 4, "c": 2}):  # a mark of the commit lies between
        transaction.begin()
        for token, partition in (("a", 0), ("b", 0), ("c", 3)):
            transaction.produce(numbered(wide_topic, [1], partition)[0], token)
        assert transaction.offsets_written(WAIT_S) == expected
        transaction.commit(WAIT_S)
    transaction.begin()

    def written_nowhere() -> None:
        transaction.produce(Outgoing(f"{wide_topic}-missing", 0, None, b"x"), "nowhere")
        transaction.offsets_written(WAIT_S)

    with pytest.raises(TransactionAborted):
        written_nowhere()
    transaction.abort(WAIT_S)
    transaction.close()


def test_a_newer_user_of_the_id_ends_the_older_ones_transaction(
    world: World, kafka: Kafka, topic: str, kafka_name: str
) -> None:
    older, newer = (
        producer(kafka, kafka_name),
        world.kafka().transactional_producer(kafka_name, transaction_timeout_ms=10_000),
    )
    older.begin()
    older.produce(numbered(topic, [1])[0])
    reader = kafka.log_reader()
    reader.read(topic, {0: (0, 1)}, timeout_s=WAIT_S, committed_only=False)
    newer.initialise(WAIT_S, known_topic=topic)
    assert not reader.read(topic, {0: (0, 2)}, timeout_s=WAIT_S)
    newer.begin()
    newer.produce(numbered(topic, [2])[0])
    newer.commit(WAIT_S)
    with pytest.raises((OutcomeUnknown, TransactionAborted)):
        older.commit(WAIT_S)

    def go_on() -> None:
        older.abort(WAIT_S)
        older.begin()
        older.produce(numbered(topic, [3])[0])
        older.commit(WAIT_S)

    with pytest.raises((OutcomeUnknown, TransactionAborted)):
        go_on()
    older.close()
    assert committed_values(kafka, topic) == [2]
    newer.close()


@pytest.mark.parametrize("end", ["commit", "abort", "close", "small batches"])
def test_a_producer_fenced_with_records_under_way_says_so(
    bootstrap: str, make_topic: MakeTopic, kafka_name: str, end: str
) -> None:
    """Of LOG-5: one who lost the id may try again; it came out as a SystemError of a report's callback."""
    topic, kafka = make_topic(config={"max.message.bytes": "10000"}), ConfluentKafka(bootstrap)
    older = producer(kafka, kafka_name)
    older.begin()
    newer = producer(kafka, kafka_name)

    def produce_some() -> None:
        for record in numbered(topic, range(50)):
            older.produce(record)

    def commit_in_small_batches() -> None:
        for _ in range(2):
            older.produce(Outgoing(topic, 0, None, bytes(6_000), batch_bytes_max=10_000))
        older.commit(WAIT_S)

    def go_on() -> None:
        produce_some()
        if end == "abort":
            older.abort(WAIT_S)
        elif end == "commit":
            older.commit(WAIT_S)
        else:
            commit_in_small_batches()

    if end == "close":
        with suppress(OutcomeUnknown):  # it may hear of it sooner
            produce_some()
    else:
        with pytest.raises(OutcomeUnknown):
            go_on()
    older.close()
    newer.begin()
    newer.produce(numbered(topic, [1])[0])
    newer.commit(WAIT_S)
    assert committed_values(kafka, topic) == [1]
    newer.close()


def test_committed_offsets_wait_for_the_transaction_that_holds_them(
    world: World, kafka: Kafka, wide_topic: str, kafka_name: str
) -> None:
    consumer = member(kafka, kafka_name, wide_topic)
    consume_until(lambda: bool(consumer.assignment()), consumer)
    transaction = producer(kafka)
    transaction.begin()
    transaction.send_offsets(consumer.group_metadata(), kafka_name, wide_topic, {0: CommittedOffset(3, "id")})
    impatient = world.kafka(admin_timeout_s=0.5).admin()
    with pytest.raises(Unreachable, match=f"group {kafka_name}"):
        impatient.committed(kafka_name, wide_topic, [0])
    assert impatient.committed(kafka_name, wide_topic, [1]) == {}
    found: list[object] = []
    waiting = threading.Thread(target=lambda: found.append(kafka.admin().committed(kafka_name, wide_topic, [0])))
    waiting.start()
    transaction.commit(WAIT_S)
    waiting.join(WAIT_S)
    assert found == [{0: CommittedOffset(3, "id")}]
    consumer.close()
    transaction.close()


def test_aborting_nothing_is_nothing_and_closing_ends_what_is_open(kafka: Kafka, topic: str) -> None:
    transaction = producer(kafka)
    transaction.abort(WAIT_S)
    transaction.begin()
    transaction.produce(numbered(topic, [1])[0])
    kafka.log_reader().read(topic, {0: (0, 1)}, timeout_s=WAIT_S, committed_only=False)
    transaction.close()
    assert not kafka.log_reader().read(topic, {0: (0, 2)}, timeout_s=WAIT_S)


def test_what_got_no_answer_is_not_aborted_at_close_but_by_the_next_user_of_the_id(
    dedicated_broker: Callable[[], LocalBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_producer, "_CLOSE_TIMEOUT_S", ABORT_AT_CLOSE_S)
    broker = dedicated_broker()
    world = RealWorld(broker.bootstrap, broker)
    # By default librdkafka gives a request as long as the transaction.
    kafka = ConfluentKafka(broker.bootstrap, {"socket.timeout.ms": 3_000})
    kafka.admin().create_topic("t", partitions=1, config={})
    consumer = member(kafka, "g", "t")
    consume_until(lambda: bool(consumer.assignment()), consumer)
    transaction = kafka.transactional_producer("id", transaction_timeout_ms=60_000)
    transaction.initialise(WAIT_S)
    transaction.begin()
    transaction.produce(numbered("t", [1])[0])
    kafka.log_reader().read("t", {0: (0, 1)}, timeout_s=WAIT_S, committed_only=False)
    metadata = consumer.group_metadata()
    with world.cut_off():
        with pytest.raises(OutcomeUnknown):
            transaction.send_offsets(metadata, "g", "t", {0: CommittedOffset(1, "id")})
        began = time.monotonic()
        transaction.close()
        took_s = time.monotonic() - began
    assert took_s < ABORT_AT_CLOSE_S, "it tried to abort"
    asking = world.kafka()  # with time enough for a broker that has just stood still
    assert asking.admin().end_positions("t", [0], stable=True) == {0: 0}
    successor = producer(asking, "id")
    # Its mark may stand there twice: the broker had stood still while it was told to write one.
    assert asking.admin().end_positions("t", [0], stable=True)[0] > 1
    assert asking.admin().end_positions("t", [0], stable=True) == asking.admin().end_positions("t", [0], stable=False)
    assert asking.admin().committed("g", "t", [0]) == {}
    assert not asking.log_reader().read("t", {0: (0, 2)}, timeout_s=WAIT_S)
    successor.close()
    consumer.close()


def test_after_records_without_an_answer_only_a_new_producer_goes_on(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """librdkafka may have counted what the broker has not: the same producer's next records were out of order then."""
    broker = dedicated_broker()
    world = RealWorld(broker.bootstrap, broker)
    kafka = world.kafka()
    kafka.admin().create_topic("t", partitions=1, config={})
    transaction = kafka.transactional_producer("id", transaction_timeout_ms=60_000)
    transaction.initialise(WAIT_S)
    transaction.begin()
    transaction.produce(numbered("t", [1])[0], "written")
    kafka.log_reader().read("t", {0: (0, 1)}, timeout_s=WAIT_S, committed_only=False)
    with world.cut_off():
        transaction.produce(numbered("t", [2])[0], "token")
        with pytest.raises(TransactionAborted) as raised:
            transaction.commit(WAIT_S)
    # What a reader has seen was written, and may have got no answer either.
    assert raised.value.failed - {"written"} == {"token"}
    with pytest.raises(OutcomeUnknown):
        transaction.abort(WAIT_S)
    transaction.close()
    successor = producer(kafka, "id")
    successor.begin()
    successor.produce(numbered("t", [3])[0])
    successor.commit(WAIT_S)
    assert committed_values(kafka, "t") == [3]
    successor.close()


def test_a_producer_that_lost_all_brokers_begins_with_a_new_client(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """Of CONN-3: after an outage the first offsets of each of a sidecar's producers had no answer for 11 s.

    Here without offsets: right after a restart those of a new client may have none either.
    """
    broker = dedicated_broker()
    kafka = ConfluentKafka(broker.bootstrap)
    kafka.admin().create_topic("t", partitions=1, config={})
    transaction = kafka.transactional_producer("id", transaction_timeout_ms=10_000)
    transaction.initialise(WAIT_S)
    transaction.begin()
    transaction.produce(numbered("t", [1])[0])
    transaction.commit(WAIT_S)
    before = transaction._producer

    def has_lost_them() -> bool:
        before.poll(0.05)
        return transaction._brokers.were_lost

    broker.kill()
    wait_until(has_lost_them, about="a client without brokers", timeout_s=WAIT_S)
    broker.start()
    transaction.begin()
    assert transaction._producer is not before
    transaction.produce(numbered("t", [2])[0])
    transaction.commit(WAIT_S)
    now = transaction._producer
    transaction.begin()
    assert transaction._producer is now, "once an outage"
    transaction.close()
    assert committed_values(kafka, "t") == [1, 2]


def test_an_id_that_others_use_too_is_taken_over_at_initialise_alone(
    dedicated_broker: Callable[[], LocalBroker],
) -> None:
    """Of ACK-10: after an outage `begin` took it over again, and wrote by what was read before: a branch twice."""
    broker = dedicated_broker()
    kafka = ConfluentKafka(broker.bootstrap)
    kafka.admin().create_topic("t", partitions=1, config={})
    first, second = (
        kafka.transactional_producer("id", transaction_timeout_ms=10_000, is_contended=True) for _ in range(2)
    )
    first.initialise(WAIT_S)

    def has_lost_them() -> bool:
        first._producer.poll(0.05)
        return first._brokers.were_lost

    broker.kill()
    wait_until(has_lost_them, about="a client without brokers", timeout_s=WAIT_S)
    broker.start()
    second.initialise(WAIT_S)
    second.begin()
    second.produce(numbered("t", [1])[0])
    second.commit(WAIT_S)
    with pytest.raises(TransactionAborted, match="the brokers were lost"):
        first.begin()
    first.close()
    second.begin()
    second.produce(numbered("t", [2])[0])
    second.commit(WAIT_S)
    second.close()
    assert committed_values(kafka, "t") == [1, 2]


def test_an_abort_right_after_a_record_leaves_the_producer_usable(kafka: Kafka, topic: str) -> None:
    """The coordinator may just be hearing of the partition; its refusal then would cost the producer."""
    transaction = producer(kafka)
    for number in range(60):
        transaction.begin()
        transaction.produce(numbered(topic, [number])[0])
        if number % 2:
            transaction.abort(WAIT_S)
        else:
            transaction.commit(WAIT_S)
    assert committed_values(kafka, topic) == list(range(0, 60, 2))
    transaction.close()


def test_a_transaction_begun_twice_is_refused(kafka: Kafka) -> None:
    transaction = producer(kafka)
    transaction.begin()
    with pytest.raises(KafkaClientError):
        transaction.begin()
    transaction.close()


def test_an_offset_without_a_member_tells_how_the_last_transaction_ended(kafka: Kafka, topic: str) -> None:
    """LOG-5: read behind `initialise` by the same id, it is what the transaction left, whatever others have open."""
    transaction, admin = producer(kafka), kafka.admin()
    group = f"{topic}.mark"
    for text, ends in (("first", True), ("second", False)):
        transaction.begin()
        transaction.send_offsets(None, group, topic, {0: CommittedOffset(0, text)})
        if ends:
            transaction.commit(WAIT_S)
    transaction.abort(WAIT_S)
    other = producer(kafka)
    other.begin()
    other.send_offsets(None, f"{group}-other", topic, {0: CommittedOffset(0, "open")})
    assert admin.committed(group, topic, [0]) == {0: CommittedOffset(0, "first")}
    other.abort(WAIT_S)
    admin.delete_groups([group, f"{group}-never-there"])
    assert admin.committed(group, topic, [0]) == {}
    for used in (transaction, other):
        used.close()


def test_the_number_of_what_is_parked_commits_with_its_groups_offset_or_not_at_all(kafka: Kafka, topic: str) -> None:
    """LOG-11: two groups in one transaction, of which one has a member."""
    group, companion = f"{topic}-g", companion_of(f"{topic}-g")
    consumer, admin, transaction = member(kafka, group, topic), kafka.admin(), producer(kafka)
    consume_until(lambda: bool(consumer.assignment()), consumer)

    def write(number: int) -> None:
        transaction.begin()
        text = f"jbm.f.0:{number}"
        transaction.send_offsets(consumer.group_metadata(), group, topic, {0: CommittedOffset(10 + number, text)})
        transaction.send_offsets(None, companion, topic, {0: CommittedOffset(number, text)})

    write(1)
    transaction.commit(WAIT_S)
    write(2)
    transaction.abort(WAIT_S)
    found = [admin.committed(each, topic, [0])[0] for each in (group, companion)]
    assert found == [CommittedOffset(11, "jbm.f.0:1"), CommittedOffset(1, "jbm.f.0:1")]
    admin.delete_groups([companion])
    assert admin.committed(companion, topic, [0]) == {}
    for used in (transaction, consumer):
        used.close()
