"""`jbm-spark JOB ...`: the jobs by name, each in a local Spark of its own."""

import argparse
from collections.abc import Sequence

from jbm_kafka.version import version
from jbm_spark.jobs import dead_letters


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; the exit code: 0 done, 1 it could not be done (one line says why), 2 wrong usage."""
    parser = argparse.ArgumentParser(prog="jbm-spark", description="Spark jobs over jbm-kafka's topics")
    parser.add_argument("--version", action="version", version=f"jbm-spark {version()}")
    jobs = parser.add_subparsers(title="jobs", required=True, metavar="JOB")
    dead_letters.arguments_of(jobs.add_parser("dead-letters", help="why messages died, and what a queue's topic holds"))
    chosen = parser.parse_args(arguments)
    return int(chosen.job(chosen))
