"""`jbm-spark JOB ...`: the jobs by name, each in a local Spark of its own; in the manner of `jbm-kafka`.

0: done. 1: it could not be done; one line on standard error says why and what to do. 2: wrong usage. 3: done, and an
audit found violations.
"""

from collections.abc import Sequence

from jbm_kafka.cli.lazy import LazyCommand, LazyGroup
from jbm_kafka.cli.main import run

# A new job is one line here.
JOBS = {
    "audit": LazyCommand("jbm_spark.jobs.audit.audit_command:audit", "Look for messages lost, doubled, out of order."),
    "archive": LazyCommand("jbm_spark.jobs.archive.archive_command:archive", "Keep messages as Parquet files."),
    "bench": LazyCommand("jbm_spark.jobs.bench:bench", "What reading and writing costs beside Spark alone."),
    "dead-letters": LazyCommand(
        "jbm_spark.jobs.letters_command:dead_letters", "Why messages died; send some of them again."
    ),
    "erase": LazyCommand("jbm_spark.jobs.erase_command:erase", "Take messages out of an archive for good."),
    "load": LazyCommand("jbm_spark.jobs.load.load_command:load", "Send the rows of a file to a queue."),
    "quality": LazyCommand(
        "jbm_spark.jobs.quality.quality_command:quality", "Keep a table of each hour: counts, times, faults."
    ),
    "replay": LazyCommand("jbm_spark.jobs.replay:replay", "Send archived messages, or those of a log, once more."),
}

cli = LazyGroup(table=JOBS, help="Spark jobs over jbm-kafka's topics; none acknowledges anything.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one job; its exit code. Raises nothing."""
    return run(cli, "jbm-spark", arguments)
