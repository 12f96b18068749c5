"""The ledger of what a transactional id wrote last: recorded in the same transaction, and looked up by the id's next
producer.

It is recorded in two places. The first is an offset that a consumer group of the id's name commits, which is found in
milliseconds, and which Kafka forgets when nothing was committed for some days (`offsets.retention.minutes`). The second
is a compacted topic, which is read where the offset is missing, and which forgets nothing.
"""

import json
import re
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Self

from jbm_kafka.core.destination import with_namespace
from jbm_kafka.kafka import ConfluentKafka
from jbm_kafka.kafka.cluster_admin import ConfluentAdmin
from jbm_kafka.ports import CommittedOffset, KafkaClientError, KafkaRecord, Outgoing, Unreachable
from jbm_kafka.registry.own_topics import ledger_topic
from jbm_kafka.registry.topic_configs import LEDGER_CONFIG
from jbm_spark.batch_parts import BatchParts, Written
from jbm_spark.errors import WriteError

TRANSACTION_TIMEOUT_MS = 60_000
"""For one part of a batch. So long may a process that was killed, and not started again, hold receivers back."""
UNBOUNDED_TIMEOUT_MS = 300_000
"""The same for all rows of a task, however many they are. It is a third of what brokers allow."""
PATIENCE_S = 120.0
"""For brokers that are away, in each step."""
FENCE_S = 10.0
"""The same for what is good to have, and nobody relies on."""


def query_name(query: str, namespace: str) -> str:
    """How a query's transactional ids begin; each is a group and a key of the ledger, too."""
    return with_namespace(f"jbm.spark.{query}", namespace)


def make_ledger(admin: ConfluentAdmin, namespace: str) -> None:
    """Have the topic; a KafkaClientError says why it cannot be made."""
    if not admin.describe([ledger_topic(namespace)]):
        admin.create_topic(ledger_topic(namespace), partitions=1, config=LEDGER_CONFIG)


