"""The JBoss core interfaces (`jbm_kafka.contract`) in one process, over the same core that serves Kafka."""

from jbm_kafka.local.memory import MemoryMessageStore, MemoryPersistenceManager
from jbm_kafka.local.queue_channel import QueueChannel
from jbm_kafka.local.transactions import LocalTransactionManager

__all__ = ["LocalTransactionManager", "MemoryMessageStore", "MemoryPersistenceManager", "QueueChannel"]
