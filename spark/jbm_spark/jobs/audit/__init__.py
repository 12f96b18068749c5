"""The job that looks for what must never happen to a message."""

from jbm_spark.jobs.audit.audit_result import FAULTS, AuditResult, Finding
from jbm_spark.jobs.audit.run_audit import run

__all__ = ["FAULTS", "AuditResult", "Finding", "run"]
