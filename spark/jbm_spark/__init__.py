"""Spark reads jbm-kafka's topics: messages as typed columns, and the jobs operators want.

Spark only reads (and, later, produces) messages. It never acknowledges one and never writes a changelog, so a job
can run beside live receivers at any time. Needs the extra `spark`: PySpark.
"""
