"""The rows of files as messages of a queue."""

from jbm_spark.jobs.load.load_run import Loaded, run

__all__ = ["Loaded", "run"]
