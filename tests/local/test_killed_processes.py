"""Goal: what was committed survives a killed process, whole, and what was not is not there.

Method: a process that moves messages in transactions over two queues is killed by SIGKILL at some point; a new one
opens the folder. Nothing is simulated.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jbm_kafka.core.jms_errors import ResourceAllocationError
from jbm_kafka.local import RocksPersistenceManager
from tests.local.killed_worker import MESSAGES, Place
from tests.local.parts import Hand


def kill_after(folder: Path, lines: int) -> list[str]:
    """What the process had told when it was killed."""
    told: list[str] = []
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.local.killed_worker", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        for line in process.stdout:
            told.append(line.strip())
            if len(told) == lines:
                break
        process.kill()
        told += [line.strip() for line in process.stdout if line.endswith("\n")]
    return told


@pytest.mark.parametrize("lines", [1, 2, 40, 333])
def test_a_killed_process_leaves_every_transaction_whole_or_not_there(tmp_path: Path, lines: int) -> None:
    """STATE-2, STATE-7, STORE-1: over two channels, bodies included; what was in hand is flagged when it comes."""
    told = kill_after(tmp_path / "channels", lines)
    assert told[0] == "sent"
    assert len(told) >= lines
    place = Place(tmp_path / "channels")
    waiting = {each.message_id: each for each in place.source.browse()}
    done = {each.message_id.removesuffix(" done"): each for each in place.target.browse()}
    assert not waiting.keys() & done.keys()
    assert waiting.keys() | done.keys() == {f"m{number}" for number in range(MESSAGES)}
    assert len(done) % 3 == 0
    assert set(told[1:]) - {"all"} <= done.keys(), "its commit had returned"
    assert all(each.body == f"do {name}" for name, each in waiting.items())
    assert all(each.body == f"the work on {name}" for name, each in done.items())
    assert [f"{name} done" for name in done] == [f"m{number} done" for number in range(len(done))]
    if len(told) > 1:
        assert all(each.redelivered for each in waiting.values())
    place.persistence.close()


def test_after_a_kill_everything_can_be_worked_off_and_nothing_is_left(tmp_path: Path) -> None:
    """STORE-1: neither records nor bodies."""
    kill_after(tmp_path, 100)
    place = Place(tmp_path)
    for queue in (place.source, place.target):
        queue.add_receiver(Hand("r", answer=True))
        assert queue.deliver()
    assert [dict(place.persistence.read(owner)) for owner in ("source", "target", "bodies")] == [{}, {}, {}]
    place.persistence.close()


def test_a_folder_in_use_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with (
        RocksPersistenceManager(tmp_path / "f"),
        pytest.raises(ResourceAllocationError, match=r"cannot be opened .* another"),
    ):
        RocksPersistenceManager(tmp_path / "f")
    RocksPersistenceManager(tmp_path / "f").close()
