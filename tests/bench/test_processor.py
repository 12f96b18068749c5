"""Binding a measured client to one processor."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import os, threading
from jbm_kafka.bench.processor import bind_to_one_processor
assert bind_to_one_processor()
seen = []
thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
thread.start()
thread.join()
print(len(os.sched_getaffinity(0)), len(seen[0]))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux only")
def test_a_bound_process_and_its_later_threads_have_one_processor() -> None:
    before = os.sched_getaffinity(0)
    said = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["1", "1"]
    assert os.sched_getaffinity(0) == before
