"""Goal: a state folder is in one hand of one installation, and everything unfit is refused in one line, untouched."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from jbm_kafka.core.jms_errors import IllegalStateError, JMSError, ResourceAllocationError
from jbm_kafka.store.folder import StateFolder
from tests.support.manual_clock import ManualClock
from tests.support.store_parts import MadeRecord

HOLD = """
import sys
from pathlib import Path
from jbm_kafka.store.folder import StateFolder
from tests.support.manual_clock import ManualClock
from tests.support.store_parts import MadeRecord
folder = StateFolder.open(Path(sys.argv[1]) if sys.argv[1] else None, cluster_id="C")
journal, held = folder.journal(clock=ManualClock()), folder.held_store()
print(folder.path, flush=True)
number = 0
while sys.argv[2] == "write":
    number += 1
    text = b"%d" % number
    journal.write({name: (number, {b"number": text, b"k%d" % (number % 50): text}) for name in "ab"})
    held.put("a", [(b"u", number, MadeRecord(number))])
    if number == 500:
        print("writing", flush=True)
sys.stdin.read()
"""


def holder(path: str, act: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HOLD, path, act],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


def kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def refused(path: Path, *, cluster_id: str = "C", namespace: str = "") -> str:
    with pytest.raises(JMSError) as caught:
        StateFolder.open(path, cluster_id=cluster_id, namespace=namespace)
    text = str(caught.value)
    assert str(path) in text
    assert "\n" not in text
    return text


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_folder_keeps_its_id_and_what_is_in_it(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path / "deep" / "state", cluster_id="C") as first:
        first.journal(clock=ManualClock()).write({"a": (3, {b"k": b"v"})})
    with StateFolder.open(tmp_path / "deep" / "state", cluster_id="C") as second:
        assert second.folder_id == first.folder_id
        assert second.transactional_id(0) == f"jbm.{first.folder_id}.0"
        assert second.journal(clock=ManualClock()).load("a") == (3, {b"k": b"v"})
    with StateFolder.open(tmp_path / "other", cluster_id="C", namespace="ns") as third:
        assert third.folder_id != first.folder_id
        assert third.transactional_id(7) == f"ns.jbm.{third.folder_id}.7"


def test_another_installations_folder_is_refused_untouched(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path, cluster_id="C") as folder:
        folder.journal(clock=ManualClock()).write({"a": (3, {b"k": b"v"})})
    before = contents(tmp_path)
    assert "belongs to cluster 'C' without a namespace" in refused(tmp_path, cluster_id="D")
    assert "this is cluster 'C' namespace 'ns'" in refused(tmp_path, namespace="ns")
    assert {**contents(tmp_path), "lock": b""} == {**before, "lock": b""}
    with StateFolder.open(tmp_path, cluster_id="C") as folder:
        assert folder.journal(clock=ManualClock()).load("a") == (3, {b"k": b"v"})


def test_a_folder_in_use_is_refused_and_the_process_is_named(tmp_path: Path) -> None:
    process = holder(str(tmp_path), "hold")
    try:
        assert line(process) == str(tmp_path)
        assert f"in use by process {process.pid}" in refused(tmp_path)
    finally:
        kill(process)
    StateFolder.open(tmp_path, cluster_id="C").close()


def test_a_folder_in_use_by_this_process_is_refused(tmp_path: Path) -> None:
    with StateFolder.open(tmp_path, cluster_id="C"):
        assert f"in use by process {os.getpid()}" in refused(tmp_path)
    StateFolder.open(tmp_path, cluster_id="C").close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_does_not_keep_the_folder_locked(tmp_path: Path) -> None:
    folder = StateFolder.open(tmp_path, cluster_id="C")
    wake_read, wake_write = os.pipe()
    ready_read, ready_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(wake_write)
        os.write(ready_write, b"!")  # Python is back in our hands, so the lock was let go of
        os.read(wake_read, 1)
        os._exit(0)
    try:
        os.read(ready_read, 1)
        assert "in use" in refused(tmp_path), "the child's letting go must not free the parent's lock"
        folder.close()
        StateFolder.open(tmp_path, cluster_id="C").close()
    finally:
        for end in (wake_read, wake_write, ready_read, ready_write):
            os.close(end)
        os.waitpid(child, 0)


def test_a_kill_in_the_middle_of_writes_leaves_a_folder_that_opens(tmp_path: Path) -> None:
    """LOG-7: and what it holds is the state at exactly one position, in every channel."""
    process = holder(str(tmp_path), "write")
    line(process)
    assert line(process) == "writing"
    kill(process)
    with StateFolder.open(tmp_path, cluster_id="C") as folder:
        journal = folder.journal(clock=ManualClock())
        position, entries = journal.load("a")
        assert position >= 500
        last = range(position - 49, position + 1)
        expected = {b"k%d" % (number % 50): b"%d" % number for number in last} | {b"number": b"%d" % position}
        assert entries == expected
        assert journal.load("b") == (position, expected)
        assert not folder.held_store().take("a", b"u", 10)


def test_a_folder_that_we_make_is_for_its_user_only(tmp_path: Path) -> None:
    """Messages that wait beyond the memory budget lie in it, with their bodies."""
    with StateFolder.open(tmp_path / "new" / "state", cluster_id="C"):
        assert (tmp_path / "new" / "state").stat().st_mode & 0o777 == 0o700
    own = tmp_path / "own"
    own.mkdir()
    own.chmod(0o750)
    with StateFolder.open(own, cluster_id="C"):
        assert own.stat().st_mode & 0o777 == 0o750, "a folder that was there is as its owner made it"


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    assert "is a file" in refused(tmp_path / "file")
    assert "cannot be used" in refused(tmp_path / "file" / "below")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.skipif(os.getuid() == 0, reason="nothing is read-only for root")
def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    assert "this user can write to" in refused(tmp_path)
    tmp_path.chmod(0o700)


def test_somebody_elses_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    assert "holds other files" in refused(tmp_path)
    assert contents(tmp_path) == {"thesis.txt": b"mine"}


def test_a_first_start_that_was_killed_can_be_repeated(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("4711\n")
    (tmp_path / "jbm-state.json.new").write_text('{"versi')
    StateFolder.open(tmp_path, cluster_id="C").close()
    assert json.loads((tmp_path / "jbm-state.json").read_text())["cluster_id"] == "C"


def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    (tmp_path / "jbm-state.json").write_text('{"version": 2, "whatever": "comes"}')
    assert "newer jbm-kafka (layout 2, known here: 1)" in refused(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "folder_id": 5, "cluster_id": "C", "namespace": ""}',
             '{"version": 0, "folder_id": "a", "cluster_id": "C", "namespace": ""}',
             '{"version": 1, "folder_id": "a.b c", "cluster_id": "C", "namespace": ""}'],
)  # fmt: skip
def test_an_id_that_cannot_be_read_is_refused_with_the_remedy(tmp_path: Path, text: str) -> None:
    (tmp_path / "jbm-state.json").write_text(text)
    assert "delete the folder, it is rebuilt from the changelogs" in refused(tmp_path)
    assert (tmp_path / "jbm-state.json").read_text() == text


@pytest.mark.parametrize("damaged", ["CURRENT", "MANIFEST-*", "*.sst"])
def test_a_damaged_rocksdb_is_moved_aside_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damaged: str
) -> None:
    """LOG-7: it is a cache."""
    for _ in range(2):
        with StateFolder.open(tmp_path, cluster_id="C") as folder:
            folder.journal(clock=ManualClock()).write({"a": (3, {b"k": b"v"})})
        caplog.clear()
        for file in (tmp_path / "rocks").glob(damaged):
            if damaged == "*.sst":
                file.unlink()
            else:
                file.write_bytes(b"\0" * 100)
        with StateFolder.open(tmp_path, cluster_id="C") as reopened:
            assert reopened.folder_id == folder.folder_id
            assert reopened.journal(clock=ManualClock()).load("a") == (0, {})
        warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1
        assert "rebuilt from the changelogs, nothing is lost" in warnings[0].getMessage()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["jbm-state.json", "lock", "rocks", "rocks.unreadable"]


def test_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class FullDisk:
        def __init__(self, path: Path) -> None:
            raise RuntimeError("IO error: No space left on device: While appending to file")

    with StateFolder.open(tmp_path, cluster_id="C") as folder:
        folder.journal(clock=ManualClock()).write({"a": (3, {b"k": b"v"})})
    with monkeypatch.context() as patched:
        patched.setattr("jbm_kafka.store.folder.Rocks", FullDisk)
        assert "No space left" in refused(tmp_path)
    with StateFolder.open(tmp_path, cluster_id="C") as folder:
        assert folder.journal(clock=ManualClock()).load("a") == (3, {b"k": b"v"})


def test_closing_on_a_full_disk_raised_and_left_the_folder_locked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of LOG-7: a bare Exception of RocksDB's came out of `connection.close()`, and the rest stayed open."""
    folder = StateFolder.open(tmp_path, cluster_id="C")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))  # no file of this process grows beyond that
    try:
        folder.journal(clock=ManualClock()).write({"a": (3, {b"k": b"v" * 1_000_000})})
        folder.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [record.getMessage().split(" (")[0].split(" ")[-1] for record in caplog.records] == ["written", "order"]
    with StateFolder.open(tmp_path, cluster_id="C") as again:
        assert again.journal(clock=ManualClock()).load("a") == (0, {})


def test_a_temporary_folder_is_gone_after_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = StateFolder.open(None, cluster_id="C")
    folder.held_store().put("c", [(b"u", 1, MadeRecord(1))])
    assert folder.path.parent == tmp_path
    folder.close()
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_killed_processs_temporary_folder_goes_at_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    (tmp_path / "jbm-state-mine").mkdir()
    killed, living = holder("", "hold"), holder("", "hold")
    try:
        abandoned, kept = line(killed), line(living)
        kill(killed)
        with StateFolder.open(None, cluster_id="C"):
            assert not Path(abandoned).exists()
            assert Path(kept).exists()
        assert (tmp_path / "jbm-state-mine").exists(), "without an id it is nobody's that we know"
    finally:
        kill(living)


def test_the_errors_tell_who_must_act(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IllegalStateError):
        StateFolder.open(tmp_path / "file", cluster_id="C")
    with StateFolder.open(tmp_path / "state", cluster_id="C"), pytest.raises(ResourceAllocationError):
        StateFolder.open(tmp_path / "state", cluster_id="C")
