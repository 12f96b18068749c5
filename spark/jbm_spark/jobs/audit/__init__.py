"""The job that looks for what must never happen to a message."""

from jbm_spark.jobs.audit.audit_result import FAULTS, AuditedQueues, AuditResult, Finding
from jbm_spark.jobs.audit.run_audit import run, run_queues

__all__ = ["FAULTS", "AuditResult", "AuditedQueues", "Finding", "run", "run_queues"]
