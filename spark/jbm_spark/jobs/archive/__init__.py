"""The job that keeps messages, and what became of them, longer than Kafka does."""

from jbm_spark.jobs.archive.archive_result import Archived, ArchivedQueues
from jbm_spark.jobs.archive.run_archive import run, run_queues

__all__ = ["Archived", "ArchivedQueues", "run", "run_queues"]
