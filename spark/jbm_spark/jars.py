"""The jars PySpark needs to read Kafka: where they are, whether they are the right ones, how to get them.

`jars.sha256` beside the folder is the whole truth: a session loads exactly the listed files, and only if the folder
holds these and no other jar. A connector of another release than PySpark works in batches and fails in streams, so it
is found here, before a JVM is started.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from jbm_spark.errors import JarsError

JARS_FOLDER_VARIABLE = "JBM_SPARK_JARS"
"""Environment variable that names the jars folder when it is not the repository's spark/jars."""

REMEDY = "run `make setup`"

_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_[0-9.]+-(?P<version>[0-9].*)\.jar")
_LIST_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<name>[^/\s]+\.jar)")


def jars_folder() -> Path:
    """The folder that JBM_SPARK_JARS names, or spark/jars of the repository this package is installed from."""
    named = os.environ.get(JARS_FOLDER_VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parent.parent / "jars"


def installed_pyspark() -> str:
    """The version of PySpark here, without importing it.

    Raises:
        JarsError: there is none.
    """
    try:
        return version("pyspark")
    except PackageNotFoundError:
        raise JarsError(f"PySpark is not installed: {REMEDY}, or pip install 'jbm-kafka[spark]'") from None


def listed(folder: Path) -> dict[str, str]:
    """File name to SHA-256 of every jar that `folder` must hold, in the order of jars.sha256 beside it.

    Raises:
        JarsError: the list is missing, or a line is not what sha256sum writes.
    """
    path = folder.parent / "jars.sha256"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise JarsError(f"cannot read the list of Spark jars {path} ({error.strerror}): restore it from git") from None
    digests: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        match = _LIST_LINE.fullmatch(line)
        if match is None:
            raise JarsError(f"{path}, line {number}: not a SHA-256 and a jar's name: {line!r}; restore it from git")
        digests[match["name"]] = match["digest"]
    return digests


def check(folder: Path | None = None, *, pyspark_version: str | None = None) -> list[Path]:
    """The listed jars, each present and unchanged, with no other jar beside them. Takes some 10 ms.

    Raises:
        JarsError: the first mismatch, with the command that mends it.
    """
    place = folder or jars_folder()
    digests = listed(place)
    _check_connector(digests, pyspark_version or installed_pyspark())
    present = {path.name for path in place.glob("*.jar")}
    for name in sorted(digests.keys() - present):
        raise JarsError(f"the Spark jar {name} is missing from {place}: {REMEDY}")
    for name in sorted(present - digests.keys()):
        raise JarsError(f"the jar {name} in {place} is not in jars.sha256: {REMEDY}, it removes strangers")
    for name, digest in digests.items():
        if _digest(place / name) != digest:
            raise JarsError(f"the Spark jar {name} in {place} is damaged or another build: {REMEDY}")
    return [place / name for name in digests]


def fetch(folder: Path | None = None) -> bool:
    """Make `check` pass: remove wrong jars and let Maven copy what is missing. False: all was there already.

    Raises:
        JarsError: Maven is missing or failed, or what it brought is not what the list says.
    """
    place = folder or jars_folder()
    try:
        check(place)
    except JarsError:
        _remove_unlisted_or_damaged(place, listed(place))
        _copy_with_maven(place)
        check(place)
        return True
    return False


def _check_connector(digests: Mapping[str, str], pyspark_version: str) -> None:
    connectors = [match["version"] for name in digests if (match := _CONNECTOR.fullmatch(name))]
    if connectors != [pyspark_version]:
        found = ", ".join(connectors) or "none"
        raise JarsError(
            f"the Spark Kafka connector in jars.sha256 ({found}) must be PySpark's version {pyspark_version}: "
            f"{REMEDY} for the matching PySpark, or raise spark/pom.xml and jars.sha256 together"
        )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_unlisted_or_damaged(folder: Path, digests: Mapping[str, str]) -> None:
    for path in folder.glob("*.jar"):
        if digests.get(path.name) != _digest(path):
            path.unlink()


def _copy_with_maven(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise JarsError("Maven (mvn) is needed once to fetch the Spark jars: install it, e.g. apt-get install maven")
    command = [maven, "--batch-mode", "--quiet", "--file", str(folder.parent / "pom.xml"),
               "dependency:copy-dependencies", f"-DoutputDirectory={folder}"]  # fmt: skip
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["no reason given"]
        raise JarsError(f"Maven could not fetch the Spark jars: {errors[0]}; to see more: {' '.join(command)}")


def main(arguments: list[str] | None = None) -> int:
    """`python -m jbm_spark.jars check|fetch`: exit 0 when the jars are right, 1 with one line when not."""
    parser = argparse.ArgumentParser(prog="python -m jbm_spark.jars", description="the jars PySpark needs for Kafka")
    parser.add_argument("action", choices=["check", "fetch"])
    chosen = parser.parse_args(arguments)
    try:
        if chosen.action == "fetch":
            fetch()
        else:
            check()
    except JarsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
