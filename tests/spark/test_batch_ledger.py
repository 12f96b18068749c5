"""What a part of a batch records of itself, by producers that take over from each other, without Spark."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from random import Random
from uuid import uuid4

import pytest

from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.ports import KafkaClientError, Outgoing
from jbm_kafka.registry.own_topics import ledger_topic
from jbm_spark.batch_ledger import LedgerEntry, LedgerProducer, ledger_end, make_ledger, retire
from jbm_spark.batch_parts import BatchParts, PlacedRow
from jbm_spark.errors import WriteError
from jbm_spark.record_transaction import BatchTarget
from tests.spark.conftest import Topics
from tests.spark.records import Record

END_S = 60
LARGE = 66 * 2**20


@contextmanager
def producer(kafka: ConfluentKafka, name: str, namespace: str = "") -> Iterator[LedgerProducer]:
    with closing(LedgerProducer(kafka, name, ledger=ledger_topic(namespace))) as made:
        yield made


def test_who_takes_over_sees_what_was_written_and_a_zombie_writes_nothing(topics: Topics) -> None:
    """SPARK-3: also when the group's offset is forgotten; a batch before the last is refused."""
    kafka, name, queue = ConfluentKafka(topics.bootstrap), f"jbm.spark.{uuid4()}-0", topics.create()
    with closing(kafka.admin()) as admin:
        make_ledger(admin, "")
    with producer(kafka, name) as zombie:
        assert not zombie.has_written(0)
        assert zombie.write([Outgoing(queue, 0, b"u", b"0")], lambda: LedgerEntry(0)) == 1

        def taken_over() -> Iterator[Outgoing]:
            yield Outgoing(queue, 0, b"u", b"of the zombie")
            with producer(kafka, name) as successor:
                assert successor.has_written(0)
                assert not successor.has_written(1)
                successor.write([Outgoing(queue, 0, b"u", b"1")], lambda: LedgerEntry(1))

        with pytest.raises(KafkaClientError):
            zombie.write(taken_over(), lambda: LedgerEntry(1))
    with closing(kafka.admin()) as admin:
        admin.delete_groups([name])
    with producer(kafka, name) as last:
        assert last.has_written(1)
        assert not last.has_written(2)
        with pytest.raises(WriteError, match=r"^batch 0 comes after batch 1 was written: .* new checkpoint"):
            last.has_written(0)
    assert [record.value() for record in topics.read(queue)] == [b"0", b"1"]


def test_who_begins_does_not_wait_for_a_transaction_that_another_has_left(topics: Topics) -> None:
    """SPARK-3: a killed process held up each new query and job for five minutes. What is ours behind it is waited
    for, or it would be written twice."""
    kafka, namespace, queue = ConfluentKafka(topics.bootstrap), uuid4().hex[:12], topics.create()
    name = f"jbm.spark.{uuid4()}-0"
    with closing(kafka.admin()) as admin:
        make_ledger(admin, namespace)
    killed = topics.write(ledger_topic(namespace), [Record(key=b"another", value=b"{}")], transactional_id=f"{uuid4()}")

    def has_written(batch: int) -> bool:
        with producer(kafka, name, namespace) as made:
            return made.has_written(batch)

    begun_s = time.monotonic()
    with producer(kafka, name, namespace) as first:
        assert not first.has_written(0)
        assert first.write([Outgoing(queue, 0, b"u", b"0")], lambda: LedgerEntry(0)) == 1
    assert time.monotonic() - begun_s < END_S
    with closing(kafka.admin()) as admin:
        admin.delete_groups([name])
    with ThreadPoolExecutor() as threads:
        found = threads.submit(has_written, 0)
        with pytest.raises(TimeoutError):
            found.result(timeout=1)
        killed.abort_transaction()
        assert found.result(END_S)


def test_a_message_of_any_size_that_its_topic_takes_is_written(topics: Topics) -> None:
    """SPARK-3: one larger than the producer's queue, 64 MB, found no room there, at each start for ever. Compressed, it
    is small."""
    queue, name = topics.create(), f"jbm.spark.{uuid4()}-0"
    with closing(ConfluentKafka(topics.bootstrap).admin()) as admin:
        make_ledger(admin, "")
        admin.alter_config(queue, {"max.message.bytes": f"{LARGE}"})
    target = BatchTarget(topics.bootstrap, {}, "", queue, LARGE, name, 0)
    with closing(target.open(name)) as large:
        assert large.write([Outgoing(queue, 0, b"u", bytes(LARGE - 1_000))], lambda: LedgerEntry(0)) == 1
    assert topics.count(queue) == 2  # with the transaction's mark


