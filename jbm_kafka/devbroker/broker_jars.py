"""Kafka's own jars, fetched once by Maven into the user's cache."""

import hashlib
import re
import shutil
from importlib.resources import files
from pathlib import Path

from jbm_kafka.devbroker.broker_error import LocalBrokerError
from jbm_kafka.devbroker.file_lock import locked
from jbm_kafka.devbroker.folders import cache_folder
from jbm_kafka.devbroker.maven import FETCH_TIMEOUT_S, MavenError, copy_jars


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
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        copy_jars(pom, partial, what=f"the jars of Kafka {kafka_version()}")
    except MavenError as error:
        raise LocalBrokerError(str(error)) from error
    partial.rename(folder)
