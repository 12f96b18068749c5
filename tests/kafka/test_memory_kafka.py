"""What only the in-memory Kafka does: faults on demand, processes that die, a clock by hand, one thread for all."""

import pytest

from jbm_kafka.memory.memory_kafka import CommitFault, MemoryCluster, MemoryKafka, ProcessCrashed
from jbm_kafka.ports import (
    CommittedOffset,
    GroupFenced,
    KafkaClientError,
    LeaderMissing,
    OutcomeUnknown,
    Outgoing,
    TransactionAborted,
    Unreachable,
)
from tests.kafka.world import SESSION_TIMEOUT_MS, Listener, member, numbered, producer, values
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> MemoryCluster:
    """Brokers that never make anyone wait, with one topic `t` of two partitions."""
    made = MemoryCluster(clock, waits=False)
    made.create_topic("t", 2, {})
    return made


def _visible(cluster: MemoryCluster) -> list[int]:
    admin = MemoryKafka(cluster).admin()
    ends = admin.end_positions("t", [0, 1], stable=True)
    ranges = {partition: (0, end) for partition, end in ends.items()}
    return values(MemoryKafka(cluster).log_reader().read("t", ranges, timeout_s=0))


def test_nothing_waits_when_told_not_to(cluster: MemoryCluster) -> None:
    kafka = MemoryKafka(cluster)
    consumer = member(kafka, "g", "t")
    assert not consumer.consume(10, 1_000)
    assert consumer.assignment() == {0, 1}
    transaction = producer(kafka)
    transaction.begin()
    transaction.send_offsets(consumer.group_metadata(), "g", "t", {0: CommittedOffset(1, "")})
    with pytest.raises(Unreachable):
        kafka.admin().committed("g", "t", [0])
    with pytest.raises(Unreachable):
        kafka.log_reader().read("t", {0: (0, 1)}, timeout_s=1_000)


@pytest.mark.parametrize(("fault", "seen"), [(CommitFault.COMMITTED, [1]), (CommitFault.NOT_HEARD, [])])
def test_a_commit_of_unknown_outcome_is_settled_by_the_next_user_of_the_id(
    cluster: MemoryCluster, fault: CommitFault, seen: list[int]
) -> None:
    kafka = MemoryKafka(cluster)
    transaction = producer(kafka, "id")
    cluster.faults.commits.append(fault)
    transaction.begin()
    transaction.produce(numbered("t", [1])[0])
    with pytest.raises(OutcomeUnknown):
        transaction.commit(1)
    successor = producer(kafka, "id")
    assert _visible(cluster) == seen
    successor.begin()
    successor.produce(numbered("t", [2])[0])
    successor.commit(1)
    assert _visible(cluster) == [*seen, 2]


def test_a_record_refused_on_demand_is_named(cluster: MemoryCluster) -> None:
    cluster.faults.refuse = lambda record: "disk full" if record.value == b"2" else None
    transaction = producer(MemoryKafka(cluster))
    transaction.begin()
    for record in numbered("t", [1, 2, 3]):
        transaction.produce(record, record.value)
    with pytest.raises(TransactionAborted, match="disk full") as caught:
        transaction.commit(1)
    assert caught.value.failed == {b"2"}
    transaction.abort(1)
    assert _visible(cluster) == []


def test_a_crash_loses_queued_sends_and_what_was_not_committed(cluster: MemoryCluster, clock: ManualClock) -> None:
    kafka = MemoryKafka(cluster)
    sender, transaction = kafka.sender(), producer(kafka, "id")
    reports: list[object] = []
    sender.send(numbered("t", [1])[0], reports.append)
    kafka.deliver()
    sender.send(numbered("t", [2])[0], reports.append)
    transaction.begin()
    transaction.produce(numbered("t", [3])[0])
    kafka.crash()
    with pytest.raises(ProcessCrashed):
        kafka.sender()
    with pytest.raises(ProcessCrashed):
        transaction.commit(1)
    kafka.deliver()
    assert reports == [None]
    assert MemoryKafka(cluster).admin().end_positions("t", [0], stable=True) == {0: 1}
    clock.advance(10_001)  # the brokers end its transaction
    assert MemoryKafka(cluster).admin().end_positions("t", [0], stable=True) == {0: 3}
    assert _visible(cluster) == [1]


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    cluster: MemoryCluster, clock: ManualClock
) -> None:
    transaction = producer(MemoryKafka(cluster), "id")
    transaction.begin()
    transaction.produce(numbered("t", [1])[0])
    clock.advance(10_001)
    with pytest.raises(OutcomeUnknown, match="fenced"):
        transaction.commit(1)
    assert _visible(cluster) == []


def test_a_crashed_members_partitions_move_after_its_session_timeout(
    cluster: MemoryCluster, clock: ManualClock
) -> None:
    dying, other = MemoryKafka(cluster), member(MemoryKafka(cluster), "g", "t")
    first = member(dying, "g", "t")
    for _ in range(2):
        first.consume(1, 0)
        other.consume(1, 0)
    assert first.assignment() == {0}
    assert other.assignment() == {1}
    dying.crash()
    clock.advance(SESSION_TIMEOUT_MS)
    other.consume(1, 0)
    assert other.assignment() == {1}
    clock.advance(1)
    other.consume(1, 0)
    assert other.assignment() == {0, 1}
    with pytest.raises(ProcessCrashed):
        first.consume(1, 0)


