"""Programs one after the other in one process, each as if it were the only one: a path a line on standard input.

For those that start Spark: its JVM outlives a session and serves the next, which saves most of what a program takes.
What a program prints is followed by DONE. One that fails ends the process, with its traceback.
"""

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from threading import Timer
from types import TracebackType
from typing import Self

DONE = "-- this was the program --"


class OneAfterAnother:
    """A process that runs programs; it starts with the first of them, and ends with the `with` block."""

    def __init__(self, folder: Path, environment: Mapping[str, str], timeout_s: float) -> None:
        """`timeout_s`: of each program."""
        self._folder = folder
        self._environment = environment
        self._timeout_s = timeout_s
        self._process: subprocess.Popen[str] | None = None

    def run(self, path: Path) -> str:
        """What it prints.

        Raises:
            AssertionError: it failed; with its output.
        """
        process = self._process = self._process or self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = Timer(self._timeout_s, process.kill)
        timer.start()
        try:
            process.stdin.write(f"{path}\n")
            process.stdin.flush()
            lines: list[str] = []
            for line in process.stdout:
                if line.rstrip("\n") == DONE:
                    return "".join(lines)
                lines.append(line)
        finally:
            timer.cancel()
        code = process.wait()
        raise AssertionError(f"{path} ended with {code}:\n{''.join(lines)}\n{self._errors.read_text()}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is None:
            return
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
        if kind is None:
            assert process.returncode == 0, f"its end failed with {process.returncode}:\n{self._errors.read_text()}"

    @property
    def _errors(self) -> Path:
        return self._folder / "errors.txt"

    def _started(self) -> "subprocess.Popen[str]":
        with self._errors.open("w") as errors:
            return subprocess.Popen(
                [sys.executable, "-W", "error", __file__],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )


def _run_all() -> None:
    sys.path[0] = os.getcwd()  # noqa: PTH109 - as for a program there, and not this file's folder
    for line in sys.stdin:
        runpy.run_path(line.rstrip("\n"), run_name="__main__")
        print(DONE, flush=True)


if __name__ == "__main__":
    _run_all()
