"""The JBoss core interfaces (`jbm_kafka.contract`) in one process, over the same core that serves Kafka.

It is for readers of the specification: applications use `jbm_kafka`, which is made without it.
"""

from jbm_kafka.local.channel import QueueChannel, TopicChannel
from jbm_kafka.local.channel_messages import LocalMessage
from jbm_kafka.local.message_store import MemoryMessageStore
from jbm_kafka.local.persistence_managers import MemoryPersistenceManager, RocksPersistenceManager
from jbm_kafka.local.transactions import LocalTransactionManager

__all__ = [
    "LocalMessage",
    "LocalTransactionManager",
    "MemoryMessageStore",
    "MemoryPersistenceManager",
    "QueueChannel",
    "RocksPersistenceManager",
    "TopicChannel",
]
