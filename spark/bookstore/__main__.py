"""`python -m bookstore`: a day of the bookstore, and its page."""

import shutil
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console

from bookstore.sales_page import page
from bookstore.stages import Stages
from bookstore.store_queues import Store, take_down
from bookstore.whole_day import admin_of, play
from jbm_kafka.cli.broker_to_try import broker
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole
from jbm_kafka.cli.ending import unwind_when_asked_to_end
from jbm_kafka.cli.main import run
from jbm_kafka.core.jms_errors import JMSError
from jbm_spark.session import job_session


@click.command()
@click.option("--orders", "count", type=Whole(100, 100_000), default=1_500, show_default=True, metavar="N")
@click.option("--per-second", type=Whole(1, 10_000), default=50, show_default=True, metavar="N")
@click.option("--page", "html", type=click.Path(dir_okay=False, path_type=Path), default=Path("build/bookstore.html"),
              show_default=True, metavar="FILE", help="Checkpoints and archives are put beside it.")  # fmt: skip
@click.option("--keep", is_flag=True, help="Leave the queues, to be looked at.")
@cluster_options
def bookstore(count: int, per_second: int, html: Path, keep: bool, cluster: Cluster) -> None:
    """Play a day of the bookstore. Where no cluster is named, on the local broker, which is started if need be."""
    unwind_when_asked_to_end()
    folder = html.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store = Store(f"bookstore-{datetime.now(UTC):%Y%m%d-%H%M%S}")
    with Stages(click.echo) as stages:
        stages.tell("a broker is looked for")
        with broker(cluster, Console(highlight=False)) as reached:
            stages.tell("Spark starts")
            with job_session("bookstore", is_quiet=False) as spark:
                try:
                    day = play(spark, reached, store, folder, count=count, per_second=per_second, tell=stages.tell)
                    html.write_text(page(day, at=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"), encoding="utf-8")
                finally:
                    if not keep:
                        stages.tell("the queues are taken down")
                        with suppress(JMSError), admin_of(reached) as admin:
                            take_down(admin, store)
    click.echo(f"{html} has the day; {folder} has its archives and the workers' log")


if __name__ == "__main__":
    sys.exit(run(bookstore, "bookstore", None))
