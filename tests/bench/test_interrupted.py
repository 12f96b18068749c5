"""A benchmark that is asked to end takes its broker along."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough


@pytest.mark.timeout(240)
def test_a_terminated_benchmark_leaves_neither_broker_nor_folder(tmp_path: Path) -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "jbm_kafka.cli.main",
            "bench",
            "--quick",
            "--shape",
            "latency",
            "--json",
            "measured.json",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        cwd=tmp_path,
    ) as bench:
        assert bench.stdout is not None
        for line in bench.stdout:
            if line.startswith("on Kafka at "):
                break
        assert list(tmp_path.glob("jbm-bench-*"))
        bench.send_signal(signal.SIGTERM)
        said = bench.stdout.read()
    assert bench.returncode == 1, said
    assert said.rstrip().endswith("jbm-kafka: interrupted")
    assert not list(tmp_path.glob("jbm-bench-*"))
    assert not _commands_naming(tmp_path)


def _commands_naming(folder: Path) -> list[str]:
    """Command lines of processes that work in the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if f"{folder}/" in command:
            found.append(command)
    return found
