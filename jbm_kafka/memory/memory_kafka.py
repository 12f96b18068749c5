"""An in-memory Kafka that passes the contract tests of the real one.

cluster = MemoryCluster(SystemClock())                  # the brokers
kafka = MemoryKafka(cluster)                            # one process that uses them
kafka.crash()                                           # nothing of it goes on; sessions and transactions time out
"""

from jbm_kafka.memory.memory_admin import MemoryAdmin, MemoryLogReader
from jbm_kafka.memory.memory_cluster import CommitFault, Faults, MemoryCluster
from jbm_kafka.memory.memory_consumer import MemoryGroupConsumer
from jbm_kafka.memory.memory_process import Process, ProcessCrashed
from jbm_kafka.memory.memory_producer import MemoryTransactionalProducer
from jbm_kafka.memory.memory_sender import MemorySender
from jbm_kafka.memory.memory_tail_reader import MemoryTailReader
from jbm_kafka.memory.memory_transaction_log import MemoryTransactionLog
from jbm_kafka.ports import GroupListener
from jbm_kafka.ports.installation import RECORD_TIMEOUT_MS

__all__ = ["CommitFault", "Faults", "MemoryCluster", "MemoryKafka", "ProcessCrashed"]


class MemoryKafka:
    """Implements `ports.Kafka` for one simulated process."""

    def __init__(self, cluster: MemoryCluster, *, admin_timeout_s: float = 10.0, send_timeout_ms: int = 30_000) -> None:
        self.cluster = cluster
        self._process = Process(self.cluster)
        self._admin_timeout_s = admin_timeout_s
        self._send_timeout_ms = send_timeout_ms
        self._senders: list[MemorySender] = []

    # -- the port ----------------------------------------------------------------------------------------------------

    def group_consumer(
        self,
        *,
        group: str,
        topic: str,
        partitions: int,
        listener: GroupListener,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        memory_bytes: int,
        client_id: str = "",
    ) -> MemoryGroupConsumer:
        """It waits in a rebalance for as long as it takes."""
        self._process.check()
        return MemoryGroupConsumer(
            self._process, group=group, topic=topic, listener=listener, session_timeout_ms=session_timeout_ms
        )

    def transactional_producer(
        self,
        transactional_id: str,
        *,
        transaction_timeout_ms: int,
        is_contended: bool = False,
        record_timeout_ms: int = RECORD_TIMEOUT_MS,
    ) -> MemoryTransactionalProducer:
        self._process.check()
        return MemoryTransactionalProducer(
            self._process, transactional_id, transaction_timeout_ms=transaction_timeout_ms
        )

    def sender(self, *, linger_ms: int = 0) -> MemorySender:
        self._process.check()
        sender = MemorySender(self._process, send_timeout_ms=self._send_timeout_ms)
        self._senders.append(sender)
        return sender

    def log_reader(self) -> MemoryLogReader:
        self._process.check()
        return MemoryLogReader(self._process)

    def tail_reader(self) -> MemoryTailReader:
        self._process.check()
        return MemoryTailReader(self._process)

    def transaction_log(self) -> MemoryTransactionLog:
        self._process.check()
        return MemoryTransactionLog(self._process)

    def admin(self) -> MemoryAdmin:
        self._process.check()
        return MemoryAdmin(self._process, timeout_s=self._admin_timeout_s)

    # -- what happens to the process ---------------------------------------------------------------------------------

    def crash(self) -> None:
        """The process ends as under SIGKILL: every later call of its clients raises ProcessCrashed.

        Queued sends are lost; members stay in their groups until the session timeout, transactions until theirs.
        """
        self._process.crash()

    def freeze(self) -> None:
        """The process stops as under SIGSTOP: make no calls until `thaw`. Its sessions run out meanwhile."""
        self._process.freeze()

    def thaw(self) -> None:
        self._process.thaw()

    def deliver(self) -> None:
        """Write and report queued sends now; for simulations without threads."""
        for sender in self._senders:
            sender.deliver()
