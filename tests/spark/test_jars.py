"""Wrong jars are found before a JVM is started, each with the command that mends it."""

import sys
from hashlib import sha256
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from jbm_spark import jars
from jbm_spark.errors import JarsError

CONNECTOR = "spark-sql-kafka-0-10_2.13-4.2.0.jar"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A jars folder of two small files, with its list."""
    place = tmp_path / "jars"
    place.mkdir()
    contents = {CONNECTOR: b"connector", "kafka-clients-3.9.1.jar": b"clients"}
    for name, content in contents.items():
        (place / name).write_bytes(content)
    lines = [f"{sha256(content).hexdigest()}  {name}\n" for name, content in contents.items()]
    (tmp_path / "jars.sha256").write_text("".join(lines), encoding="utf-8")
    return place


def test_the_listed_jars_are_given_in_the_order_of_the_list(folder: Path) -> None:
    found = jars.check(folder, pyspark_version="4.2.0")
    assert found == [folder / CONNECTOR, folder / "kafka-clients-3.9.1.jar"]


def test_a_missing_jar_is_named_with_the_command(folder: Path) -> None:
    (folder / "kafka-clients-3.9.1.jar").unlink()
    with pytest.raises(JarsError, match=r"kafka-clients-3\.9\.1\.jar is missing .*jbm_spark\.jars fetch"):
        jars.check(folder, pyspark_version="4.2.0")


def test_a_missing_folder_is_a_missing_jar(folder: Path, tmp_path: Path) -> None:
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(JarsError, match=r"missing .*jbm_spark\.jars fetch"):
        jars.check(folder, pyspark_version="4.2.0")


def test_a_changed_jar_is_named_with_the_command(folder: Path) -> None:
    (folder / CONNECTOR).write_bytes(b"another build")
    with pytest.raises(JarsError, match=r"spark-sql-kafka.* is damaged or another build.*jbm_spark\.jars fetch"):
        jars.check(folder, pyspark_version="4.2.0")


def test_a_second_connector_in_the_folder_is_refused(folder: Path) -> None:
    (folder / "spark-sql-kafka-0-10_2.13-4.0.0.jar").write_bytes(b"old")
    with pytest.raises(JarsError, match=r"4\.0\.0\.jar .*not in jars\.sha256.*jbm_spark\.jars fetch"):
        jars.check(folder, pyspark_version="4.2.0")


def test_a_connector_of_another_release_than_pyspark_is_refused(folder: Path) -> None:
    with pytest.raises(JarsError, match=r"\(4\.2\.0\) must be PySpark's version 4\.3\.0.*pip install 'pyspark==4"):
        jars.check(folder, pyspark_version="4.3.0")


def test_a_list_that_is_no_list_is_refused_with_its_line(folder: Path) -> None:
    (folder.parent / "jars.sha256").write_text("not a digest\n", encoding="utf-8")
    with pytest.raises(JarsError, match=r"line 1.*write it with sha256sum"):
        jars.check(folder, pyspark_version="4.2.0")


def test_the_environment_names_another_jars_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.JARS_FOLDER_VARIABLE, str(folder))
    assert jars.jars_folder() == folder
    assert jars.check(pyspark_version="4.2.0")


def test_the_repository_has_the_jars_of_the_installed_pyspark() -> None:
    assert len(jars.ready()) == 5


def test_the_jars_are_in_the_users_cache_unless_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(jars.JARS_FOLDER_VARIABLE, raising=False)
    monkeypatch.setenv("JBM_CACHE", str(tmp_path))
    assert tmp_path in jars.jars_folder().parents


def test_a_folder_that_the_user_named_is_not_changed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.JARS_FOLDER_VARIABLE, str(folder))
    monkeypatch.setattr(jars, "installed_pyspark", lambda: "4.2.0")
    (folder / CONNECTOR).write_bytes(b"another build")
    with pytest.raises(JarsError, match="damaged"):
        jars.ready()
    assert (folder / CONNECTOR).read_bytes() == b"another build"


def test_a_folder_that_the_user_named_and_that_is_not_there_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`fetch` made it and loaded 10 MB into it, so a misspelt path worked with another folder."""
    place = tmp_path / "jbm" / "jars"
    monkeypatch.setenv(jars.JARS_FOLDER_VARIABLE, str(place))
    for action in ("fetch", "check"):
        assert jars.main([action]) == 1
        told = capsys.readouterr().err
        assert told == (
            f"JBM_SPARK_JARS names {place}, and there is no such folder: correct it, or unset it and run: "
            "python -m jbm_spark.jars fetch\n"
        )
    assert list(tmp_path.iterdir()) == []


def test_fetch_changes_nothing_in_a_folder_that_the_user_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(jars.JARS_FOLDER_VARIABLE, str(folder))
    (folder / "stranger.jar").write_bytes(b"")
    with pytest.raises(JarsError, match=r"stranger\.jar .* JBM_SPARK_JARS names this folder, so it is not changed"):
        jars.fetch(pyspark_version="4.2.0")
    assert (folder / "stranger.jar").exists()


def test_without_pyspark_it_is_told_before_anything_is_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setenv("JBM_CACHE", str(tmp_path))
    monkeypatch.setattr(jars, "version", missing)
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(JarsError, match=r"^PySpark is not installed: pip install 'pyspark==[0-9.]+'$"):
        jars.ready()
    assert list(tmp_path.iterdir()) == []


def test_pyspark_without_a_package_of_that_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """That of a SPARK_HOME, which spark-submit brings, was not."""

    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    wanted = jars.installed_pyspark()
    monkeypatch.setattr(jars, "version", missing)
    assert jars.installed_pyspark() == wanted


def test_fetch_without_maven_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / CONNECTOR).unlink()
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(JarsError, match=r"Maven .*install"):
        jars.fetch(folder, pyspark_version="4.2.0")


def test_the_command_prints_one_line_and_exits_1(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(jars.JARS_FOLDER_VARIABLE, str(folder))
    (folder / CONNECTOR).unlink()
    assert jars.main(["check"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_a_set_of_jars_is_there_for_whoever_fetched_it_and_whole(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JBM_CACHE", str(tmp_path))
    assert jars.extra_jars() == []
    place = jars._extra_folder("s3")
    place.mkdir(parents=True)
    (place / "hadoop-aws-3.5.0.jar").write_bytes(b"another build")
    with pytest.raises(JarsError, match=r"^the jar \S+\.jar in \S+ is missing, a stranger or damaged: .* --with s3$"):
        jars.extra_jars()
    with pytest.raises(SystemExit):
        jars.main(["fetch", "--with", "s3,gs"])
    assert capsys.readouterr().err.endswith("--with gs: there are s3\n")


def test_a_set_that_somebody_asks_for_is_checked_though_it_was_never_fetched(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JBM_CACHE", str(tmp_path))
    monkeypatch.setenv(jars.JARS_FOLDER_VARIABLE, str(folder))
    assert jars.main(["check"]) == 0
    assert jars.main(["check", "--with", "s3"]) == 1
    assert capsys.readouterr().err.endswith("python -m jbm_spark.jars fetch --with s3\n")
