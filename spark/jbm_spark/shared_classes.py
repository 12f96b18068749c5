"""An archive of the classes that Spark loads: with it a session starts with half of the work.

The Java machine that writes it does so at its end (archive_classes.py). Each that reads it compares it with itself and
with Spark's jars, and does without one that does not fit; so it may be missing or old, and nothing depends on it.
"""

import sys
from pathlib import Path


def class_archive() -> Path:
    """The file; it goes with the environment that PySpark is installed in, whose paths are in it."""
    return Path(sys.prefix) / "share" / "jbm-kafka" / "spark-classes.jsa"


def reading_options() -> list[str]:
    """Java's, for a session; empty without an archive."""
    archive = class_archive()
    return [f'"-XX:SharedArchiveFile={archive}"', "-Xlog:cds*=off"] if archive.exists() else []


def writing_options(partial: Path) -> list[str]:
    """Java's, for the session that writes one to the file `partial`."""
    return [f'"-XX:ArchiveClassesAtExit={partial}"', "-Xlog:cds*=off"]
