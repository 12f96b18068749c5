"""The transactions that the coordinators of the in-memory Kafka know."""

from jbm_kafka.memory.memory_cluster import TransactionalId
from jbm_kafka.memory.memory_log import MemoryTransaction, TransactionOutcome
from jbm_kafka.memory.memory_process import Process
from jbm_kafka.ports import FoundTransactions, OpenTransaction

_STATES = {
    TransactionOutcome.OPEN: "Ongoing",
    TransactionOutcome.COMMITTED: "PrepareCommit",
    TransactionOutcome.ABORTED: "PrepareAbort",
}


class MemoryTransactionLog:
    """Implements `ports.TransactionLog`."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._cluster = process.cluster

    def open_on(self, topic: str, partition: int) -> FoundTransactions:
        self._process.check()
        with self._cluster.changed:
            self._cluster.tick()
            log = self._cluster.log(topic, partition)
            found = [
                self._row(producer_id, name, state, transaction)
                for producer_id, (name, state) in enumerate(self._cluster.transactional_ids().items())
                for transaction in (state.transaction or state.unmarked,)
                if transaction is not None and log in transaction.logs
            ]
        return FoundTransactions(tuple(sorted(found, key=lambda each: each.began_at_ms)), is_whole=True)

    def _row(
        self, producer_id: int, name: str, state: TransactionalId, transaction: MemoryTransaction
    ) -> OpenTransaction:
        clock = self._cluster.clock
        age_ms = clock.monotonic_ms() - transaction.began_at_ms
        return OpenTransaction(
            name, producer_id, _STATES[transaction.outcome], clock.now_ms() - age_ms, state.timeout_ms
        )

    def close(self) -> None:
        """Nothing to do."""
