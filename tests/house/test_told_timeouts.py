"""A test that hangs in a process of xdist says where: tests/support/told_timeouts.py."""

import subprocess
import sys
from pathlib import Path

from tests.house.sources import ROOT

HANGS = """
import threading

import pytest


@pytest.mark.timeout(2, method="thread")
def test_it_hangs():
    stands_here()


def stands_here():
    threading.Event().wait(60)


def test_it_does_not():
    pass
"""


def test_where_it_hung_was_told_to_nobody(tmp_path: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HANGS)
    command = [sys.executable, "-m", "pytest", "-n", "1", "-p", "no:cacheprovider", "-p", "tests.support.told_timeouts"]
    said = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "1 failed, 1 passed" in said.stdout, said.stdout
    assert "node down" in said.stdout + said.stderr
    assert "in stands_here" in said.stderr, said.stderr
