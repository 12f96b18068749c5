"""The demo as a user runs it: a process of its own, on the broker of this test run."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.topics import delete_topics_beginning_with

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start_demo(bootstrap: str, tmp_path: Path) -> Iterator[Start]:
    """Starts `jbm-kafka demo` on the tests' broker with the given options; it dies with the test."""
    with ExitStack() as started:

        def start(*options: str) -> "subprocess.Popen[str]":
            command = [sys.executable, "-m", "jbm_kafka.cli.main", "demo", "--bootstrap", bootstrap, *options]
            demo = started.enter_context(
                subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    # What a killed demo cannot remove goes with the test.
                    env={**os.environ, "COLUMNS": "150", "TMPDIR": str(tmp_path)},
                )
            )
            started.callback(demo.kill)
            return demo

        yield start
    delete_topics_beginning_with(bootstrap, "bookstore.")
