"""Jobs of Spark, each killed once, and who kills them; `make kills-spark` has it full size."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from tests.chaos.spark_kills import Erase, Job, Letters, Replay, play
from tests.spark.conftest import Topics

COPIES = """
import sys, threading
target, count, begins_anew = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "True"
begin = 0 if begins_anew else len(open(target).read().split())
for number in range(begin, count):
    with open(target, "a") as file:
        file.write(f"{number} ")
    threading.Event().wait(0.005)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [Replay, Letters, Erase])
def test_a_job_that_is_killed_does_its_work_once(kind: type[Job], bootstrap: str, tmp_path: Path) -> None:
    """SPARK-11, SPARK-17, REDELIVER-9: other jobs of the table are killed in tests/spark."""
    assert play(kind(Topics(bootstrap), tmp_path), kills=1, each=3_000, chance=random.Random(1)) == []


class Copier(Job):
    """A job without Spark, which goes on where it was, or begins anew."""

    begins_anew = False

    def __init__(self, folder: Path) -> None:
        self.folder, self.sent = folder, 0
        self._target = folder / "target"
        self._target.touch()

    def feed(self, count: int) -> None:
        self.sent += count

    def command(self) -> list[str]:
        return [sys.executable, "-c", COPIES, str(self._target), f"{self.sent}", f"{self.begins_anew}"]

    def progress(self) -> object:
        return self._target.stat().st_size

    def found(self) -> list[int]:
        return [int(number) for number in self._target.read_text().split()]


class Beginner(Copier):
    """It begins anew."""

    begins_anew = True


def test_who_kills_finds_what_a_job_did_again(tmp_path: Path) -> None:
    found = play(Beginner(tmp_path), kills=1, each=1_000, chance=random.Random(3))
    assert "are there twice" in " ".join(found)


def test_who_kills_finds_nothing_in_a_job_that_goes_on_where_it_was(tmp_path: Path) -> None:
    assert play(Copier(tmp_path), kills=1, each=1_000, chance=random.Random(3)) == []
