"""The part that all jobs of `jbm-spark` share: their options, their Spark session, their result and their exit code.

A job is a module `jbm_spark.jobs.<name>` with `run(spark, ..., bootstrap=, namespace="", kafka=None) -> Result` for
notebooks and schedulers, and a click command of the same arguments that calls it by `in_session`.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import Field, asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import click

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.cli.cluster_options import cluster_options
from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.cli.command_options import emit, json_option
from jbm_kafka.cli.connect import Named, as_named
from jbm_kafka.core.jms_errors import InvalidSettingError
from jbm_kafka.core.settings.address_pattern import ANY_WORDS, ONE_WORD, checked_pattern
from jbm_spark.jars import installed_pyspark
from jbm_spark.topic_check import TIMEOUT_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIOLATIONS = 3
"""The exit code of a job that is done and found what must not be."""


class Result(Protocol):
    """A job's result: a frozen dataclass of plain values, whose fields are the keys of `--json`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def has_violations(self) -> bool:
        """Return True if it found what must not be."""

    def text(self) -> str:
        """The result for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyQueues:
    """The result of a job over the queues of a pattern. One that failed did not stop the others."""

    pattern: str
    failures: Mapping[str, str]
    """The reason of each that failed, by name."""

    def failure_lines(self) -> list[str]:
        """For people."""
        return [f"failed: queue:{name}: {why}" for name, why in sorted(self.failures.items())]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The queues that a command is given."""

    text: str


_ALL = "jbm_spark.is_all"
_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
LONGEST_S = 366 * 86_400
"""More is a mistake, and what waits for it takes no such number."""
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Result = TypeVar("_Result", bound=Result)


def job_options(function: _Function) -> _Function:
    """The options of every job with a cluster; the command is called with `cluster`, `master` and `as_json`."""
    return _with_master(cluster_options(json_option(function)))


def session_options(function: _Function) -> _Function:
    """The options of a job without one; the command is called with `master` and `as_json`."""
    return _with_master(json_option(function))


def _with_master(function: _Function) -> _Function:
    option: Callable[..., Callable[[_Function], _Function]] = click.option
    return option("--master", metavar="URL", help="Where Spark runs. [spark-submit's; else local[2,3]]")(function)


def many_queues(function: _Function) -> _Function:
    """The argument of a job over a queue, a topic, or many queues; passed as `destination`."""
    option: Callable[..., Callable[[_Function], _Function]] = click.option
    argument: Callable[..., Callable[[_Function], _Function]] = click.argument
    every = option(
        "--all",
        "is_all",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_note_all,
        help="All queues, as '#' does.",
    )
    return argument("destination", metavar="DEST", required=False, callback=_as_many)(every(function))


def _note_all(context: click.Context, parameter: click.Parameter, value: bool) -> None:
    context.meta[_ALL] = value


def _as_many(context: click.Context, parameter: click.Parameter, value: str | None) -> Named | Pattern:
    is_all = bool(context.meta.get(_ALL))
    if (value is None) != is_all:
        raise click.UsageError(
            "name a queue, a topic, or a pattern of queues such as 'orders.*'; or give --all", context
        )
    if value is None:
        return Pattern(ANY_WORDS)
    if ONE_WORD not in value and ANY_WORDS not in value:
        found = as_named(context, parameter, value)
        assert found is not None
        return found
    try:
        return Pattern(checked_pattern(value.removeprefix("queue:")))
    except InvalidSettingError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def as_seconds(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """The seconds of an option such as `5m`; None where it is not given, and wrong usage where it is no time."""
    if value is None:
        return None
    seconds = seconds_of(value)
    if not seconds or seconds > LONGEST_S:
        told = f"{value!r}: write a time with its unit, as in 30s, 5m, 2h or 1d; 366d at most"
        raise click.BadParameter(told, context, parameter)
    return seconds


def seconds_of(text: str) -> int | None:
    """The seconds of a time with its unit, such as `5m`; None where it is none."""
    found = _DURATION.fullmatch(text)
    return None if found is None else int(found[1]) * _SECONDS[found[2]]


def check_queues(pattern: Pattern, cluster: Cluster) -> None:
    """Raises SparkJobError where no queue has such a name, and JMSError where the brokers do not answer."""
    from jbm_spark.queue_pattern import queues_named

    core = AdminCore(cluster.bootstrap, cluster.kafka, cluster.namespace, TIMEOUT_S)
    with closing(core), core.asking(f"look for {pattern.text}"):
        queues_named(core.catalog, pattern.text)


def in_session(
    name: str, work: "Callable[[SparkSession], _Result]", *, master: str | None, as_json: bool,
    cluster: Cluster | None = None, check: Callable[[Cluster], None] | None = None, starts_fast: bool = True,
) -> None:  # fmt: skip
    """Does the job in a session of its own and prints its result; a wrong address fails in `check`.

    `starts_fast` is that of `build_session`: a job of minutes does without.

    Raises:
        click.exceptions.Exit: with VIOLATIONS, where the job found some; else with 1, where a queue of many failed.
        SparkJobError: it could not be done.
    """
    installed_pyspark()
    if check is not None and cluster is not None:
        check(cluster)
    from jbm_spark.session import job_session

    with job_session(f"jbm {name}", is_quiet=as_json, master=master, starts_fast=starts_fast) as spark:
        result = work(spark)
    emit(asdict(result), result.text(), as_json=as_json)
    if result.has_violations:
        raise click.exceptions.Exit(VIOLATIONS)
    if isinstance(result, ManyQueues) and result.failures:
        raise click.exceptions.Exit(1)
