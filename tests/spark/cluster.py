"""A standalone cluster of Spark's: a master and two workers, which have nothing of ours."""

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

from tests.support.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
STARTS_S = 180.0
BARE_PYTHON: str = sys._base_executable  # type: ignore[attr-defined]  # the interpreter of our virtual environment
_MASTER = re.compile(r"Starting Spark master at (spark://\S+)")


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """Where it is."""

    master: str
    log: Path
    """The master's."""

    def submit(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Of spark-submit, with the driver here and its tasks on the workers."""
        settings = ["--conf", "spark.executor.memory=512m", "--conf", "spark.sql.shuffle.partitions=3"]
        return spark_submit("--master", self.master, *settings, *arguments, worker=BARE_PYTHON)


def spark_submit(*arguments: str, worker: str = sys.executable) -> "subprocess.CompletedProcess[str]":
    """To its end; the driver has our Python."""
    command = [str(SPARK_HOME / "bin" / "spark-submit"), *arguments]
    environment = {**os.environ, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": worker}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=500)


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Started; its logs and the workers' files are in the folder."""
    with ExitStack() as stack:
        master = folder / "master.log"
        stack.enter_context(
            _running(master, "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        )
        address = wait_until(lambda: _MASTER.search(master.read_text()), about="the master", timeout_s=STARTS_S)[1]
        for number in (1, 2):
            stack.enter_context(
                _running(folder / f"worker{number}.log", "worker.Worker", address, "--host", "127.0.0.1",
                         "--cores", "1", "--memory", "600m", "--webui-port", "0",
                         "--work-dir", str(folder / f"worker{number}"))
            )  # fmt: skip
        wait_until(lambda: master.read_text().count("Registering worker") == 2, about="two workers", timeout_s=STARTS_S)
        yield SparkCluster(address, master)


@contextmanager
def _running(log: Path, name: str, *arguments: str) -> Iterator[None]:
    """A process of Spark's, with nothing of ours in its environment."""
    java = shutil.which("java")
    assert java is not None
    home = str(Path(java).resolve().parents[1])
    environment = {"PATH": "/usr/bin:/bin", "JAVA_HOME": home, "SPARK_HOME": str(SPARK_HOME),
                   "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}  # fmt: skip
    command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as sink, subprocess.Popen(command, env=environment, stdout=sink, stderr=sink) as process:
        try:
            yield
        finally:
            process.terminate()
