"""Producers that take turns: nothing waits for the marks of the last commit, and nothing of the past stays open."""

from __future__ import annotations

import pytest

from jbm_kafka.memory.memory_kafka import CommitFault, MemoryCluster, MemoryKafka
from jbm_kafka.ports import CommittedOffset, KafkaClientError, OutcomeUnknown, Outgoing, TransactionAborted, Unreachable
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpoints.producer_pool import PRODUCERS, SOON_COUNT, SOON_MS
from jbm_kafka.sidecar.checkpoints.transaction import TransactionWriter
from tests.sidecar.parts import pool_of, run_beside, writer_of
from tests.support.manual_clock import ManualClock

TRANSFER = Transfer(about="a commit", sends=(Outgoing("out", 0, None, b"body"),), settlings=())
FOLDER = ("jbm.one.0", "jbm.one.0.1", "jbm.one.0.2")


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def cluster(clock: ManualClock) -> MemoryCluster:
    cluster = MemoryCluster(clock, waits=False)
    cluster.create_topic("out", 1, {})
    return cluster


def commit(writer: TransactionWriter) -> None:
    run_beside(writer, writer.commit((), [TRANSFER], writer.next_id()))


def bodies(cluster: MemoryCluster) -> int:
    records, _ = cluster.log("out", 0).read(0, 100, committed_only=True)
    return len(records)


def leave_open(cluster: MemoryCluster, transactional_id: str) -> None:
    """A process dies in the middle of a transaction."""
    killed = MemoryKafka(cluster).transactional_producer(transactional_id, transaction_timeout_ms=60_000)
    killed.initialise(1.0)
    killed.begin()
    killed.produce(Outgoing("out", 0, None, b"never"))


def test_commits_at_once_after_another_do_not_wait_for_marks(cluster: MemoryCluster, clock: ManualClock) -> None:
    """With one producer every commit was told "concurrent transactions" and waited 20 ms."""
    cluster.faults.marks_ms = lambda: 5
    writer = writer_of(cluster, has_past=True)
    for _ in range(20):
        commit(writer)
        clock.advance(2)
    assert cluster.waited_for_marks == 0
    clock.advance(5)
    assert bodies(cluster) == 20


def test_marks_out_of_order_leave_the_latest_offset(cluster: MemoryCluster, clock: ManualClock) -> None:
    """LOG-5: the next commit's marks may be written before those of the last."""
    delays = iter((50, 5, 20))
    cluster.faults.marks_ms = lambda: next(delays)
    kafka = MemoryKafka(cluster)
    for number in range(3):
        producer = kafka.transactional_producer(f"p{number}", transaction_timeout_ms=10_000)
        producer.initialise(1.0)
        producer.begin()
        producer.produce(Outgoing("out", 0, None, b"%d" % number))
        producer.send_offsets(None, "g", "out", {0: CommittedOffset(number, "")})
        producer.commit(1.0)
    clock.advance(30)
    assert bodies(cluster) == 0  # behind the first one's record, which is not marked
    with pytest.raises(Unreachable):
        kafka.admin().committed("g", "out", [0])
    clock.advance(30)
    assert bodies(cluster) == 3
    assert kafka.admin().committed("g", "out", [0]) == {0: CommittedOffset(2, "")}


def test_a_restart_ends_what_any_of_its_producers_left_open(cluster: MemoryCluster) -> None:
    """LOG-5: also the one that an older version, which had only one, left open under the first id."""
    for transactional_id in FOLDER:
        leave_open(cluster, transactional_id)
    writer = writer_of(cluster, has_past=True)
    run_beside(writer, writer.prepare())
    log = cluster.log("out", 0)
    assert log.stable_end == log.end


def test_no_producer_begins_before_every_past_is_ended(cluster: MemoryCluster) -> None:
    """LOG-5: what could not be initialised may still commit, behind what was written since."""
    refused = {FOLDER[2]}

    def step(transactional_id: str, step: str) -> None:
        if step == "initialise" and transactional_id in refused:
            raise KafkaClientError("not now")

    cluster.faults.step = step
    writer = writer_of(cluster, has_past=True)
    run_beside(writer, writer.prepare())
    for _ in range(3):
        with pytest.raises(KafkaClientError, match="not now"):
            commit(writer)
    refused.clear()
    commit(writer)
    assert bodies(cluster) == 1


