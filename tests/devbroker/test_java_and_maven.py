"""What is missing is said in one line, before anything is started."""

from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker, LocalBrokerError
from jbm_kafka.devbroker.broker_jars import ensure_jars, kafka_version
from jbm_kafka.devbroker.java import find_java, java_version


@pytest.mark.parametrize(
    ("answer", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_202"', 8),
        ('openjdk version "21" 2023-09-19', 21),
        ("Error: could not find libjava.so", None),
    ],
)
def test_the_version_is_read_from_what_java_prints(answer: str, version: int | None) -> None:
    assert java_version(answer) == version


def test_no_java_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalBrokerError, match=r"found no java: install a Java 17 runtime"):
        LocalBroker(tmp_path / "broker").start()
    assert not LocalBroker(tmp_path / "broker").is_running


def test_a_java_too_old_is_named_with_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(LocalBrokerError, match=rf"{java} is Java 11: install"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(LocalBrokerError, match=r"none/bin/java does not run"):
        find_java()


def test_no_maven_is_said_when_jars_have_to_be_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JBM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LocalBrokerError, match=r"Maven \(mvn\), which fetches them, was not found: install it"):
        ensure_jars()


def test_a_maven_that_fails_leaves_no_jars_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven = tmp_path / "mvn"
    maven.write_text("#!/bin/sh\necho '[ERROR] no such artifact'\nexit 1\n")
    maven.chmod(0o755)
    monkeypatch.setenv("JBM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    for _ in range(2):
        with pytest.raises(LocalBrokerError, match=rf"Maven could not fetch .* {kafka_version()}: no such artifact"):
            ensure_jars()
