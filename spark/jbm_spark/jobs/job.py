"""What all jobs of `jbm-spark` share: their options, their Spark session, their result and their exit code.

A job is a module `jbm_spark.jobs.<name>` with `run(spark, ..., bootstrap=, namespace="", kafka=None) -> Result` for
notebooks and schedulers, and a click command of the same arguments that calls it by `in_session`.
"""

from collections.abc import Callable
from dataclasses import Field, asdict
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import click

from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import emit, json_option
from jbm_spark.jars import installed_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIOLATIONS = 3
"""The exit code of a job that is done and found what must not be."""


class Result(Protocol):
    """What a job did: a frozen dataclass of plain values, whose fields are the keys of `--json`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def has_violations(self) -> bool:
        """Whether it found what must not be."""

    def text(self) -> str:
        """The result for people."""


_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result", bound=Result)


def job_options(function: _Function) -> _Function:
    """The options of every job; the command is called with `cluster`, `master` and `as_json`."""
    option: Callable[..., Callable[[_Function], _Function]] = click.option
    with_master = option("--master", metavar="URL", help="Where Spark runs. [spark-submit's; else local[2,3]]")
    return with_master(cluster_options(json_option(function)))


def in_session(
    name: str, work: "Callable[[SparkSession], _Result]", *, cluster: Cluster, master: str | None, as_json: bool,
    check: Callable[[Cluster], None] | None = None, starts_fast: bool = True,
) -> None:  # fmt: skip
    """Does the job in a session of its own and prints its result; a wrong address fails in `check`.

    `starts_fast` is that of `build_session`: a job of minutes does without.

    Raises:
        click.exceptions.Exit: with VIOLATIONS, where the job found some.
        SparkJobError: it could not be done.
    """
    installed_pyspark()
    if check is not None:
        check(cluster)
    from jbm_spark.session import job_session

    with job_session(f"jbm {name}", is_quiet=as_json, master=master, starts_fast=starts_fast) as spark:
        result = work(spark)
    emit(asdict(result), result.text(), as_json=as_json)
    if result.has_violations:
        raise click.exceptions.Exit(VIOLATIONS)
