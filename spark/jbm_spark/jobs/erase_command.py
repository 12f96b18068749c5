"""`jbm-spark erase`.

jbm-spark erase /data/orders --unit ann
jbm-spark erase /data/orders --older-than 365 --yes
"""

import sys
from typing import TYPE_CHECKING

import click

from jbm_kafka.cli.command_options import Text, Whole, check_can_ask
from jbm_spark.errors import ArchiveError
from jbm_spark.jobs.job import in_session, session_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jbm_spark.archiving.erasure import Erased

DAYS_MAX = 36_500


@click.command(short_help="Take messages out of an archive for good.")
@click.argument("archive", metavar="ARCHIVE")
@click.option("--unit", metavar="U", type=Text("a unit has a name"), help="Those of this unit of order.")
@click.option("--where", metavar="SQL", type=Text("a condition is not empty"),
              help="Those of which it is so: \"properties['customer'] = '4711'\".")  # fmt: skip
@click.option("--older-than", "older_than_days", metavar="DAYS", type=Whole(1, DAYS_MAX),
              help="Those that were sent so many days ago, or earlier.")  # fmt: skip
@click.option("--queue", metavar="NAME", help="Of an archive of many queues: of this one only.")
@click.option("--by", metavar="NAME", help="Who does it, for the archive's record. [user@host]")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--dry-run", is_flag=True, help="Count what would go, and erase nothing.")
@session_options
def erase(
    archive: str, unit: str | None, where: str | None, older_than_days: int | None, queue: str | None, by: str | None,
    yes: bool, dry_run: bool, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Take messages out of an archive for good, with what became of them, after asking. All that is given must be so.

    Run again after a failure, it goes on. What it does not reach is told at the end.
    """
    from jbm_kafka.admin.pausing import operator_name
    from jbm_spark.archiving.archive_folder import archive_path, is_here, read_identity
    from jbm_spark.archiving.erasure import checked_choice
    from jbm_spark.archiving.erasure import erase as erase_of

    if not (yes or dry_run):
        check_can_ask(as_json=as_json)
    operator_name(by)
    before_ms = None if older_than_days is None else 0
    if is_here(archive):
        checked_choice(archive, read_identity(archive_path(archive)), unit=unit, where=where, before_ms=before_ms,
                       queue=queue)  # fmt: skip

    def tell(line: str) -> None:
        print(f"jbm-spark: {line}", file=sys.stderr, flush=True)

    def work(spark: "SparkSession") -> "Erased":
        def call(*, is_dry: bool) -> "Erased":
            return erase_of(spark, archive, unit=unit, where=where, older_than_days=older_than_days, queue=queue, by=by,
                            dry_run=is_dry, tell=None if as_json else tell)  # fmt: skip

        if not (yes or dry_run) and not click.confirm(f"erase {call(is_dry=True).counts} of {archive} for good?"):
            raise ArchiveError(f"archive {archive}: nothing was erased")
        return call(is_dry=dry_run)

    in_session("erase", work, master=master, as_json=as_json)
