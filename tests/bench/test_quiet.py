"""Waiting for the machine to have nothing else to do."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from jbm_kafka.bench.quiet import QuietMachine, wait_until_quiet

pytestmark = pytest.mark.skipif(not Path("/proc/stat").exists(), reason="told by Linux only")


@contextmanager
def busy_processors() -> Iterator[None]:
    """Every processor has something to do."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            process = stack.enter_context(
                subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE)
            )
            stack.callback(process.kill)
            assert process.stdout is not None
            process.stdout.readline()
        yield


def test_what_the_machine_does_is_told_when_patience_ends() -> None:
    with busy_processors():
        begin = time.monotonic()
        assert wait_until_quiet(1.0) > 0.5
        assert time.monotonic() - begin >= 1.0


def test_a_machine_that_is_always_busy_is_waited_for_less_and_less() -> None:
    machine = QuietMachine(1.0)
    with busy_processors():
        for patience_s in (1.0, 0.5, 0.25):
            assert machine._patience_s == patience_s
            begin = time.monotonic()
            machine.wait()
            assert time.monotonic() - begin >= patience_s
    assert machine._patience_s == 0.125
