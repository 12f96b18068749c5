"""The job that keeps, for each hour of each queue, how good its service was."""

from jbm_spark.jobs.quality.quality_result import MeasuredQueues
from jbm_spark.jobs.quality.run_quality import run

__all__ = ["MeasuredQueues", "run"]