@pytest.mark.parametrize("fault", list(CommitFault))
@pytest.mark.parametrize("turn", range(PRODUCERS))
def test_an_outcome_is_found_out_before_the_next_begins(cluster: MemoryCluster, fault: CommitFault, turn: int) -> None:
    """LOG-5: whichever producer it was, released or redone, never both."""
    steps: list[tuple[str, str]] = []
    writer = writer_of(cluster, has_past=True)
    run_beside(writer, writer.prepare())
    for _ in range(turn):
        commit(writer)
    cluster.faults.step = lambda transactional_id, step: steps.append((transactional_id, step))
    cluster.faults.commits.append(fault)
    name = writer.next_id()
    with pytest.raises(OutcomeUnknown):
        run_beside(writer, writer.commit((), [TRANSFER], name))
    answer = run_beside(writer, writer.find_out((), name))
    assert answer is (fault is CommitFault.COMMITTED)
    assert bodies(cluster) == turn + answer
    commit(writer)
    doubtful = next(transactional_id for transactional_id, step in steps if step == "commit")
    order = [(who, step) for who, step in steps if step in ("initialise", "begin")]
    assert order[1] == (doubtful, "initialise"), order
    assert bodies(cluster) == turn + answer + 1


def test_an_abort_without_an_answer_is_ended_before_the_redo(cluster: MemoryCluster) -> None:
    """LOG-5: through another producer the redo would stand behind what is still open, until its timeout."""
    writer = writer_of(cluster, has_past=True)
    run_beside(writer, writer.prepare())
    cluster.faults.refuse = lambda _: "no"

    def step(_: str, step: str) -> None:
        if step == "abort":
            raise OutcomeUnknown("no answer")

    cluster.faults.step = step
    with pytest.raises(KafkaClientError):
        commit(writer)
    cluster.faults.refuse = cluster.faults.step = None
    commit(writer)
    log = cluster.log("out", 0)
    assert (log.stable_end, bodies(cluster)) == (log.end, 1)


@pytest.mark.parametrize("is_answered", [True, False], ids=["answered", "unanswered"])
def test_after_an_abort_only_an_unanswered_one_makes_its_producer_anew(
    cluster: MemoryCluster, is_answered: bool
) -> None:
    """LOG-5: no record was refused here, after which its producer would be made anew for that alone."""
    writer = writer_of(cluster, has_past=True)
    run_beside(writer, writer.prepare())
    steps: list[tuple[str, str]] = []

    def step(transactional_id: str, step: str) -> None:
        steps.append((transactional_id, step))
        if step == "commit":
            raise TransactionAborted("no")
        if step == "abort" and not is_answered:
            raise OutcomeUnknown("no answer")

    cluster.faults.step = step
    with pytest.raises(TransactionAborted):
        commit(writer)
    cluster.faults.step = lambda transactional_id, step: steps.append((transactional_id, step))
    commit(writer)
    log = cluster.log("out", 0)
    assert (log.stable_end, bodies(cluster)) == (log.end, 1)
    begun = [step for _, step in steps if step in ("initialise", "begin")]
    assert begun == (["begin", "begin"] if is_answered else ["begin", "initialise", "begin"])


def test_a_producer_whose_record_was_refused_is_made_anew(cluster: MemoryCluster) -> None:
    """Of LOG-5: the refused record is a gap in its sequence, over which it would fail the records of its next turn."""
    writer = writer_of(cluster, has_past=True)
    run_beside(writer, writer.prepare())
    steps: list[tuple[str, str]] = []
    cluster.faults.step = lambda transactional_id, step: steps.append((transactional_id, step))
    cluster.faults.refuse = lambda _: "no"
    with pytest.raises(TransactionAborted):
        commit(writer)
    cluster.faults.refuse = None
    commit(writer)
    (first, _), *_ = steps
    assert [who for who, step in steps if step == "initialise"] == [first]


def test_a_process_without_a_past_makes_a_second_producer_only_when_commits_come_fast(
    cluster: MemoryCluster, clock: ManualClock
) -> None:
    made: list[str] = []

    def step(transactional_id: str, step: str) -> None:
        if step == "initialise":
            made.append(transactional_id)

    cluster.faults.step = step
    writer = writer_of(cluster)
    for _ in range(3 * SOON_COUNT):
        commit(writer)
        clock.advance(SOON_MS)
    assert made == [FOLDER[0]]
    for _ in range(4 * SOON_COUNT):
        commit(writer)
    assert made == list(FOLDER)


def test_the_marks_of_a_closed_sidecar_are_gone(cluster: MemoryCluster) -> None:
    """Each sidecar left a record in the registry for ever."""
    writer = writer_of(cluster, has_past=True)
    for _ in range(4):
        commit(writer)
    assert MemoryKafka(cluster).admin().committed(f"{FOLDER[1]}.mark", "jbm.registry", [0])
    writer.close()
    assert [MemoryKafka(cluster).admin().committed(f"{name}.mark", "jbm.registry", [0]) for name in FOLDER] == [{}] * 3
    assert cluster.log("jbm.registry", 0).end == 0


def test_a_producer_that_is_ready_after_the_close_is_closed(cluster: MemoryCluster, clock: ManualClock) -> None:
    """Left open its threads would live as long as the process."""
    pool = pool_of(MemoryKafka(cluster), clock)
    cluster.faults.step = lambda _, step: pool.close() if step == "initialise" else None
    list(pool.make_ready())
    assert all(member.producer is None for member in pool.members)
