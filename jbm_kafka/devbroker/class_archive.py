"""An archive of the classes that a broker loads: with it one starts with half of the work.

The Java machine that writes it does so at its end. Each that reads it compares it with itself and with the jars, and
does without one that does not fit; so it may be missing or old, and nothing depends on it.
"""

import os
import tempfile
from pathlib import Path

from jbm_kafka.devbroker.broker import LocalBroker
from jbm_kafka.devbroker.process import archive_of


def ensure_archive(jars: Path) -> bool:
    """Runs a broker for it where it is missing; False when none could be written.

    Raises:
        LocalBrokerError: the broker did not start.
    """
    archive = archive_of(jars)
    if archive.exists():
        return True
    partial = archive.with_suffix(f".{os.getpid()}")
    options = [f"-XX:ArchiveClassesAtExit={partial}", "-Xlog:cds*=off"]
    with tempfile.TemporaryDirectory(prefix="jbm-kafka-") as folder, LocalBroker(folder, java_options=options):
        pass
    if partial.exists():
        partial.replace(archive)
    return archive.exists()
