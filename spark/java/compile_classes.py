"""`python spark/java/compile_classes.py`: compiles our Java classes into jbm_spark/jbm-spark.jar, if they have changed.

By Eclipse's compiler, which Maven fetches: Java to run Spark is there, a compiler need not be.
"""

import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import pyspark

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.devbroker.folders import cache_folder
from jbm_kafka.devbroker.java import find_java
from jbm_kafka.devbroker.maven import copy_jars
from jbm_spark.errors import JarsError
from jbm_spark.jars import ready
from jbm_spark.own_jar import DIGEST, JAR, SOURCES, own_jars, sources_digest

JAVA = "17"
COMPILE_S = 300


def compile_classes() -> bool:
    """Write the jar. False: it was there already.

    Raises:
        JMSError: there is no Java, or no Maven, or the compiler refused; a jar of before stays.
    """
    if own_jars():
        return False
    with tempfile.TemporaryDirectory(prefix="jbm-java-") as folder:
        command = [find_java("Spark"), "-jar", str(_compiler()), "-source", JAVA, "-target", JAVA, "-nowarn",
                   "-encoding", "UTF-8",
                   "-cp", ":".join(map(str, [*(Path(pyspark.__file__).parent / "jars").glob("*.jar"), *ready()])),
                   "-d", folder, *map(str, sorted(SOURCES.rglob("*.java")))]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)
        if done.returncode != 0:
            raise JarsError(f"{done.stderr}{done.stdout}")
        partial = JAR.with_suffix(".partial")
        with ZipFile(partial, "w") as jar:
            _add(jar, "META-INF/MANIFEST.MF", b"Manifest-Version: 1.0\n")
            _add(jar, DIGEST, sources_digest().encode())
            for path in sorted(Path(folder).rglob("*.class")):
                _add(jar, path.relative_to(folder).as_posix(), path.read_bytes())
        partial.replace(JAR)
    return True


def _compiler() -> Path:
    folder = cache_folder() / "java-compiler"
    if not any(folder.glob("ecj-*.jar")):
        copy_jars(
            (SOURCES.parent / "pom.xml").read_text(encoding="utf-8"), folder, what="the compiler of our Java classes"
        )
    return next(folder.glob("ecj-*.jar"))


def _add(jar: ZipFile, name: str, content: bytes) -> None:
    jar.writestr(ZipInfo(name), content, ZIP_DEFLATED)  # without a date: the same classes are the same jar


if __name__ == "__main__":
    try:
        compile_classes()
    except (JMSError, OSError, subprocess.TimeoutExpired) as error:
        print(f"Our Java classes were not compiled, so Spark reads at half the speed: {error}", file=sys.stderr)
        sys.exit(1)
