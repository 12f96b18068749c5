"""A Spark session set up for jbm-kafka's topics: the one that is there, spark-submit's, or one of our own.

Of our own is quiet enough for a command line: the JVM's messages go to a file (`log_path`), so a user sees the job's
output and, if it fails, one line that names the file.
"""

import atexit
import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from jbm_spark.extra import pyspark_missing

try:
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException, PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession
    from pyspark.sql.utils import is_remote
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None
from py4j.protocol import Py4JError

from jbm_kafka.core.wrong_values import shown
from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.java import find_java
from jbm_spark import call_sites
from jbm_spark.causes import cause_line
from jbm_spark.errors import SessionError
from jbm_spark.own_jar import all_jars
from jbm_spark.session_arguments import check_master, check_memory, checked_log_path, checked_settings, is_local
from jbm_spark.shared_classes import reading_options
from jbm_spark.spark_defaults import defaults_of_files, is_submitted

LOCAL_MASTER = "local[2,3]"
"""Two tasks at once on this machine, each tried three times."""
LOG_PATH = "spark.jbm.logPath"
"""Setting of a session made here: the file with what the JVM had to say."""

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_MASTER = "spark.master"
_MEMORY = "spark.driver.memory"
_JARS = "spark.jars"
_FIXED = {"spark.sql.mapKeyDedupPolicy": "LAST_WIN"}
"""Kafka allows a header name twice; without this one such record ends the query."""
_NOBODYS_MASTER = "local[*]"
"""The master that spark-submit takes where it is given none."""
_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
NO_CONNECTOR = (
    "this session has no Kafka connector, and it cannot be had later: run the program with spark-submit --jars "
    '"$(python -m jbm_spark.submit jars)", or build the session with build_session(), or with '
    "SparkSession.builder.config(map=needed_settings()), both of jbm_spark.session"
)
_FAST = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")
"""The first alone leaves 48 MB for compiled code; a JVM that has used them up, as one audit may, ends its session."""
_COMPILES_ALL = "-XX:-DontCompileHugeMethods"
"""Spark's generated code for all columns of a message is one method that HotSpot otherwise leaves interpreted: that
takes twice the time."""
_HARMLESS = "WARNING: Using incubator modules"
_AVRO_MOST = 16 * 1024 * 1024
"""A damaged record may announce lengths of gigabytes; one of ours has 256 KiB."""