def test_a_frozen_member_is_told_of_its_loss_and_joins_anew(cluster: MemoryCluster, clock: ManualClock) -> None:
    kafka, listener = MemoryKafka(cluster), Listener()
    consumer = member(kafka, "g", "t", listener)
    consumer.consume(1, 0)
    stale = consumer.group_metadata()
    kafka.freeze()
    clock.advance(SESSION_TIMEOUT_MS + 1)
    kafka.thaw()
    transaction = producer(kafka)
    transaction.begin()
    with pytest.raises(GroupFenced):
        transaction.send_offsets(stale, "g", "t", {0: CommittedOffset(1, "")})
    with pytest.raises(GroupFenced):
        consumer.group_metadata()
    consumer.consume(1, 0)
    assert listener.told == [("assigned", (0, 1)), ("lost", (0, 1)), ("assigned", (0, 1))]


def test_a_member_that_is_closed_before_it_heard_of_its_loss_is_told_so_then(
    cluster: MemoryCluster, clock: ManualClock
) -> None:
    """Of LOG-6: that they were taken, and not that it gives them up."""
    kafka, listener = MemoryKafka(cluster), Listener()
    consumer = member(kafka, "g", "t", listener)
    consumer.consume(1, 0)
    kafka.freeze()
    clock.advance(SESSION_TIMEOUT_MS + 1)
    kafka.thaw()
    consumer.close()
    assert listener.told == [("assigned", (0, 1)), ("lost", (0, 1))]


def test_a_step_can_be_made_the_last(cluster: MemoryCluster) -> None:
    kafka = MemoryKafka(cluster)
    transaction = producer(kafka, "id")
    steps: list[str] = []

    def crash_before_commit(_: str, step: str) -> None:
        steps.append(step)
        if step == "commit":
            kafka.crash()
            raise ProcessCrashed

    cluster.faults.step = crash_before_commit
    transaction.begin()
    transaction.produce(numbered("t", [1])[0])
    with pytest.raises(ProcessCrashed):
        transaction.commit(1)
    assert steps == ["begin", "produce", "commit"]
    cluster.faults.step = None
    producer(MemoryKafka(cluster), "id")
    assert _visible(cluster) == []


def test_compaction_keeps_the_last_of_each_key_and_leaves_holes(cluster: MemoryCluster) -> None:
    kafka = MemoryKafka(cluster)
    sender = kafka.sender()
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None)):
        sender.send(Outgoing("t", 0, key, value), None)
    assert sender.flush(0)
    cluster.log("t", 0).compact()
    records = kafka.log_reader().read("t", {0: (0, 4)}, timeout_s=0)
    assert [(record.offset(), record.value()) for record in records] == [(2, b"3")]


def test_a_record_for_a_compacted_topic_needs_a_key(cluster: MemoryCluster) -> None:
    cluster.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    errors: list[object] = []
    kafka = MemoryKafka(cluster)
    kafka.sender().send(Outgoing("compacted", 0, None, b""), errors.append)
    kafka.deliver()
    assert "needs keys" in str(errors[0])


def test_a_wall_clock_that_jumps_ends_no_session(cluster: MemoryCluster, clock: ManualClock) -> None:
    kafka = MemoryKafka(cluster)
    transaction = producer(kafka)
    transaction.begin()
    clock.jump(3_600_000)
    transaction.produce(numbered("t", [1])[0])
    transaction.commit(1)
    [record] = kafka.log_reader().read("t", {0: (0, 1)}, timeout_s=0)
    assert record.timestamp() == (1, clock.now_ms())
    assert clock.monotonic_ms() == 0


def test_a_plain_send_to_a_partition_without_a_leader_says_so_when_it_is_given_up(
    cluster: MemoryCluster, clock: ManualClock
) -> None:
    """As the real one does; nothing is written, nor later when the leader is back."""
    kafka, told = MemoryKafka(cluster, send_timeout_ms=1_000), list[KafkaClientError | None]()
    cluster.faults.leaderless = frozenset({("t", 0)})
    sender = kafka.sender()
    sender.send(Outgoing("t", 0, b"u", b"1"), told.append)
    kafka.deliver()
    assert not told
    clock.advance(1_001)
    kafka.deliver()
    (failure,) = told
    assert isinstance(failure, LeaderMissing)
    cluster.faults.leaderless = frozenset()
    kafka.deliver()
    assert cluster.log("t", 0).end == 0


def test_a_committed_offset_is_not_told_before_its_transaction_is_marked(
    cluster: MemoryCluster, clock: ManualClock
) -> None:
    """As brokers do: who takes a partition over in between would begin where the transaction began."""
    kafka = MemoryKafka(cluster)
    cluster.faults.marks_ms = lambda: 50
    transaction = producer(kafka)
    transaction.begin()
    transaction.send_offsets(None, "g", "t", {0: CommittedOffset(7, "")})
    transaction.commit(1)
    with pytest.raises(Unreachable, match="a transaction on them is still open"):
        kafka.admin().committed("g", "t", [0])
    clock.advance(50)
    assert kafka.admin().committed("g", "t", [0]) == {0: CommittedOffset(7, "")}


def test_the_offsets_of_a_deleted_topic_go_with_it(cluster: MemoryCluster) -> None:
    """Of LOG-2: a topic made anew would begin behind messages that nobody has received."""
    admin = MemoryKafka(cluster).admin()
    admin.alter_offsets("g", "t", {0: CommittedOffset(7, "")})
    admin.delete_topics(["t"])
    admin.create_topic("t", partitions=2, config={})
    assert admin.committed("g", "t", [0]) == {}