_PART = re.compile(r"part: ([0-9]+) rows, ([0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The entry of what one transactional id has written last."""

    number: int
    note: str = ""

    @classmethod
    def of_part(cls, batch: int, written: Written) -> Self:
        """Return the entry of a batch that is written in part.

        It has the next batch's number, for versions that know no parts: they refuse to go on, where the batch's own
        would have them take it for written.
        """
        return cls(batch + 1, f"part: {written.rows} rows, {written.digest:x}")

    @property
    def batch(self) -> int:
        """The latest of which something is written."""
        return self.number if self.part is None else self.number - 1

    @property
    def part(self) -> Written | None:
        """Return what is written of that batch; None: all."""
        found = _PART.fullmatch(self.note)
        return None if found is None else Written(int(found[1]), int(found[2], 16))


class LedgerProducer:
    """The one producer of its transactional id: those before it can write nothing more. One thread."""

    def __init__(
        self,
        kafka: ConfluentKafka,
        name: str,
        *,
        ledger: str,
        timeout_ms: int = TRANSACTION_TIMEOUT_MS,
        since: int | None = None,
    ) -> None:
        """`name` is the transactional id, the group and the key in the ledger.

        `since`: the position in the ledger before which there is nothing of the name, for one of a single run: it has
        no group, and `retire` ends it. Raises KafkaClientError; WriteError, where the run has ended.
        """
        self._kafka = kafka
        self._name = name
        self._ledger = ledger
        self._since = since
        self._producer = kafka.transactional_producer(
            name, transaction_timeout_ms=timeout_ms, is_contended=True, is_bulk=True
        )
        try:
            self._producer.initialise(PATIENCE_S, known_topic=ledger)
            # Only now: what an older producer committed while it was fenced has its marks by now.
            self.last = self._look_up()
        except BaseException:
            self._producer.close()
            raise

    @staticmethod
    def fence(kafka: ConfluentKafka, name: str, *, ledger: str) -> None:
        """End what producers of the name have open, and them. Raises KafkaClientError."""
        producer = kafka.transactional_producer(
            name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS, is_contended=True, is_bulk=True
        )
        with closing(producer):
            producer.initialise(FENCE_S, known_topic=ledger)

    def has_written(self, batch: int) -> bool:
        """Return True if all of the batch was written before.

        Raises:
            WriteError: a later one was, so the batch is another one than that of its number: to leave it out would lose
                its rows. Or an earlier one was left in the midst.
        """
        last = LedgerEntry(-1) if self.last is None else self.last
        if last.batch > batch:
            raise WriteError(
                f"batch {batch} comes after batch {last.batch} was written: the checkpoint is an older copy, or files "
                "of it were removed; begin with a new checkpoint, and with `starting` at the first that is not written"
            )
        if last.part is not None and last.batch < batch:
            raise WriteError(
                f"batch {batch} comes, and of batch {last.batch} only {last.part.rows} rows were written: it was "
                "repeated with other rows, or files of the checkpoint were changed; begin with a new checkpoint, and "
                "with `starting` at the first that is not written"
            )
        return last.batch == batch and last.part is None

    def write_parts(self, batch: int, parts: BatchParts) -> int:
        """Return what of the batch is not written yet, part by part; how many rows. Raises KafkaClientError or
        WriteError."""
        if self.has_written(batch):
            return 0
        if self.last is not None and self.last.batch == batch and self.last.part is not None:
            parts.pass_over(self.last.part)

        def entry() -> LedgerEntry:
            return LedgerEntry(batch) if parts.is_over else LedgerEntry.of_part(batch, parts.written)

        count = self.write(parts.next_part(), entry)
        while not parts.is_over:
            count += self.write(parts.next_part(), entry)
        return count

    def write(self, records: Iterable[Outgoing], entry: Callable[[], LedgerEntry]) -> int:
        """All of the records, with the entry as it is after them, or nothing; how many. Raises KafkaClientError."""
        self._producer.begin()
        count = self._producer.produce_all(records)
        done = entry()
        value = json.dumps({"number": done.number, "note": done.note}).encode()
        # The last record: from it to the commit the ledger's other readers wait.
        self._producer.produce(Outgoing(self._ledger, 0, self._name.encode(), value))
        if self._since is None:
            self._producer.send_offsets(None, self._name, self._ledger, {0: CommittedOffset(done.number, done.note)})
        self._producer.commit(PATIENCE_S)
        self.last = done
        return count

    def close(self) -> None:
        """Let go; what is open is aborted."""
        self._producer.close()

    def _look_up(self) -> LedgerEntry | None:
        with closing(self._kafka.admin()) as admin:
            if self._since is None:
                found = group_entry(admin, self._name, self._ledger, PATIENCE_S)
                if found is not None:
                    return found
            begin = self._since or admin.begin_positions(self._ledger, [0])[0]
            stable = admin.end_positions(self._ledger, [0], stable=True)[0]
            end = admin.end_positions(self._ledger, [0], stable=False)[0]
        key, last = self._name.encode(), None
        with closing(self._kafka.log_reader()) as reader:

            def ours(begin: int, end: int, *, committed_only: bool) -> list[KafkaRecord]:
                # An open transaction may hold the committed ones back for its whole time.
                found = reader.read(self._ledger, {0: (begin, end)}, timeout_s=UNBOUNDED_TIMEOUT_MS / 1000,
                                    committed_only=committed_only)  # fmt: skip
                return [record for record in found if record.key() == key]

            # Behind the stable end lies a transaction of others, for ours are over. They are waited for only where we
            # have written, too: else each that a killed process left would hold up all queries and jobs that begin.
            is_behind = bool(ours(max(begin, stable), end, committed_only=False))
            for record in ours(begin, end if is_behind else stable, committed_only=True):
                value = record.value()
                if value is None:
                    raise WriteError(f"{self._name}: its run has ended, and this task is one that it gave up")
                last = LedgerEntry(**json.loads(value))
        return last


def group_entry(admin: ConfluentAdmin, name: str, ledger: str, timeout_s: float) -> LedgerEntry | None:
    """What a transactional id has written last, where its group knows it still. Raises KafkaClientError."""
    found = admin.committed(name, ledger, [0], timeout_s=timeout_s).get(0)
    return None if found is None else LedgerEntry(found.position, found.metadata)


def ledger_end(admin: ConfluentAdmin, namespace: str) -> int:
    """The position behind all that is recorded now."""
    return admin.end_positions(ledger_topic(namespace), [0], stable=False)[0]


def retire(kafka: ConfluentKafka, names: Iterable[str], *, ledger: str) -> None:
    """The names of a run that has ended are forgotten; a task of it that comes late is refused. KafkaClientError."""
    failed: list[KafkaClientError] = []

    def hear(error: KafkaClientError | None) -> None:
        if error is not None:
            failed.append(error)

    sender = kafka.sender()
    try:
        for name in names:
            sender.send(Outgoing(ledger, 0, name.encode(), None), hear)
        is_done = sender.flush(PATIENCE_S)
    finally:
        sender.close(0)
    if not is_done:
        raise Unreachable(f"{ledger}: no answer in {PATIENCE_S:.0f} s")
    if failed:
        raise failed[0]
