"""A Spark session set up for jbm-kafka's topics, quiet enough for a command line.

Settings that matter here are fixed; others can be given. The JVM's own messages go to a file (`log_path`), so a user
sees the job's output and, if it fails, one line that names the file.
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
except ModuleNotFoundError as error:
    raise pyspark_missing(error) from None
from py4j.protocol import Py4JError

from jbm_kafka.core.wrong_values import shown
from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.java import find_java
from jbm_spark import jars
from jbm_spark.causes import cause_line
from jbm_spark.errors import SessionError
from jbm_spark.session_arguments import check_master, check_memory, checked_log_path, checked_settings

LOCAL_MASTER = "local[2,3]"
"""Two tasks at once on this machine, each tried three times."""
LOG_PATH = "spark.jbm.logPath"
"""Setting of a session made here: the file with what the JVM had to say."""

_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")
_MEMORY = "spark.driver.memory"
_HARMLESS = "WARNING: Using incubator modules"


def build_session(
    app_name: str,
    *,
    master: str = LOCAL_MASTER,
    driver_memory: str = "1g",
    starts_fast: bool = False,
    log_path: str | os.PathLike[str] | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A new session; the process has no other one. Its `stop()` is the caller's.

    `local[2,3]` is two tasks at once, each tried three times (`local[2]` would never retry). `starts_fast` trades the
    JVM's top speed for about two seconds at the start: for jobs of seconds. Without `log_path` the log is a temporary
    file that is removed at exit if it holds no error. `settings` are Spark's, over ours except the fixed ones.

    Raises:
        JarsError: the jars are missing or wrong, and cannot be fetched.
        SessionError: an argument that cannot be, no Java 17, a JVM that does not start, a session that runs already, a
            setting that is fixed.
    """
    if SparkContext._active_spark_context is not None:
        raise SessionError("a Spark session runs in this process already: use it, or stop() it first")
    if not isinstance(app_name, str) or not app_name:
        raise SessionError(f"app_name={shown(app_name)}: it is a name, as in build_session('invoices')")
    check_master(master)
    check_memory("driver_memory", driver_memory)
    given = checked_settings(settings)
    if _MEMORY in given:
        check_memory(_MEMORY, given[_MEMORY])
    fixed = _fixed_settings(app_name, master, starts_fast)
    for name in given.keys() & fixed.keys():
        raise SessionError(f"the Spark setting {name} is fixed to {fixed[name]!r} here: leave it out")
    java_needed()
    # Else workers take whatever `python3` the PATH has, without our packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Else Spark looks up the host's name and warns when that is a loopback address.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    log = _temporary_log() if log_path is None else checked_log_path(log_path)
    configuration = SparkConf(loadDefaults=False)
    chosen = {_MEMORY: driver_memory, "spark.sql.shuffle.partitions": "2"} | given
    for name, value in (chosen | fixed | {LOG_PATH: str(log)}).items():
        configuration.set(name, value)
    _silence_errors_that_are_raised()
    return _start(configuration, log)


def needed_settings() -> dict[str, bool | float | int | str | None]:
    """What a session of one's own must be built with: `SparkSession.builder.config(map=needed_settings())`.

    Raises:
        JarsError: the jars are missing or wrong, and cannot be fetched.
    """
    return {**_needed()}  # builders take values of more kinds, and a dict of str is no dict of those


def _needed() -> dict[str, str]:
    return {
        "spark.jars": ",".join(str(path) for path in jars.ready()),
        # Kafka allows a header name twice; without this one such record ends the query.
        "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    }


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


def _fixed_settings(app_name: str, master: str, starts_fast: bool) -> dict[str, str]:
    options = [f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"]
    if starts_fast:
        options.append("-XX:TieredStopAtLevel=1")
    return {
        "spark.app.name": app_name,
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": " ".join(options),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        **_needed(),
    }


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
    return next((line.strip() for line in reversed(lines) if not line.startswith(_HARMLESS)), "")


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
    """A session for one job, stopped at the end. What Spark raises inside becomes one line with the cause.

    A line on standard error says that it starts, for on a busy machine nothing else is seen for minutes; not where it
    `is_quiet`, for a program that reads what the job prints.

    Raises:
        SessionError: Spark failed; the rest as `build_session`.
    """
    if not is_quiet:
        print("jbm-spark: Spark starts; this takes seconds, on a busy machine minutes", file=sys.stderr, flush=True)
    spark = build_session(app_name, master=master or LOCAL_MASTER, starts_fast=starts_fast)
    log = spark.conf.get(LOG_PATH)
    try:
        yield spark
    except (PySparkException, Py4JError) as error:
        raise SessionError(f"Spark failed: {cause_line(error)}{log_hint(log)}") from error
    finally:
        with suppress(Py4JError):  # a JVM that died has nothing to stop
            spark.stop()