def build_session(
    app_name: str,
    *,
    master: str | None = None,
    driver_memory: str | None = None,
    starts_fast: bool = False,
    log_path: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """The session that the process has, else a new one, whose `stop()` is the caller's.

    `master`, `settings` and whatever spark-submit or spark-defaults.conf say stand; we fix what correctness needs, and
    choose what nobody has: `local[2,3]`, two tasks at once, each tried three times (`local[2]` would never retry), and
    times in UTC. Under spark-submit its session is taken, with its memory and its log.

    Args:
        driver_memory: of the JVM, where it is started here; 1 GB if nobody says it.
        starts_fast: trades the JVM's top speed for about two seconds at the start, for jobs of seconds.
        log_path: the JVM's log, where it is started here; else a temporary file, removed at exit if it has no error.
        settings: Spark's, over ours.

    Raises:
        JarsError: the jars are missing or wrong, and cannot be fetched.
        SessionError: an argument that cannot be, no Java 17, a JVM that does not start, a master out of reach, a
            setting that is fixed, or that the session which runs has otherwise; spark-submit without the jars.
    """
    if not isinstance(app_name, str) or not app_name:
        raise SessionError(f"app_name={shown(app_name)}: it is a name, as in build_session('invoices')")
    given = checked_settings(settings)
    for name, value, argument in ((_MASTER, master, "master"), (_MEMORY, driver_memory, "driver_memory")):
        if value is not None and given.setdefault(name, value) != value:
            raise SessionError(f"{argument}={shown(value)}, and settings have {name}={given[name]!r}: leave one out")
    if _MASTER in given:
        check_master(given[_MASTER])
    if _MEMORY in given:
        check_memory("driver_memory" if driver_memory is not None else _MEMORY, given[_MEMORY])
    for name in given.keys() & _FIXED.keys():
        if given[name] != _FIXED[name]:
            raise SessionError(f"the Spark setting {name} is fixed to {_FIXED[name]!r} here: leave it out")
    _silence_errors_that_are_raised()
    of_session = {name: value for name, value in given.items() if name != _MEMORY}
    if has_session():
        return _running(of_session)
    if is_submitted():
        return _submitted(app_name, of_session)
    return _of_our_own(app_name, given, starts_fast=starts_fast, log_path=log_path)


def has_session() -> bool:
    """Return True if this process has a session, or is a client of Spark Connect."""
    return SparkContext._active_spark_context is not None or is_remote() or "SPARK_REMOTE" in os.environ


def _running(given: Mapping[str, str]) -> SparkSession:
    """The session of this process; what can be set while it runs is set."""
    spark = _session_there()
    for name, value in (dict(given) | _FIXED).items():
        found = spark.conf.get(name, None)
        if found == value:
            continue
        if not spark.conf.isModifiable(name):
            raise SessionError(
                f"the session that runs in this process has {name}={found!r}, and {value!r} cannot be set any more: "
                "leave it out, or stop() that session first"
            )
        spark.conf.set(name, value)
    return spark


def _session_there() -> SparkSession:
    if is_remote():  # where a builder makes another one, and wants its address again
        with suppress(PySparkRuntimeError):
            return SparkSession.active()
    return SparkSession.builder.getOrCreate()


def _submitted(app_name: str, given: Mapping[str, str]) -> SparkSession:
    """In the JVM that spark-submit has started, with what it was given."""
    gateway = SparkContext._gateway or launch_gateway()  # type: ignore[no-untyped-call]
    before = dict(SparkConf(_jvm=gateway.jvm).getAll())
    if not gateway.jvm.org.apache.spark.util.Utils.classIsLoadable(_CONNECTOR):
        raise SessionError(NO_CONNECTOR)
    theirs = before.get(_MASTER, _NOBODYS_MASTER)
    if theirs not in (_NOBODYS_MASTER, given.get(_MASTER, theirs)):
        raise SessionError(f"master={given[_MASTER]!r}, and spark-submit was given {theirs!r}: leave one out")
    chosen = {**_defaults(given.get(_MASTER, theirs)), **before, **given, **_FIXED, "spark.app.name": app_name}
    return SparkSession(SparkContext(conf=_configuration(chosen), gateway=gateway))


def _of_our_own(
    app_name: str, given: Mapping[str, str], *, starts_fast: bool, log_path: str | os.PathLike[str] | None
) -> SparkSession:
    """Return a session in a JVM that is started here, with the jars and the log's file.

    Settings given win over those of `spark-defaults.conf`, and both over ours, but for what we need.
    """
    before = defaults_of_files()
    master = given.get(_MASTER) or before.get(_MASTER) or LOCAL_MASTER
    log = _temporary_log() if log_path is None else checked_log_path(log_path)
    java_needed()
    needed = _needed()
    jars_given = given.get(_JARS) or before.get(_JARS)
    # Before those of a user's own, which win.
    options = [f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}", _COMPILES_ALL, *(_FAST if starts_fast else ())]
    options += reading_options()
    options += [
        f"-Dorg.apache.avro.limits.{each}.maxLength={_AVRO_MOST}" for each in ("bytes", "string", "collectionItems")
    ]
    chosen = {
        "spark.driver.defaultJavaOptions": " ".join(options),
        **_defaults(master), **before, **given, **needed,
        _JARS: ",".join(filter(None, [needed[_JARS], jars_given])),
        _MASTER: master, "spark.app.name": app_name, LOG_PATH: str(log),
    }  # fmt: skip
    if is_local(master):
        # Else workers take whatever `python3` the PATH has, without our packages.
        os.environ.setdefault("PYSPARK_PYTHON", chosen.get("spark.pyspark.python", sys.executable))
        # Else Spark looks up the host's name and warns when that is a loopback address.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    elif "spark.pyspark.python" in chosen:
        os.environ.setdefault("PYSPARK_PYTHON", chosen["spark.pyspark.python"])
    return _start(_configuration(chosen), log)


def _defaults(master: str) -> dict[str, str]:
    """Where nobody has said anything else."""
    # Spark's source keeps what it polled of each partition, and by its own default for minutes: all of a few hundred
    # queues, which are read once, would be in memory at once.
    polled = "spark.kafka.consumer.fetchedData.cache"
    anywhere = {
        "spark.sql.session.timeZone": "UTC",
        f"{polled}.timeout": "5s",
        f"{polled}.evictorThreadRunInterval": "5s",
    }
    here = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    return {**anywhere, **here} if is_local(master) else anywhere


def _configuration(settings: Mapping[str, str]) -> SparkConf:
    configuration = SparkConf(loadDefaults=False)
    for name, value in settings.items():
        configuration.set(name, value)
    return configuration


def needed_settings() -> dict[str, bool | float | int | str | None]:
    """Return what a session of one's own must be built with: `SparkSession.builder.config(map=needed_settings())`.

    Raises:
        JarsError: the jars are missing or wrong, and cannot be fetched.
    """
    return {**_needed()}  # builders take values of more kinds, and a dict of str is no dict of those


def _needed() -> dict[str, str]:
    return {_JARS: ",".join(str(path) for path in all_jars()), **_FIXED}


def java_needed() -> None:
    """Nothing, if there is a `java` to run that is new enough.

    Raises:
        SessionError: Java is missing, does not run, or is too old.
    """
    try:
        find_java("Spark")
    except LocalBrokerError as error:
        raise SessionError(str(error)) from None


def _silence_errors_that_are_raised() -> None:
    """PySpark writes an error of analysis to the console besides raising it: 23 kB of JSON for a misspelt column."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # Made by their own class: they are called with arguments that Python's loggers do not know.
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _start(configuration: SparkConf, log: Path) -> SparkSession:
    try:
        gateway = SparkContext._gateway
        if gateway is None:  # a JVM outlives its session; the next session of the process uses it again
            with log.open("ab") as sink:
                gateway = launch_gateway(configuration, {"stderr": sink})  # type: ignore[no-untyped-call]
        return SparkSession(SparkContext(conf=configuration, gateway=gateway))
    except PySparkRuntimeError as error:
        needs = f"it needs Java 17 or newer, free memory and a writable {tempfile.gettempdir()}"
        raise SessionError(f"the Spark JVM did not start ({_last_line(log) or error}): {needs}; see {log}") from None
    except Py4JError as error:
        if SparkContext._active_spark_context is not None:  # a context without a session is of no use to the next
            SparkContext._active_spark_context.stop()
        master = configuration.get(_MASTER)
        raise SessionError(
            f"master={master!r} gives no session ({cause_line(error)}): see that it runs and can be reached; see {log}"
        ) from None


def _temporary_log() -> Path:
    try:
        descriptor, name = tempfile.mkstemp(prefix="jbm-spark-", suffix=".log")
    except OSError as error:
        raise SessionError(f"no temporary file for Spark's log: {error.strerror or error}; set TMPDIR") from None
    os.close(descriptor)
    atexit.register(_remove_if_quiet, Path(name))
    return Path(name)


def _remove_if_quiet(log: Path) -> None:
    if not _holds_errors(log):
        log.unlink(missing_ok=True)


def _holds_errors(log: Path) -> bool:
    return log.exists() and " ERROR " in log.read_text(encoding="utf-8", errors="replace")


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return next((line.strip() for line in reversed(lines) if not line.startswith((_HARMLESS, "\tat "))), "")


def log_path() -> str | None:
    """The log of this process's session, if it was made here and its JVM lives."""
    session = SparkSession.getActiveSession()
    with suppress(Py4JError, OSError):
        return None if session is None else session.conf.get(LOG_PATH, None)
    return None


def log_hint(log: str | None) -> str:
    """Where the whole story is, to be added to a line; nothing when the log at this path does not tell it."""
    return f"; the whole story is in {log}" if log and _holds_errors(Path(log)) else ""


@contextmanager
def job_session(
    app_name: str, *, is_quiet: bool, master: str | None = None, starts_fast: bool = True
) -> Iterator[SparkSession]:
    """A session for one job, stopped at the end unless it was there before. What Spark raises becomes one line.

    A line on standard error says that it starts, for on a busy machine nothing else is seen for minutes; not where it
    `is_quiet`, for a program that reads what the job prints.

    Raises:
        SessionError: Spark failed; the rest as `build_session`.
    """
    if not is_quiet:
        print("jbm-spark: Spark starts; this takes seconds, on a busy machine minutes", file=sys.stderr, flush=True)
    is_ours = not has_session()
    settings = {call_sites.SETTING: "false"} if is_ours else None
    spark = build_session(app_name, master=master, starts_fast=starts_fast, settings=settings)
    log = spark.conf.get(LOG_PATH, None)
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise SessionError(f"Spark failed: {cause_line(error)}{log_hint(log)}") from error
    finally:
        if is_ours:
            with suppress(Py4JError):  # a JVM that died has nothing to stop
                spark.stop()
