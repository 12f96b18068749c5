"""The settings that a session has from outside the program: spark-submit's, or those of spark-defaults.conf."""

import os
import re
from pathlib import Path

_LINE = re.compile(r"\s*(?P<name>[^#!\s=:][^\s=:]*)(?:\s*[=:]\s*|\s+)(?P<value>.*?)\s*")
"""A line of a file of Java's properties, as Spark writes it."""


def is_submitted() -> bool:
    """Return True if spark-submit runs this program, in a JVM that stands already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def defaults_of_files() -> dict[str, str]:
    """Return what spark-defaults.conf says, where there is one: Spark reads it too, but tells no one what came from
    there."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and Path(home) / "conf")
    path = None if not folder else Path(folder) / "spark-defaults.conf"
    if path is None or not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {found["name"]: found["value"] for line in lines if (found := _LINE.fullmatch(line))}
