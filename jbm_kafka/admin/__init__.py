"""Looking after queues and topics: make, delete, list, count, browse, send again. Who only looks joins no group."""

from jbm_kafka.admin.admin import Admin
from jbm_kafka.admin.counts import PartitionCounts, QueueCounts
from jbm_kafka.admin.deletion import DeletionReport
from jbm_kafka.admin.letters import DeadLetter, KeptLetter, LetterFilter, RetryReport
from jbm_kafka.admin.queue_look import QueueLook, Wait
from jbm_kafka.admin.subscription_counts import SubscriptionCounts

__all__ = [
    "Admin",
    "DeadLetter",
    "DeletionReport",
    "KeptLetter",
    "LetterFilter",
    "PartitionCounts",
    "QueueCounts",
    "QueueLook",
    "RetryReport",
    "SubscriptionCounts",
    "Wait",
]
