"""The jars PySpark needs to read Kafka: where they are, whether they are the right ones, how to get them.

`jars.sha256` is the whole truth: a session loads exactly the listed files, and only if the folder holds these and no
other jar. A connector of another release than PySpark works in batches and fails in streams, so it is found here,
before a JVM is started. What is missing in our own folder is fetched; a folder that the user named is only checked.

A set of EXTRAS, such as `s3`, has its own list, pom and folder. Whoever fetched it has it in every session.
"""

import argparse
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from jbm_kafka.devbroker.file_lock import locked
from jbm_kafka.devbroker.folders import cache_folder
from jbm_kafka.devbroker.maven import FETCH_TIMEOUT_S, MavenError, copy_jars
from jbm_kafka.pyspark_hint import install_hint
from jbm_spark.errors import JarsError

JARS_FOLDER_VARIABLE = "JBM_SPARK_JARS"
"""Environment variable that names the jars folder when it is not the one in the user's cache."""

REMEDY = "run: python -m jbm_spark.jars fetch"
_OWN_REMEDY = (
    f"{JARS_FOLDER_VARIABLE} names this folder, so it is not changed: put the listed jars there and no others, or "
    f"unset {JARS_FOLDER_VARIABLE} and {REMEDY}"
)

EXTRAS = {"s3": "the jars that join Spark to S3"}
"""What is fetched where somebody asks for it: `jars-NAME.sha256` and `pom-NAME.xml`."""

_LIST = "jars.sha256"
_CONNECTOR = re.compile(r"spark-sql-kafka-0-10_[0-9.]+-(?P<version>[0-9].*)\.jar")
_LIST_LINE = re.compile(r"(?P<digest>[0-9a-f]{64}) [ *](?P<name>[^/\s]+\.jar)")


def jars_folder() -> Path:
    """The folder that JBM_SPARK_JARS names, else one in the user's cache that belongs to this list of jars alone."""
    named = os.environ.get(JARS_FOLDER_VARIABLE)
    if named:
        return Path(named)
    digest = hashlib.sha256(_resource_text(_LIST).encode()).hexdigest()[:8]
    return cache_folder() / f"spark-{digest}" / "jars"


def installed_pyspark() -> str:
    """The version of PySpark here; it is imported only where no package tells, as with the one in a SPARK_HOME.

    Raises:
        JarsError: it is missing.
    """
    try:
        return version("pyspark")
    except PackageNotFoundError:
        pass
    try:
        return str(import_module("pyspark").__version__)
    except ModuleNotFoundError:
        raise JarsError(f"PySpark is not installed: {install_hint()}") from None


def listed(folder: Path) -> dict[str, str]:
    """File name to SHA-256 of every jar that `folder` must hold, in order of the list: that beside it, else ours.

    Raises:
        JarsError: a line is not what sha256sum writes.
    """
    path = folder.parent / _LIST
    return _listed(path, path.read_text(encoding="utf-8") if path.exists() else _resource_text(_LIST))


def _listed(path: str | Path, text: str) -> dict[str, str]:
    digests: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LIST_LINE.fullmatch(line)
        if match is None:
            raise JarsError(f"{path}, line {number}: not a SHA-256 and a jar's name: {line!r}; write it with sha256sum")
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
    is_users = _is_users(place)
    if is_users and not place.is_dir():
        raise JarsError(
            f"{JARS_FOLDER_VARIABLE} names {place}, and there is no such folder: correct it, or unset it and {REMEDY}"
        )
    present = {path.name for path in place.glob("*.jar")}
    remedy = _OWN_REMEDY if is_users else REMEDY
    for name in sorted(digests.keys() - present):
        raise JarsError(f"the Spark jar {name} is missing from {place}: {remedy}")
    for name in sorted(present - digests.keys()):
        strangers = "" if is_users else ", it removes strangers"
        raise JarsError(f"the jar {name} in {place} is not in {_LIST}: {remedy}{strangers}")
    for name, digest in digests.items():
        if _digest(place / name) != digest:
            raise JarsError(f"the Spark jar {name} in {place} is damaged or another build: {remedy}")
    return [place / name for name in digests]


def ready() -> list[Path]:
    """Return what `check` gives, after `fetch`.

    Raises:
        JarsError: as `check` and `fetch`.
    """
    fetch()
    return check()


def extra_jars() -> list[Path]:
    """Return those of the extra sets that were fetched, each as it was listed.

    Raises:
        JarsError: one is damaged.
    """
    return [path for name in EXTRAS if (place := _extra_folder(name)).is_dir() for path in _checked_extra(name, place)]


