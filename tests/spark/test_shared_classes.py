"""The archive of Spark's classes, which spares each start half of its work."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jbm_spark.archive_classes import archive_classes
from jbm_spark.shared_classes import class_archive

pytestmark = pytest.mark.thorough

PROGRAM = """
import sys
from pathlib import Path
from jbm_spark import session, shared_classes
if sys.argv[1:]:
    shared_classes.class_archive = lambda: Path(sys.argv[1])
spark = session.build_session("mapped", starts_fast=True)
print(Path(f"/proc/{spark._jvm.java.lang.ProcessHandle.current().pid()}/maps").read_text())
spark.stop()
"""


def _files_of_a_session(*arguments: str) -> tuple[str, str]:
    """What its JVM has mapped into memory, and what it said."""
    command = [sys.executable, "-c", PROGRAM, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ, timeout=300, check=True)
    return done.stdout, done.stderr


def test_a_session_starts_from_the_archive() -> None:
    """It is written where it is missing, as `make setup` does."""
    assert archive_classes()
    assert str(class_archive()) in _files_of_a_session()[0]


@pytest.mark.slow
def test_an_archive_that_does_not_fit_is_left_aside_without_a_word(tmp_path: Path) -> None:
    (other := tmp_path / "its classes.jsa").write_bytes(b"of another Java")
    found, errors = _files_of_a_session(str(other))
    assert str(other) not in found
    assert "cds" not in errors.lower()
    assert "shared" not in errors.lower()
