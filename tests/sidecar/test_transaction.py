"""Whether a checkpoint was committed is found out rightly, whatever others do meanwhile."""

from __future__ import annotations

import pytest

from jbm_kafka.memory.memory_kafka import CommitFault, MemoryCluster, MemoryKafka
from jbm_kafka.ports import CommittedOffset, OutcomeUnknown, Outgoing, TransactionAborted
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Transfer
from jbm_kafka.sidecar.checkpoints.transaction import HANGS_AFTER, TransactionWriter
from tests.sidecar.parts import run_beside, writer_of
from tests.support.manual_clock import ManualClock

TRANSFER = Transfer(about="a commit", sends=(Outgoing("out", 0, None, b"body"),), settlings=())


@pytest.fixture
def cluster() -> MemoryCluster:
    cluster = MemoryCluster(ManualClock(), waits=False)
    cluster.create_topic("out", 1, {})
    return cluster


def found_out(cluster: MemoryCluster, writer: TransactionWriter, fault: CommitFault) -> list[bool]:
    """Loses the answer to a commit with sends; one entry once it is known what became of it."""
    cluster.faults.commits.append(fault)
    name = writer.next_id()
    with pytest.raises(OutcomeUnknown):
        list(writer.commit((), [TRANSFER], name))
    steps, answers = writer.find_out((), name), list[bool]()

    def ask() -> None:
        try:
            next(steps)
        except StopIteration as end:
            answers.append(end.value)

    ask()
    if not answers:
        cluster.clock.advance(60_000)  # type: ignore[attr-defined]
        ask()
    return answers


@pytest.mark.parametrize(("fault", "is_there"), [(CommitFault.COMMITTED, True), (CommitFault.NOT_HEARD, False)])
def test_a_lost_answer_is_found_out(cluster: MemoryCluster, fault: CommitFault, is_there: bool) -> None:
    """LOG-5: released or redone, never both."""
    writer = writer_of(cluster)
    assert found_out(cluster, writer, fault) == [is_there]
    records, _ = cluster.log("out", 0).read(0, 10, committed_only=True)
    assert bool(records) is is_there


def test_a_commit_of_receives_alone_is_found_out(cluster: MemoryCluster) -> None:
    """ACK-7: its group's offset may be another owner's by then; told rolled back, it would wait for them for ever."""
    writer = writer_of(cluster)
    cluster.faults.commits.append(CommitFault.COMMITTED)
    name = writer.next_id()
    with pytest.raises(OutcomeUnknown):
        list(writer.commit((), [Transfer(about="a commit", sends=(), settlings=())], name))
    with pytest.raises(StopIteration) as end:
        next(writer.find_out((), name))
    assert end.value.value is True


def test_what_kafka_left_open_of_a_checkpoint_is_ended_by_another(cluster: MemoryCluster) -> None:
    """LOG-5: a worker stood still for good after a broker's restart, and every reader of its partitions with it."""
    writer = writer_of(cluster)
    cluster.faults.commits.append(CommitFault.NOT_HEARD)
    name = writer.next_id()
    with pytest.raises(OutcomeUnknown):
        list(writer.commit((), [TRANSFER], name))
    cluster.faults.forgotten_marks = 1  # its coordinator aborts it
    steps = writer.find_out((), name)
    for _ in range(HANGS_AFTER):
        next(steps)
        assert cluster.log("out", 0).stable_end == 0
    assert run_beside(writer, steps) is False
    assert cluster.log("out", 0).stable_end == cluster.log("out", 0).end
    list(writer.commit((), [TRANSFER], writer.next_id()))
    records, _ = cluster.log("out", 0).read(0, 10, committed_only=True)
    assert len(records) == 1


def test_what_cannot_be_written_once_more_keeps_no_answer_back(cluster: MemoryCluster) -> None:
    """LOG-5: a topic that was deleted meanwhile, or a client that cannot begin, would have been in the way for ever."""
    for is_begun in (True, False):
        writer = writer_of(cluster)
        cluster.faults.commits.append(CommitFault.NOT_HEARD)
        name = writer.next_id()
        with pytest.raises(OutcomeUnknown):
            list(writer.commit((), [TRANSFER], name))
        cluster.faults.forgotten_marks = 1
        steps = writer.find_out((), name)
        for _ in range(HANGS_AFTER):
            next(steps)
        if is_begun:
            cluster.faults.leaderless = frozenset({("out", 0)})
        else:
            writer._pool.producer.begin()  # so that the next one is refused
        assert run_beside(writer, steps) is False
        cluster.faults.leaderless = frozenset()


def test_topics_that_are_gone_are_named(cluster: MemoryCluster) -> None:
    """Of LOG-5: what a refused transaction wrote to and is not there; whoever wrote it is left out of the next."""
    gone = Transfer(about="a commit", sends=(Outgoing("gone", 0, None, b"body"),), settlings=())
    assert writer_of(cluster).missing_topics((), [TRANSFER, gone]) == {"gone"}


def test_an_open_transaction_of_another_sidecar_delays_no_answer(cluster: MemoryCluster) -> None:
    """LOG-5: the mark stood in a log of all sidecars, and whoever looked for it waited for the others' transactions."""
    writer = writer_of(cluster)
    list(writer.commit((), [TRANSFER], writer.next_id()))
    other = MemoryKafka(cluster).transactional_producer("jbm.two.0", transaction_timeout_ms=10_000)
    other.initialise(1.0)
    other.begin()
    other.produce(Outgoing("jbm.registry", 0, b"checkpoint|jbm.two.0", b"jbm.two.0:1"))
    other.send_offsets(None, "jbm.two.0.mark", "jbm.registry", {0: CommittedOffset(0, "jbm.two.0:1")})
    cluster.faults.commits.append(CommitFault.COMMITTED)
    name = writer.next_id()
    with pytest.raises(OutcomeUnknown):
        list(writer.commit((), [TRANSFER], name))
    with pytest.raises(StopIteration) as end:
        next(writer.find_out((), name))
    assert end.value.value is True


def test_a_producer_that_cannot_begin_is_made_anew(cluster: MemoryCluster) -> None:
    """Of LOG-5: else no checkpoint would ever be written again."""
    writer = writer_of(cluster)
    given_up = writer.commit((), [TRANSFER], writer.next_id())
    next(given_up)
    with pytest.raises(TransactionAborted, match="begin"):
        list(writer.commit((), [TRANSFER], writer.next_id()))
    list(writer.commit((), [TRANSFER], writer.next_id()))
    records, _ = cluster.log("out", 0).read(0, 10, committed_only=True)
    assert len(records) == 1
