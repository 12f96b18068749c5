"""Java clients of the AMQP server, and Artemis: their jars, fetched once by Maven, and our classes of clients."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from jbm_kafka.devbroker.file_lock import locked
from jbm_kafka.devbroker.folders import cache_folder
from jbm_kafka.devbroker.maven import FETCH_TIMEOUT_S, copy_jars

SOURCES, ARTEMIS = Path(__file__).parent / "java", Path(__file__).parent / "artemis"
JAVAX_CLIENT, JAKARTA_CLIENT = "<version>1.16.0</version>", "<version>2.10.0</version>"
"""Qpid JMS of `javax.jms`, as in the pom, and of `jakarta.jms`."""
JORAM = "org/objectweb/jtests/jms/conform/"


def jars(*, are_jakarta: bool = False) -> Path:
    """The folder that has those of the clients."""
    pom = (SOURCES / "pom.xml").read_text(encoding="utf-8")
    return _fetched("amqp-clients", pom.replace(JAVAX_CLIENT, JAKARTA_CLIENT) if are_jakarta else pom)


def artemis_jars() -> Path:
    """The folder that has those of the broker."""
    return _fetched("artemis", (ARTEMIS / "pom.xml").read_text(encoding="utf-8"))


def _fetched(name: str, pom: str) -> Path:
    """The folder that has the jars; where they are not there they are fetched."""
    folder = cache_folder() / f"{name}-{hashlib.sha256(pom.encode()).hexdigest()[:8]}"
    if not folder.exists():
        with locked(folder.with_name(folder.name + ".lock"), timeout_s=FETCH_TIMEOUT_S):
            if not folder.exists():
                partial = folder.with_name(folder.name + ".partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir(parents=True)
                copy_jars(pom, partial, what=f"the jars of {name}")
                partial.rename(folder)
    return folder


def joram_tests() -> list[str]:
    """Names of all test classes of JORAM's suite."""
    (jar,) = jars().glob("joram-jms-tests-*.jar")
    with zipfile.ZipFile(jar) as packed:
        names = [name for name in packed.namelist() if name.startswith(JORAM) and name.endswith("Test.class")]
    return sorted(name.removesuffix(".class").replace("/", ".") for name in names)


def _as_jakarta(source: Path, folder: Path) -> Path:
    made = folder / source.name
    made.write_text(source.read_text(encoding="utf-8").replace("javax.jms", "jakarta.jms"), encoding="utf-8")
    return made


class JavaClients:
    """Our classes, compiled into a folder."""

    def __init__(self, folder: Path, *, are_jakarta: bool = False) -> None:
        self._path = f"{folder}:{jars(are_jakarta=are_jakarta)}/*"
        sources = sorted(SOURCES.glob("*.java"))
        if are_jakarta:
            sources = [_as_jakarta(each, folder) for each in sources]
        subprocess.run(
            ["javac", "-nowarn", "-cp", self._path, "-d", str(folder), *map(str, sources)], check=True, timeout=120
        )
        (folder / "provider.properties").write_text("jms.provider.admin.class = JoramAdmin\n", encoding="ascii")
        (folder / "test.properties").write_text("timeout = 30000\n", encoding="ascii")

    def start(
        self, main: str, arguments: Sequence[str] = (), properties: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """A process that runs the class; its output is a pipe."""
        said = [f"-D{name}={value}" for name, value in (properties or {}).items()]
        command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *said, "-cp", self._path, main, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(
        self, main: str, arguments: Sequence[str], properties: Mapping[str, str], *, timeout_s: float
    ) -> tuple[int, str]:
        """Run the class to its end; its exit code and output."""
        process = self.start(main, arguments, properties)
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except BaseException:
            process.kill()
            output, _ = process.communicate()
            print(output)
            raise
        return process.returncode, output


if __name__ == "__main__":
    jars()
    artemis_jars()
