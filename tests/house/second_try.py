"""Tests that failed beside others, once more by themselves: `python -m tests.house.second_try CODE CACHE`, in make.

Several processes of tests on two processors let a broker, or a process that a test watches, stand still for seconds now
and then, and limits of time that are part of what is tested are over. What fails by itself too is wrong; what does not
is printed as saved, and is to be made patient. More than five saved fail a run, which may play both kinds of tests: a
suite that needs that is not well.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TRIED_MAX = 10
"""Failures in more files are no accident, and are not tried again."""
SAVED_MAX = 5


def second_try(code: int, folder: Path, cache: str) -> int:
    """The exit code for a run in the folder that ended with `code`; what failed in it may be tried again.

    The cache is its own: another run may end meanwhile.
    """
    failed = failed_last(folder / cache)
    if code != pytest.ExitCode.TESTS_FAILED or not 0 < len(files(failed)) <= TRIED_MAX:
        return code
    print(f"\n=== {len(failed)} failed beside others; now by themselves", flush=True)
    command = [sys.executable, "-m", "pytest", "-o", f"cache_dir={cache}", *failed]
    again = subprocess.run(command, cwd=folder, check=False)
    left = failed_last(folder / cache)
    saved = [test for test in failed if test not in left]
    print(f"=== the second try saved {len(saved)}; above is why they failed:", *saved, sep="\n    ", flush=True)
    if again.returncode == 0 and len(files(saved)) > SAVED_MAX:
        print(f"=== the run fails: those of at most {SAVED_MAX} files may need a second try", flush=True)
        return code
    return again.returncode


def files(tests: list[str]) -> set[str]:
    """The files that the tests stand in."""
    return {test.partition("::")[0] for test in tests}


def failed_last(cache: Path) -> list[str]:
    """Node ids that pytest noted in its cache."""
    noted = cache / "v" / "cache" / "lastfailed"
    return list(json.loads(noted.read_text())) if noted.exists() else []


if __name__ == "__main__":
    sys.exit(second_try(int(sys.argv[1]), Path.cwd(), sys.argv[2]))
