"""`jbm-spark archive` in a process of its own, to be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.spark.conftest import Topics


@contextmanager
def archiving(topics: Topics, topic: str, folder: Path | str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The job with its JVM, again and again at every second; both are killed at the end."""
    command = [sys.executable, "-m", "jbm_spark.cli", "archive", topic, "--to", str(folder), "--every", "1s", "--json"]
    command += [*more, "--bootstrap", topics.bootstrap]
    process = subprocess.Popen(command, start_new_session=True, text=True, stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
