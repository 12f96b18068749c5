"""The command `jbm-spark`. A folder of its own: it imports the jobs, which import what stands above it."""

from jbm_spark.cli.job_command import main

__all__ = ["main"]