def fetch_extra(name: str) -> None:
    """Have a set of EXTRAS from now on.

    Raises:
        JarsError: as `fetch`.
    """
    place = _extra_folder(name)
    with locked(place.with_name(f"{place.name}.lock"), timeout_s=FETCH_TIMEOUT_S):
        if place.is_dir():
            with suppress(JarsError):
                _checked_extra(name, place)
                return
        draft = place.with_name(f"{name}.draft")
        shutil.rmtree(draft, ignore_errors=True)
        try:
            copy_jars(_resource_text(f"pom-{name}.xml"), draft, what=EXTRAS[name])
        except MavenError as error:
            raise JarsError(str(error)) from error
        _checked_extra(name, draft)
        shutil.rmtree(place, ignore_errors=True)
        draft.rename(place)


def _checked_extra(name: str, place: Path) -> list[Path]:
    digests = _listed(f"jars-{name}.sha256", _resource_text(f"jars-{name}.sha256"))
    found = {path.name: _digest(path) for path in place.glob("*.jar")}
    if found != digests:
        wrong = min(each for each, _ in found.items() ^ digests.items())
        raise JarsError(f"the jar {wrong} in {place} is missing, a stranger or damaged: {REMEDY} --with {name}")
    return [place / each for each in digests]


def _extra_folder(name: str) -> Path:
    digest = hashlib.sha256(_resource_text(f"jars-{name}.sha256").encode()).hexdigest()[:8]
    return cache_folder() / f"spark-{name}-{digest}" / "jars"


def fetch(folder: Path | None = None, *, pyspark_version: str | None = None) -> bool:
    """Make `check` pass: remove wrong jars and let Maven copy what is missing. False: all was there already.

    The folder that JBM_SPARK_JARS names is the user's: it is checked, and nothing is changed there. Processes that
    fetch at once do it one after the other.

    Raises:
        JarsError: Maven is missing or failed, what it brought is not what the list says, or PySpark is another's.
    """
    place = folder or jars_folder()
    wanted = pyspark_version or installed_pyspark()
    if _is_users(place):
        check(place, pyspark_version=wanted)
        return False
    digests = listed(place)
    _check_connector(digests, wanted)
    if _is_right(place, wanted):
        return False
    with locked(place.with_name(place.name + ".lock"), timeout_s=FETCH_TIMEOUT_S):
        if _is_right(place, wanted):  # somebody else fetched meanwhile
            return False
        _remove_unlisted_or_damaged(place, digests)
        try:
            copy_jars(_resource_text("pom.xml"), place, what="the jars that join Spark to Kafka")
        except MavenError as error:
            raise JarsError(str(error)) from error
        check(place, pyspark_version=wanted)
    return True


def _is_users(folder: Path) -> bool:
    named = os.environ.get(JARS_FOLDER_VARIABLE)
    return bool(named) and Path(str(named)) == folder


def _is_right(folder: Path, pyspark_version: str) -> bool:
    try:
        check(folder, pyspark_version=pyspark_version)
    except JarsError:
        return False
    return True


def _check_connector(digests: Mapping[str, str], pyspark_version: str) -> None:
    connectors = [match["version"] for name in digests if (match := _CONNECTOR.fullmatch(name))]
    if connectors != [pyspark_version]:
        found = ", ".join(connectors) or "none"
        raise JarsError(
            f"the Spark Kafka connector in {_LIST} ({found}) must be PySpark's version {pyspark_version}: "
            f"{install_hint()} brings the PySpark of these jars; other jars: {JARS_FOLDER_VARIABLE}, see "
            "jbm-kafka docs spark"
        )


def _resource_text(name: str) -> str:
    return (files("jbm_spark") / name).read_text(encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_unlisted_or_damaged(folder: Path, digests: Mapping[str, str]) -> None:
    for path in folder.glob("*.jar"):
        if digests.get(path.name) != _digest(path):
            path.unlink()


def main(arguments: list[str] | None = None) -> int:
    """`python -m jbm_spark.jars check|fetch`: exit 0 when the jars are right, 1 with one line when not."""
    parser = argparse.ArgumentParser(prog="python -m jbm_spark.jars", description="the jars PySpark needs for Kafka")
    parser.add_argument("action", choices=["check", "fetch"])
    parser.add_argument("--with", dest="extras", metavar="SETS", type=lambda text: text.split(","), default=[],
                        help=f"these, too, for all sessions: {', '.join(EXTRAS)}")  # fmt: skip
    chosen = parser.parse_args(arguments)
    for name in chosen.extras:
        if name not in EXTRAS:
            parser.error(f"--with {name}: there are {', '.join(EXTRAS)}")
    try:
        if chosen.action == "fetch":
            fetch()
            for name in chosen.extras:
                fetch_extra(name)
        else:
            check()
            extra_jars()
            for name in chosen.extras:
                _checked_extra(name, _extra_folder(name))
    except JarsError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
