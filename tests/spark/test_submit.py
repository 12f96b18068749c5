"""Programs under spark-submit, and a session that runs already: what they were given stands."""

import subprocess
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jbm_spark import session, submit
from jbm_spark.errors import SessionError, SparkJobError
from jbm_spark.spark_defaults import defaults_of_files
from tests.spark.cluster import BARE_PYTHON, spark_submit

PROGRAM = """
from jbm_spark.session import build_session

spark = build_session("shown", starts_fast=True)
names = ["spark.master", "spark.driver.host", "spark.ui.enabled", "spark.sql.session.timeZone", "spark.app.name"]
print([spark.conf.get(name) for name in [*names, "spark.sql.mapKeyDedupPolicy"]])
"""
GIVEN = {
    "spark.driver.host": "localhost",
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.sql.session.timeZone": "Europe/Berlin",
}


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.mark.thorough
def test_what_spark_submit_was_given_stands(program: str) -> None:
    """A program of ours ran on local[2,3], whatever master spark-submit was given."""
    settings = [f"--conf={name}={value}" for name, value in GIVEN.items()]
    done = spark_submit("--master", "local[1]", "--jars", submit.jars_option(), *settings, program)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['local[1]', 'localhost', 'true', 'Europe/Berlin', 'shown', 'LAST_WIN']\n"


@pytest.mark.thorough
def test_without_the_jars_one_line_says_how_to_submit(program: str) -> None:
    """It said "use build_session()", which the program did."""
    done = spark_submit("--master", "local[1]", program)
    assert done.returncode == 1
    told = done.stdout.splitlines()[-1]  # where spark-submit puts what a program writes to standard error
    assert told.startswith("jbm_spark.errors.SessionError: this session has no Kafka connector, and it cannot be had")
    assert '--jars "$(python -m jbm_spark.submit jars)"' in told


def test_a_session_that_runs_is_taken(spark: SparkSession) -> None:
    """It was refused, so that a program of ours was none for a notebook."""
    before = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.mapKeyDedupPolicy", "EXCEPTION")
    try:
        taken = session.build_session("second", settings={"spark.sql.shuffle.partitions": "3"})
        assert taken is spark
        assert spark.conf.get("spark.sql.mapKeyDedupPolicy") == "LAST_WIN"
        assert spark.conf.get("spark.sql.shuffle.partitions") == "3"
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", str(before))


@pytest.mark.parametrize(
    ("master", "settings", "told"),
    [
        ("local[7]", {}, r"has spark\.master='local\[2,3\]', and 'local\[7\]' cannot be set any more: leave it out"),
        (None, {"spark.executor.cores": "9"}, r"has spark\.executor\.cores=None, and '9' cannot be set any more"),
    ],
)
def test_what_the_running_session_cannot_have_any_more_is_refused(
    spark: SparkSession, master: str | None, settings: dict[str, str], told: str
) -> None:
    with pytest.raises(SessionError, match=told):
        session.build_session("second", master=master, settings=settings)


def test_a_job_leaves_the_session_running_that_was_there(spark: SparkSession) -> None:
    with session.job_session("job", is_quiet=True) as found:
        assert found is spark
    assert spark.range(2).count() == 2


def test_the_settings_of_spark_defaults_are_read_as_spark_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n\nspark.master   spark://h:7077\nspark.ui.enabled=true\nspark.x: a = b c \n"
    )
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert defaults_of_files() == {"spark.master": "spark://h:7077", "spark.ui.enabled": "true", "spark.x": "a = b c"}
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "none"))
    assert defaults_of_files() == {}


@pytest.mark.thorough
def test_the_packages_hold_all_that_a_worker_imports(packages: tuple[Path, Path], tmp_path: Path) -> None:
    """Python without our packages imports what a task of ours does, from the two files alone."""
    ours, others = packages
    with zipfile.ZipFile(others) as archive:
        archive.extractall(tmp_path / submit.PACKAGES)
    names = ("codec.bodies", "kafka.record_sender", "codec.registry_records")
    code = f"import jbm_spark.errors, {', '.join(f'jbm_kafka.{name}' for name in names)}"
    path = f"{ours}:{tmp_path / submit.PACKAGES}"
    done = subprocess.run(
        [BARE_PYTHON, "-c", code], env={"PYTHONPATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SparkJobError, match="file: File exists; name a folder to write to"):
        submit.write_packages(tmp_path / "file")
    assert submit.main(["options", str(tmp_path / "file")]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_program_of_the_jobs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.main(["program"]) == 0
    assert Path(capsys.readouterr().out.strip()).read_text().startswith('"""`python -m jbm_spark.cli JOB')
