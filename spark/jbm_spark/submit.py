"""Tells what spark-submit is to be given for a program that uses jbm-kafka, on workers where nothing of it is
installed.

    spark-submit --master spark://host:7077 $(python -m jbm_spark.submit options build) program.py

The packages go in two files: `jbm.zip` has ours, as source; `jbm-packages.zip` has all that they need, as installed
here, so the workers need the same release of Python and the same kind of machine.
"""

import argparse
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

from jbm_kafka.codec.schemas import schemas_folder
from jbm_spark.errors import SparkJobError
from jbm_spark.own_jar import all_jars

OURS = ("jbm_kafka", "jbm_spark", "pyspark_jbm")
PACKAGES = "jbm-packages"
"""The folder that the archive becomes beside each executor."""

_OF_SPARK = {"pyspark", "py4j"}
"""Every worker of Spark's has them."""
_EXTRAS = (None, "spark")
_NOT_SOURCE = (".so", ".pyc", ".jar")
"""Files of our own packages that stay out: compiled modules cannot be imported from a zip, and are there as source too;
jars go apart."""
_NOT_NEEDED = (".pyc", ".pyi", ".pxd", ".pyx", ".c", ".h")
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(?:.*;.*extra == ['\"](?P<extra>[^'\"]+))?")


def write_packages(folder: Path) -> tuple[Path, Path]:
    """The two files, made in the folder.

    Raises:
        SparkJobError: the folder cannot be written, or a package is not installed here.
    """
    ours, others = folder / "jbm.zip", folder / f"{PACKAGES}.zip"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ZipFile(ours, "w", ZIP_DEFLATED) as archive:
            for name in OURS:
                if find_spec(name) is not None:
                    _add_source(archive, files(name), name)
            if not (files("jbm_kafka") / "schemas").is_dir():  # in a source tree they stand beside the package
                _add_source(archive, schemas_folder(), "jbm_kafka/schemas")
        with ZipFile(others, "w", ZIP_DEFLATED, compresslevel=1) as archive:  # machine code, and much of it
            for name in sorted(_needed("jbm-kafka", set())):
                _add_installed(archive, name)
    except OSError as error:
        raise SparkJobError(f"{error.filename or folder}: {error.strerror}; name a folder to write to") from None
    return ours, others


def find_program() -> str:
    """The path of the program that runs the jobs: `spark-submit PATH load ...`."""
    return str(files("jbm_spark") / "cli" / "__main__.py")


def options(folder: Path) -> list[str]:
    """The options of spark-submit, with the files made.

    Raises:
        JarsError: as `jars.ready`.
        SparkJobError: as `write_packages`.
    """
    ours, others = write_packages(folder)
    return [
        "--jars", jars_option(), "--py-files", str(ours), "--archives", f"{others}#{PACKAGES}",
        "--conf", f"spark.executorEnv.PYTHONPATH={PACKAGES}",
    ]  # fmt: skip


def jars_option() -> str:
    """The jars, fetched, as spark-submit's `--jars` takes them.

    Raises:
        JarsError: as `jars.ready`.
    """
    return ",".join(str(path) for path in all_jars())


def _add_source(archive: ZipFile, place: Traversable, name: str) -> None:
    if place.is_dir():
        for each in place.iterdir():
            _add_source(archive, each, f"{name}/{each.name}")
    elif not name.endswith(_NOT_SOURCE):
        archive.writestr(name, place.read_bytes())


def _needed(package: str, known: set[str]) -> set[str]:
    """The packages that it needs at run time, and that these need, as far as they are installed."""
    for line in distribution(package).requires or ():
        found = _REQUIREMENT.match(line)
        assert found is not None, line
        name = found["name"].lower()
        # Those that a marker leaves out for this Python are not installed.
        if name not in known | _OF_SPARK and found["extra"] in _EXTRAS and _is_installed(name):
            known.add(name)
            _needed(name, known)
    return known


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _add_installed(archive: ZipFile, name: str) -> None:
    for path in distribution(name).files or ():
        if ".." not in path.parts and path.suffix not in _NOT_NEEDED:
            archive.write(str(path.locate()), str(path))


def main(arguments: list[str] | None = None) -> int:
    """`python -m jbm_spark.submit jars|program|options FOLDER`: exit 0, or 1 with one line."""
    parser = argparse.ArgumentParser(prog="python -m jbm_spark.submit", description="what spark-submit is to be given")
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("jars", help="print the jars for --jars, fetched")
    actions.add_parser("program", help="print the program that runs the jobs of jbm-spark")
    for_options = actions.add_parser("options", help="print all options; the packages are written into FOLDER")
    for_options.add_argument("folder", metavar="FOLDER", type=Path)
    chosen = parser.parse_args(arguments)
    try:
        if chosen.action == "options":
            print(*options(chosen.folder))
        else:
            print(jars_option() if chosen.action == "jars" else find_program())
    except SparkJobError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
