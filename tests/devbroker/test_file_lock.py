"""A lock that lives as long as the process that inherited it."""

import subprocess
import sys
from pathlib import Path

import pytest

from jbm_kafka.devbroker.file_lock import FileLock, is_locked, locked


def test_nothing_holds_a_lock_that_was_never_taken(tmp_path: Path) -> None:
    assert not is_locked(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()


def test_a_second_taker_is_refused_until_the_first_lets_go(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.try_acquire()
    assert not second.wait_acquire(0.05)
    first.close()
    assert second.try_acquire()
    second.close()


def test_asking_whether_it_is_held_does_not_take_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.try_acquire()
    assert is_locked(lock.path)
    lock.close()
    assert not is_locked(lock.path)


def test_a_child_that_inherited_the_file_holds_the_lock_until_it_ends(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock")
    assert lock.try_acquire()
    wait = [sys.executable, "-c", "import sys; sys.stdin.read()"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[lock.fd]) as child:
        lock.close()
        assert is_locked(lock.path)
        child.communicate()
    assert not is_locked(lock.path)


def test_waiting_for_a_lock_in_vain_says_which(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, timeout_s=1), pytest.raises(TimeoutError, match=str(path)), locked(path, timeout_s=0.05):
        pass
    with locked(path, timeout_s=1):
        assert is_locked(path)
