"""Our classes of Java, in a jar beside this module.

`make setup` compiles them (spark/java), and a wheel brings the jar. Without it, and through Spark Connect, expressions
do the same, at half the speed.
"""

import hashlib
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from jbm_spark.jars import extra_jars, ready

JAR = Path(__file__).with_name("jbm-spark.jar")
SOURCES = Path(__file__).parents[1] / "java" / "jbm"
"""There in a source tree alone."""
DIGEST = "META-INF/sources.sha256"
"""The entry of the jar that says what it was compiled from."""


def sources_digest() -> str:
    """Return the digest of a source tree's sources; empty where there is none."""
    found = hashlib.sha256()
    sources = sorted(SOURCES.rglob("*.java"))
    for path in sources:
        found.update(path.read_bytes())
    return found.hexdigest() if sources else ""


def own_jars() -> list[Path]:
    """The jar alone; nothing where it is missing, damaged, or of other sources than those that are here."""
    try:
        with ZipFile(JAR) as jar:
            compiled = jar.read(DIGEST).decode()
    except (OSError, KeyError, BadZipFile):
        return []
    return [JAR] if sources_digest() in ("", compiled) else []


def all_jars() -> list[Path]:
    """Return what a session of ours is given: those of `jars.ready` and `jars.extra_jars`, which may raise, and
    `own_jars`."""
    return [*ready(), *own_jars(), *extra_jars()]
