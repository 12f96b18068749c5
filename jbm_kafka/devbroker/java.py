"""Finds the Java that runs the broker, or Spark, or says in one line what is missing."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from jbm_kafka.devbroker.broker_error import LocalBrokerError

JAVA_VERSION_MIN = 17
"""The version for which Kafka 4 brokers and Spark 4 are compiled."""

_HOW_TO = "install a Java 17 runtime (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to one"


def find_java(program: str = "the local broker") -> str:
    """Path of a `java` new enough: JAVA_HOME's, else the first on PATH. `program`: the program that needs it.

    Raises:
        LocalBrokerError: no java is found, it does not run, or it is too old.
    """
    java = _candidate()
    if java is None:
        raise LocalBrokerError(f"{program} needs Java {JAVA_VERSION_MIN} or later and found no java: {_HOW_TO}")
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LocalBrokerError(f"{java} does not run ({error}): {_HOW_TO}", java=java) from error
    version = java_version(answer.stderr + answer.stdout)
    if version is None or version < JAVA_VERSION_MIN:
        found = f"Java {version}" if version else "of unknown version"
        raise LocalBrokerError(
            f"{program} needs Java {JAVA_VERSION_MIN} or later and {java} is {found}: {_HOW_TO}", java=java
        )
    return java


def java_version(answer: str) -> int | None:
    """The feature release that `java -version` printed (8 for 1.8), None when it says none."""
    found = re.search(r'version "(?:1\.)?(\d+)', answer)
    return int(found.group(1)) if found else None


def _candidate() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home:
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
