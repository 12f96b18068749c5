"""Looking after queues: create, list, count, browse. What only looks, joins no group and writes nothing."""

from jbm_kafka.admin.admin import Admin
from jbm_kafka.admin.counts import PartitionCounts, QueueCounts

__all__ = ["Admin", "PartitionCounts", "QueueCounts"]