def test_of_records_of_which_kafka_refuses_one_nothing_is_written(topics: Topics) -> None:
    """SPARK-3: the error names the partition and the reason, though no other record is reported."""
    kafka, name, queue = ConfluentKafka(topics.bootstrap), f"jbm.spark.{uuid4()}-0", topics.create()
    with closing(kafka.admin()) as admin:
        make_ledger(admin, "")
    small = [Outgoing(queue, 0, b"u", b"%d" % number) for number in range(1_000)]
    too_large = Outgoing(queue, 0, b"u", Random(1).randbytes(2_000_000))
    reason = rf"records refused: {queue}\[0\]: .*too large"
    with producer(kafka, name) as refused, pytest.raises(KafkaClientError, match=reason):
        refused.write([*small, too_large, *small], lambda: LedgerEntry(0))
    with producer(kafka, name) as next_:
        assert not next_.has_written(0)
        assert next_.write(small, lambda: LedgerEntry(0)) == len(small)
    assert [record.value() for record in topics.read(queue)] == [record.value for record in small]


def test_a_batch_goes_on_behind_the_parts_that_are_committed(topics: Topics) -> None:
    """SPARK-3: killed in the midst of its second part, by a task that takes over; its zombie's part is not there.
    Another batch is refused meanwhile."""
    kafka, name, queue = ConfluentKafka(topics.bootstrap), f"jbm.spark.{uuid4()}-0", topics.create()
    with closing(kafka.admin()) as admin:
        make_ledger(admin, "")

    def rows(stop: int = 10) -> Iterator[PlacedRow]:
        for number in range(10):
            if number == stop:
                with producer(kafka, name) as successor:
                    assert not successor.has_written(5)
                    with pytest.raises(WriteError, match="batch 6 comes, and of batch 5 only 4 rows were written"):
                        successor.has_written(6)
                    assert successor.write_parts(5, BatchParts(rows(), rows_max=5)) == 6
                    assert successor.has_written(5)
            yield Outgoing(queue, 0, b"u", b"%d" % number), number, number

    with producer(kafka, name) as zombie, pytest.raises(KafkaClientError):
        zombie.write_parts(5, BatchParts(rows(stop=7), rows_max=5))
    with producer(kafka, name) as last:
        assert last.write_parts(5, BatchParts(rows(), rows_max=5)) == 0
    assert [record.value() for record in topics.read(queue)] == [b"%d" % number for number in range(10)]


def test_a_run_looks_up_what_came_since_it_began_and_leaves_nothing(topics: Topics) -> None:
    """Each task of a batch of format jbm read the whole ledger, and left a group. One that comes late is refused."""
    kafka, run, queue = ConfluentKafka(topics.bootstrap), f"jbm.spark.{uuid4().hex}", topics.create()
    with closing(kafka.admin()) as admin:
        make_ledger(admin, "")
        since = ledger_end(admin, "")

    @contextmanager
    def task(number: int) -> Iterator[LedgerProducer]:
        with closing(LedgerProducer(kafka, f"{run}-{number}", ledger=ledger_topic(""), since=since)) as made:
            yield made

    for number in range(2):
        with task(number) as first:
            assert not first.has_written(0)
            first.write([Outgoing(queue, 0, b"u", b"%d" % number)], lambda: LedgerEntry(0, "1 rows"))
    with task(1) as tried_again:
        assert tried_again.has_written(0)
    retire(kafka, [f"{run}-{number}" for number in range(2)], ledger=ledger_topic(""))
    with pytest.raises(WriteError, match="its run has ended"), task(1):
        pass
    with closing(kafka.admin()) as admin, closing(kafka.log_reader()) as reader:
        assert not [name for name in admin.groups() if name.startswith(run)]
        found = reader.read(ledger_topic(""), {0: (since, ledger_end(admin, ""))}, timeout_s=60)
        last = {record.key(): record.value() for record in found if (record.key() or b"").startswith(run.encode())}
    assert last == {f"{run}-{number}".encode(): None for number in range(2)}
