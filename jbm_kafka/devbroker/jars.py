"""Kafka's own jars, fetched once by Maven into the user's cache."""

import hashlib
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

from jbm_kafka.devbroker.errors import LocalBrokerError
from jbm_kafka.devbroker.file_lock import locked
from jbm_kafka.devbroker.folders import cache_folder

FETCH_TIMEOUT_S = 900.0


def resource_text(name: str) -> str:
    """Text of a file beside this module, also from an installed wheel."""
    return (files("jbm_kafka.devbroker") / name).read_text(encoding="utf-8")


def kafka_version() -> str:
    """The version named in pom.xml, its only place."""
    found = re.search(r"<kafka\.version>(.+?)</kafka\.version>", resource_text("pom.xml"))
    assert found, "pom.xml names no kafka.version"
    return found.group(1)


def ensure_jars() -> Path:
    """Folder with every jar of the broker; fetched when missing, by one process while others wait.

    Raises:
        LocalBrokerError: Maven is missing or failed; nothing half-fetched is left in place.
    """
    pom = resource_text("pom.xml")
    # A changed pom must not meet the jars of the old one, so its digest is part of the name.
    digest = hashlib.sha256(pom.encode()).hexdigest()[:8]
    folder = cache_folder() / f"kafka-{kafka_version()}-{digest}"
    if not folder.exists():
        with locked(folder.with_name(folder.name + ".lock"), timeout_s=FETCH_TIMEOUT_S):
            if not folder.exists():
                _fetch(pom, folder)
    return folder


def _fetch(pom: str, folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise LocalBrokerError(
            f"Kafka's jars are not in {folder.parent} yet and Maven, which fetches them, was not found: "
            "install it (Debian: apt-get install maven)"
        )
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    pom_file = partial / "pom.xml"
    pom_file.write_text(pom, encoding="utf-8")
    command = [maven, "--batch-mode", "--no-transfer-progress", "-f", str(pom_file), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise LocalBrokerError(f"Maven could not fetch Kafka {kafka_version()}: {_first_error(done.stdout)}")
    partial.rename(folder)


def _first_error(output: str) -> str:
    lines = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    return lines[0].removeprefix("[ERROR] ") if lines else "it gave no reason"
