"""Tests that failed beside others, once more by themselves: `python -m tests.house.second_try CODE`, in `make test`.

Several processes of tests on two processors let a broker, or a process that a test watches, stand still for seconds now
and then, and limits of time that are part of what is tested are over. What fails by itself too is wrong; what does not
is told, and is to be made patient. Many failures are no accident, and are not tried again.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRIED_MAX = 10


def second_try(code: int, failed: list[str], folder: Path) -> int:
    """The exit code for a run that ended with `code`, in which these failed; they may be tried again."""
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(failed) <= TRIED_MAX:
        return code
    print(f"\n=== {len(failed)} failed beside others; now by themselves", flush=True)
    again = subprocess.run([sys.executable, "-m", "pytest", *failed], cwd=folder, check=False).returncode
    if again == 0:
        print("=== passed by themselves, and failed before; see above why:", *failed, sep="\n    ", flush=True)
    return again


def failed_last(folder: Path) -> list[str]:
    """Node ids that pytest noted in its cache."""
    noted = folder / ".pytest_cache" / "v" / "cache" / "lastfailed"
    return list(json.loads(noted.read_text())) if noted.exists() else []


if __name__ == "__main__":
    here = Path.cwd()
    sys.exit(second_try(int(sys.argv[1]), failed_last(here), here))
