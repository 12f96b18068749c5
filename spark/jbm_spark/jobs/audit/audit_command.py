"""`jbm-spark audit`."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import Whole, subscription_options
from jbm_kafka.cli.connect import Named
from jbm_spark.errors import SparkJobError
from jbm_spark.jobs.audit.audit_page import page
from jbm_spark.jobs.audit.audit_result import AuditedQueues, AuditResult
from jbm_spark.jobs.audit.run_audit import CLOCK_SKEW_MS, FINDINGS_MAX, run, run_queues
from jbm_spark.jobs.job import Pattern, check_queues, in_session, job_options, many_queues, seconds_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Since(click.ParamType):  # type: ignore[type-arg]  # generic in the newest click only
    """An instant: so long ago, or a date; ms since 1970."""

    name = "instant"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        if (ago_s := seconds_of(str(value))) is not None:
            return max(time.time_ns() // 1_000_000 - ago_s * 1000, 0)
        try:
            at = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r}: write how long ago, as in 24h or 7d, or a date, as in 2026-11-20T08:00", param, ctx)
        return max(round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000), 0)


@click.command(name="audit")
@many_queues
@subscription_options
@click.option("--since", type=Since(), default=0, metavar="WHEN",
              help="Only messages sent since then: 24h, 7d, or a date in UTC. [all]")  # fmt: skip
@click.option("--archive", metavar="FOLDER", help="Also what `jbm-spark archive` keeps there.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page, too.")
@click.option("--clock-skew-ms", type=Whole(0, 3_600_000), default=CLOCK_SKEW_MS, show_default=True, metavar="MS",
              help="How far the clocks of processes may be apart.")  # fmt: skip
@click.option("--findings", type=Whole(0, 100_000), default=FINDINGS_MAX, show_default=True, metavar="N",
              help="So many findings in --json and --html; all are counted.")  # fmt: skip
@job_options
def audit(
    destination: Named | Pattern, subscription: str | None, client_id: str, since: int, archive: str | None,
    html: Path | None, clock_skew_ms: int, findings: int, cluster: Cluster, master: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Look for messages that were lost, doubled, out of order, or treated otherwise than promised.

    Nothing is received, nothing written. Exit code 3 where anything was found.
    """
    if html is not None and not html.parent.is_dir():
        raise SparkJobError(f"--html {html}: there is no folder {html.parent}; make it, or name another")

    if isinstance(destination, Pattern) and subscription is not None:
        raise SparkJobError(f"--subscription is one topic's, and {destination.text!r} names queues: name the topic")

    def work(spark: "SparkSession") -> AuditResult | AuditedQueues:
        result: AuditResult | AuditedQueues
        if isinstance(destination, Pattern):
            result = run_queues(
                spark, destination.text, bootstrap=cluster.bootstrap, since_ms=since, archive=archive,
                clock_skew_ms=clock_skew_ms, findings_max=findings, namespace=cluster.namespace, kafka=cluster.kafka,
            )  # fmt: skip
        else:
            result = run(
                spark, destination, bootstrap=cluster.bootstrap, subscription=subscription, client_id=client_id,
                since_ms=since, archive=archive, clock_skew_ms=clock_skew_ms, findings_max=findings,
                namespace=cluster.namespace, kafka=cluster.kafka,
            )  # fmt: skip
        if html is not None:
            _write(html, page(result, at=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")))
        return result

    def check(cluster: Cluster) -> None:
        if isinstance(destination, Pattern):
            check_queues(destination, cluster)
            return
        from jbm_spark.archiving.archive_folder import is_here
        from jbm_spark.jobs.audit.audit_inputs import audited

        seen = archive if archive is not None and is_here(archive) else None
        with audited(destination, bootstrap=cluster.bootstrap, subscription=subscription, client_id=client_id,
                     namespace=cluster.namespace, archive=seen, kafka=cluster.kafka):  # fmt: skip
            pass  # what is not there is told before Spark has started

    in_session("audit", work, cluster=cluster, master=master, as_json=as_json, check=check)


def _write(html: Path, text: str) -> None:
    try:
        html.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SparkJobError(f"--html {html}: {error.strerror or error}; name a file that can be written") from None
