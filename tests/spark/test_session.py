"""What a session made by build_session is, and how it says that it cannot be."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_spark import session
from jbm_spark.errors import JarsError, SessionError


def test_the_session_has_the_settings_that_matter(spark: SparkSession) -> None:
    assert spark.conf.get("spark.master") == "local[2,3]"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.mapKeyDedupPolicy") == "LAST_WIN"
    assert spark.conf.get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.ui.enabled") == "false"


def test_a_second_session_in_the_process_is_refused(spark: SparkSession) -> None:
    with pytest.raises(SessionError, match="runs in this process already"):
        session.build_session("second")


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


def test_missing_jars_are_told_before_a_jvm_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    (tmp_path / "jars.sha256").write_text(f"{'0' * 64}  spark-sql-kafka-0-10_2.13-4.1.1.jar\n", encoding="utf-8")
    monkeypatch.setenv("JBM_SPARK_JARS", str(tmp_path / "jars"))
    with pytest.raises(JarsError, match=r"python -m jbm_spark\.jars fetch"):
        session.build_session("x")
