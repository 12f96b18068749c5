"""A standalone cluster of Spark's: a master and a worker, which have nothing of ours."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from jbm_spark.shared_classes import reading_options
from tests.support.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
STARTS_S = 180.0
FAST = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""For each JVM: what runs here is over before it would be faster with more."""
BARE_PYTHON: str = sys._base_executable  # type: ignore[attr-defined]  # the interpreter of our virtual environment


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """Where it is."""

    master: str
    log: Path
    """The master's."""

    def submit(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Of spark-submit, with the driver here and its tasks on the workers."""
        settings = {
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": FAST,
            "spark.sql.shuffle.partitions": "3",
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        }
        given = [f"--conf={name}={value}" for name, value in settings.items()]
        return spark_submit("--master", self.master, *given, *arguments, worker=BARE_PYTHON)


def spark_submit(*arguments: str, worker: str = sys.executable) -> "subprocess.CompletedProcess[str]":
    """To its end; the driver has our Python."""
    options = " ".join([FAST, *reading_options()])
    command = [str(SPARK_HOME / "bin" / "spark-submit"), "--driver-java-options", options, *arguments]
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": worker}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=1000)


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Started; its logs and the workers' files are in the folder."""
    with ExitStack() as stack:
        at = ["--host", "127.0.0.1", "--webui-port", "0"]
        master = stack.enter_context(_running(folder / "master.log", "deploy.master.Master", *at, "--port", "0"))
        address = master.told(r"Starting Spark master at (spark://\S+)")
        own = ["--cores", "2", "--memory", "600m", "--work-dir", str(folder / "worker")]
        worker = stack.enter_context(_running(folder / "worker.log", "deploy.worker.Worker", address, *at, *own))
        worker.told("Successfully registered with (master)")
        yield SparkCluster(address, master.log)


@contextmanager
def connect_server(folder: Path, *options: str) -> Iterator[str]:
    """The address of a server of Spark Connect; its Python has nothing of ours."""
    settings = {
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.pyspark.python": BARE_PYTHON,
    }
    given = [f"--conf={name}={value}" for name, value in settings.items()]
    program = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    submit = ["deploy.SparkSubmit", "--master", "local[2,3]", "--driver-java-options", FAST, *given, *options, *program]
    with _running(folder / "connect.log", *submit) as server:
        yield f"sc://127.0.0.1:{server.told(r'Spark Connect server started at: .*:([0-9]+)')}"


@dataclass(frozen=True, slots=True)
class _Running:
    process: "subprocess.Popen[bytes]"
    log: Path

    def told(self, pattern: str) -> str:
        """What the group of the pattern is, once the log has it."""

        def found() -> "re.Match[str] | None":
            text = self.log.read_text()
            assert self.process.poll() is None, f"it ended:\n{text}"
            return re.search(pattern, text)

        return wait_until(found, about=f"{pattern} in {self.log}", timeout_s=STARTS_S)[1]


@contextmanager
def _running(log: Path, name: str, *arguments: str) -> Iterator[_Running]:
    """A process of Spark's, with nothing of ours in its environment."""
    java = shutil.which("java")
    assert java is not None
    environment = {
        "PATH": "/usr/bin:/bin",
        "JAVA_HOME": str(Path(java).resolve().parents[1]),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": FAST,
        "SPARK_DAEMON_MEMORY": "600m",  # of a driver, such as the server of Connect is, Spark wants 450 MB
    }
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.{name}", *arguments]
    with log.open("wb") as sink, subprocess.Popen(command, env=environment, stdout=sink, stderr=sink) as process:
        try:
            yield _Running(process, log)
        finally:
            process.terminate()
