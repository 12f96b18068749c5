"""What a session made by build_session is, and how it says that it cannot be."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from jbm_kafka.core.jms_errors import JMSError
from jbm_spark import session
from jbm_spark.errors import JarsError, SessionError
from jbm_spark.session_arguments import check_master, check_memory


def test_the_session_has_the_settings_that_matter(spark: SparkSession) -> None:
    assert spark.conf.get("spark.master") == "local[2,3]"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.mapKeyDedupPolicy") == "LAST_WIN"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_a_session_that_starts_fast_has_room_for_the_code_of_large_queries(spark: SparkSession) -> None:
    """48 MB are full after one audit of 20,000 messages, and then its driver ended."""
    jvm: Any = spark._jvm
    pools = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    assert sum(pool.getUsage().getMax() for pool in pools if "Code" in pool.getName()) >= 240 * 2**20


def test_without_java_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SessionError, match=r"^Spark needs Java 17 or later and found no java: install"):
        session.java_needed()


def test_a_java_home_without_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match=f"{tmp_path}/bin/java does not run"):
        session.java_needed()


def test_a_java_too_old_is_told_before_a_jvm_fails_to_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SessionError, match=rf"^Spark needs Java 17 or later and {java} is Java 11: install"):
        session.java_needed()


def test_a_fixed_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(SessionError, match="mapKeyDedupPolicy is fixed"):
        session.build_session("x", settings={"spark.sql.mapKeyDedupPolicy": "EXCEPTION"})


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"driver_memory": "lots"}, "driver_memory='lots': write '2g', or '600m'; Spark needs 450m or more"),
        ({"driver_memory": "2gb"}, "driver_memory='2gb': write '2g'"),
        ({"driver_memory": "2048"}, "driver_memory='2048': write '2g'"),
        ({"driver_memory": "100m"}, "driver_memory='100m': write '2g', or '600m'; Spark needs 450m or more"),
        ({"driver_memory": 2}, "driver_memory=2: write '2g'"),
        ({"settings": {"spark.driver.memory": "2 g"}}, "spark.driver.memory='2 g': write '2g'"),
        ({"master": "locl[2]"}, "master='locl[2]': write 'local[2]' for two tasks at once on this machine"),
        ({"master": "local[2"}, "master='local[2': write 'local[2]'"),
        ({"master": "local[0]"}, "master='local[0]': write 'local[2]'"),
        ({"settings": ["x"]}, "settings=['x']: it is a dict"),
        ({"settings": {"spark.x": None}}, "settings: 'spark.x': None: name and value are texts"),
        (
            {"master": "local[1]", "settings": {"spark.master": "local[2]"}},
            "master='local[1]', and settings have spark",
        ),
        ({"app_name": ""}, "app_name='': it is a name"),
        ({"log_path": "/proc/nope/x.log"}, "log_path /proc/nope/x.log: No such file or directory; name a file that"),
        ({"log_path": Path("/")}, "log_path /: Is a directory; name a file that this process can write to"),
        ({"log_path": 5}, "log_path=5: it is the path of a file, as in Path('spark.log'), or None"),
        ({"log_path": ""}, "log_path='': it is the path of a file"),
    ],
)
def test_an_argument_that_cannot_be_is_named_and_not_taken_for_missing_java(
    monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any], told: str
) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    with pytest.raises(JMSError) as raised:
        session.build_session(**{"app_name": "x", **arguments})
    assert str(raised.value).startswith(told)


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2]", "local[4, 3]", "local-cluster[1,1,1024]", "spark://h:7077", "yarn"]
)
def test_a_master_of_spark_s_own_is_taken(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize("memory", ["1g", "512M", "2G", "460800k", "1t"])
def test_a_memory_that_the_jvm_takes_is_taken(memory: str) -> None:
    check_memory("driver_memory", memory)


def test_a_misspelt_column_is_raised_and_writes_nothing_to_the_console(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """PySpark wrote it to standard error besides, as 23 kB of JSON."""
    frame = spark.range(1)
    with pytest.raises(AnalysisException, match="unit"):
        frame.where("unit = 'x'")
    with pytest.raises(AnalysisException, match="unit"):
        frame.select(F.col("unit"))
    assert capfd.readouterr() == ("", "")


def test_missing_jars_are_told_before_a_jvm_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    (tmp_path / "jars.sha256").write_text(f"{'0' * 64}  spark-sql-kafka-0-10_2.13-4.2.0.jar\n", encoding="utf-8")
    monkeypatch.setenv("JBM_SPARK_JARS", str(tmp_path / "jars"))
    with pytest.raises(JarsError, match=r"python -m jbm_spark\.jars fetch"):
        session.build_session("x")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("master", "told"),
    [
        (
            "k8s://http://127.0.0.1:1",
            r"master='k8s://.*' gives no session \(.*\): see that it runs and can be reached; see ",
        ),
        ("yarn", r"the Spark JVM did not start \(.*must be set in the environment"),
    ],
)
def test_a_master_that_is_out_of_reach_is_one_line(master: str, told: str) -> None:
    """It was a trace of fifty lines, and a bug of ours."""
    code = f"from jbm_spark.session import job_session\nwith job_session('x', is_quiet=True, master={master!r}): pass"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.search(rf"^jbm_spark\.errors\.SessionError: {told}", done.stderr.splitlines()[-1]), done.stderr
