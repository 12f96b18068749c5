"""The folder of a store: what survives which end, and what is refused."""

import fcntl
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest

from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend
from jbm_kafka.core.jms_errors import IllegalStateError, ResourceAllocationError
from jbm_kafka.store_and_forward.send_store import (
    LOCK_FILE,
    MEND_MS,
    RESERVE_BYTES,
    RESERVE_FILE,
    RETRIED_AT_ONCE,
    SAY_AGAIN_MS,
    BatchUnderWay,
    NotStored,
    SendStore,
    look_into,
)
from jbm_kafka.store_and_forward.store_limits import StoreLimits
from tests.support.interrupts import interrupted_at, places
from tests.support.manual_clock import ManualClock
from tests.support.store_image import copy_of_moment

SOON_S = 40.0


@contextmanager
def opened(
    folder: Path, *, limits: StoreLimits | None = None, fsync: bool = False, clock: ManualClock | None = None
) -> Iterator[SendStore]:
    """A store while the block runs."""
    found = SendStore.open(
        folder, namespace="", limits=limits or StoreLimits(), fsync=fsync, clock=clock or ManualClock()
    )
    with closing(found):
        yield found


def entry(number: int, stored_at_ms: int = 1_000, size: int = 100) -> StoredEntry:
    """One send, whose number is told by its route."""
    return StoredEntry(stored_at_ms, [StoredSend("queue:q", number, b"u", b"x" * size, (), stored_at_ms)])


def until_refused(store: SendStore) -> list[int]:
    """Store until the disk is full; returns what was confirmed."""
    for number in range(1_000):
        try:
            store.put(entry(number, size=10_000))
        except NotStored as error:
            assert "cannot be written" in str(error)  # noqa: PT017 - which one is refused is not known before
            return list(range(number))
    raise AssertionError("it was never refused")


def store_all(store: SendStore, wanted: range) -> None:
    """One after the other."""
    for number in wanted:
        store.put(entry(number))


def numbers(store: SendStore) -> list[int]:
    """Of the sends that wait."""
    return [each.sends[0].route for _, each, _ in store.waiting(0, 100_000, 1 << 30)]


@pytest.mark.parametrize("fsync", [False, True])
def test_what_is_stored_is_there_after_a_kill_in_its_order(tmp_path: Path, fsync: bool) -> None:
    """SAF-1"""
    with opened(tmp_path / "a", fsync=fsync) as store:
        for number in range(300):
            store.put(entry(number))
        copy_of_moment(tmp_path / "a", tmp_path / "killed")  # as the kernel has it when the process dies here
    with opened(tmp_path / "killed") as store:
        assert numbers(store) == list(range(300))
        assert (store.counts().waiting, store.counts().oldest_at_ms, store.counts().lost) == (300, 1_000, 0)
        store.put(entry(300))
        assert numbers(store)[-1] == 300


@pytest.mark.parametrize("cut", [1, 7, 999, 20_000])
def test_a_torn_write_takes_a_tail_and_the_next_start_says_how_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, cut: int
) -> None:
    """SAF-5"""
    with opened(tmp_path / "a") as store:
        for number in range(300):
            store.put(entry(number))
        copy_of_moment(tmp_path / "a", tmp_path / "torn")
    written = max((tmp_path / "torn" / "rocks").glob("*.log"), key=lambda file: file.stat().st_size)
    with written.open("r+b") as file:
        file.truncate(written.stat().st_size - cut)
    with opened(tmp_path / "torn") as store:
        left = numbers(store)
        missing = 300 - len(left)
        assert left == list(range(len(left)))
        assert missing >= 1
        assert store.counts().lost == missing
        assert f"has lost its last {missing} entries, numbers {len(left) + 1} to 300" in caplog.text
        store.put(entry(1_000))
        assert numbers(store) == [*left, 1_000]
    caplog.clear()
    with opened(tmp_path / "torn") as store:
        assert store.counts().lost == missing
        assert "has lost" not in caplog.text


def test_a_damaged_block_of_the_disk_is_an_error_and_hides_nothing(tmp_path: Path) -> None:
    """SAF-1: what lay behind it was not counted, shown or forwarded, and nobody was told."""
    for _ in range(3):
        with opened(tmp_path) as store:
            store_all(store, range(2_000))
    table = max((tmp_path / "rocks").glob("*.sst"), key=lambda file: file.stat().st_size)
    with table.open("r+b") as file:
        file.seek(table.stat().st_size // 2)
        file.write(bytes(64))
    for look in (partial(look_into, tmp_path, 10), opened(tmp_path).__enter__):
        with pytest.raises(ResourceAllocationError, match="block checksum mismatch"):
            look()


@pytest.mark.parametrize("fsync", [False, True])
def test_a_machine_that_stopped_is_told_where_nobody_waited_for_the_disk(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fsync: bool
) -> None:
    """SAF-5: also where the mark is as old as what is missing. A `store forward`, which waits for it, said nothing, nor
    did who came after.
    """
    with opened(tmp_path / "a") as store:
        store.put(entry(1))
        copy_of_moment(tmp_path / "a", tmp_path / "other")
    mark = tmp_path / "other" / "sends.mark"
    said = bytearray(mark.read_bytes())
    said[9:45] = b"another-run-of-this-machine".ljust(36)
    mark.write_bytes(said)
    with opened(tmp_path / "other", fsync=fsync) as store:
        assert numbers(store) == [1]
    assert "sends of its last second may be missing; entry 1 is the last that is there" in caplog.text
    caplog.clear()
    with opened(tmp_path / "other"):
        assert not caplog.text


def test_one_process_at_a_time_has_it_and_the_next_takes_over_after_a_kill(tmp_path: Path) -> None:
    """SAF-1"""
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.store_and_forward.test_send_store import entry\n"
        "from jbm_kafka.store_and_forward.send_store import SendStore\n"
        "from jbm_kafka.store_and_forward.store_limits import StoreLimits\n"
        "from jbm_kafka.ports.clock import SystemClock\n"
        "store = SendStore.open(Path(sys.argv[1]), namespace='', limits=StoreLimits(), fsync=True,\n"
        "                       clock=SystemClock())\n"
        "store.put(entry(7)); print('stored', flush=True); sys.stdin.read()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "stored\n"
    with pytest.raises(ResourceAllocationError, match=f"in use by process {child.pid}, which forwards"):
        SendStore.open(tmp_path, namespace="", limits=StoreLimits(), fsync=True, clock=ManualClock())
    beside = look_into(tmp_path, 10)
    assert (beside.counts.waiting, beside.holder) == (1, str(child.pid))
    child.send_signal(signal.SIGKILL)
    child.communicate()
    with opened(tmp_path) as store:
        assert numbers(store) == [7]
    (tmp_path / LOCK_FILE).unlink()
    assert look_into(tmp_path, 10).holder == ""
    assert not (tmp_path / LOCK_FILE).exists(), "who looks changes nothing, and needs no right to"


def test_who_asks_for_the_holder_keeps_no_sender_from_its_store(tmp_path: Path) -> None:
    """A console asks all the time: at that moment the sender would have been told that another process has it."""
    with opened(tmp_path):
        pass
    asks = os.open(tmp_path / LOCK_FILE, os.O_RDONLY)
    fcntl.flock(asks, fcntl.LOCK_SH)
    timer = threading.Timer(0.03, os.close, [asks])
    timer.start()
    with opened(tmp_path):
        timer.join()


BUSY = """
import sys
from pathlib import Path
from tests.store_and_forward.test_send_store import entry, opened
from jbm_kafka.store_and_forward.send_store import BatchUnderWay
with opened(Path(sys.argv[1])) as store:
    for begin in range(1, 1_000_000, 100):
        for number in range(begin, begin + 100):
            store.put(entry(number, size=50_000))
        batch = BatchUnderWay(begin, tuple(range(begin, begin + 100)))
        store.begin_batch(batch)
        store.end_batch(batch)
        if begin == 1:
            print("busy", flush=True)
"""


def test_who_looks_while_a_sender_is_busy_sees_its_store(tmp_path: Path) -> None:
    """One look in nine told of a corruption: a file that it was about to read had been forwarded meanwhile."""
    with subprocess.Popen([sys.executable, "-c", BUSY, tmp_path], stdout=subprocess.PIPE) as sender:
        try:
            assert sender.stdout is not None
            assert sender.stdout.readline()
            for _ in range(60):
                look_into(tmp_path, 1)
        finally:
            sender.kill()


def test_a_folder_that_cannot_be_looked_at_is_told(tmp_path: Path) -> None:
    """As one that another user has, who alone may read it."""
    with pytest.raises(ResourceAllocationError, match="cannot be read: File name too long"):
        look_into(tmp_path / ("a" * 300), 10)


def test_a_limit_refuses_and_drops_nothing(tmp_path: Path) -> None:
    """SAF-4"""
    clock = ManualClock()
    with opened(tmp_path, limits=StoreLimits(bytes_max=1_000, age_max_ms=5_000), clock=clock) as store:
        now_ms = clock.now_ms()
        for number in range(5):
            store.put(entry(number, now_ms))
        assert store.counts().full_ratio == store.counts().waiting_bytes / 1_000
        with pytest.raises(NotStored, match="store_bytes_max=1000: nothing was stored, and nothing is dropped"):
            store.put(entry(5, now_ms, size=500))
        clock.advance(5_001)
        assert store.counts().full_ratio == 5_001 / 5_000
        with pytest.raises(NotStored, match="its oldest send for 5001 ms, and store_age_max_ms=5000"):
            store.put(entry(6, now_ms))
        assert numbers(store) == list(range(5))
        store.end_batch(BatchUnderWay(1, (1, 2, 3, 4, 5)))
        store.put(entry(7, clock.now_ms()))
        assert numbers(store) == [7]


@contextmanager
def no_file_larger(than_bytes: int) -> Iterator[None]:
    """While the block runs no file of this process grows beyond that, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (than_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


@pytest.mark.parametrize("fsync", [False, True])
def test_a_full_disk_refuses_lets_forwarding_go_on_and_takes_sends_again(tmp_path: Path, fsync: bool) -> None:
    """SAF-1, SAF-4: what was confirmed is there, what was refused is not, also after a restart."""
    clock = ManualClock()
    with opened(tmp_path, fsync=fsync, clock=clock) as store:
        with no_file_larger(500_000):
            confirmed = until_refused(store)
            with pytest.raises(NotStored):
                store.put(entry(2_000))
            assert 10 < len(confirmed) < 100
            store.begin_batch(BatchUnderWay(1, (1, 2)))
            store.end_batch(BatchUnderWay(1, (1, 2)))
        assert store.counts().full_ratio == 1
        clock.advance(MEND_MS)
        assert store.counts().full_ratio < 1, "also where nobody sends any more"
        store.put(entry(3_000))
        assert numbers(store) == [*confirmed[2:], 3_000]
    with opened(tmp_path) as store:
        assert numbers(store) == [*confirmed[2:], 3_000]
        assert store.counts().lost == 0


def test_a_disk_that_stays_full_is_told_once_a_minute_and_has_room_when_there_is_some(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """SAF-4: it was full and not full again with each send that fitted in, and a line a second said so."""
    clock = ManualClock()
    with opened(tmp_path, fsync=True, clock=clock) as store:
        with no_file_larger(500_000):
            until_refused(store)
        with no_file_larger(RESERVE_BYTES + 1_000_000):
            for _ in range(SAY_AGAIN_MS // MEND_MS - 1):
                clock.advance(MEND_MS)
                assert store.counts().full_ratio == 1
            with pytest.raises(ResourceAllocationError), no_file_larger(1_000):
                store.begin_batch(BatchUnderWay(1, (1,)))
            assert caplog.text.count("cannot be written") == 1
            clock.advance(MEND_MS)
            with pytest.raises(ResourceAllocationError), no_file_larger(1_000):
                store.begin_batch(BatchUnderWay(1, (1,)))
            assert caplog.text.count("cannot be written") == 2
        clock.advance(MEND_MS)
        assert store.counts().full_ratio < 1


def test_a_disk_that_lets_nothing_be_opened_has_what_is_stored_forwarded_as_soon_as_it_does(tmp_path: Path) -> None:
    """SAF-4: nothing was read from it any more until there was room for sends, too."""
    clock = ManualClock()
    with opened(tmp_path, fsync=True, clock=clock) as store:
        store_all(store, range(5))
        batch = BatchUnderWay(1, (1, 2))
        store.begin_batch(batch)
        tries: list[Callable[[], object]] = [partial(store.end_batch, batch), store.batch, partial(numbers, store)]
        for each in tries:
            with no_file_larger(100), pytest.raises(ResourceAllocationError, match="cannot be written: IO error"):
                each()
        with no_file_larger(RESERVE_BYTES):
            clock.advance(MEND_MS)
            assert store.counts().full_ratio == 1
            store.end_batch(batch)
            assert numbers(store) == [2, 3, 4]
            with pytest.raises(NotStored):
                store.put(entry(5))
        clock.advance(MEND_MS)
        store.put(entry(5))
        assert numbers(store) == [2, 3, 4, 5]


def test_a_store_with_its_reserve_is_opened_on_a_disk_that_has_no_more_room(tmp_path: Path) -> None:
    """SAF-4: it let its reserve go to whoever fills the disk, and took no sends."""
    with opened(tmp_path) as store:
        store.put(entry(0))
    with no_file_larger(RESERVE_BYTES), opened(tmp_path) as store:
        assert (tmp_path / RESERVE_FILE).stat().st_size == RESERVE_BYTES
        store.put(entry(1))
        assert numbers(store) == [0, 1]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 MiB, which only root may make."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False).returncode:
        pytest.skip("this user may mount nothing")
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


def test_forwarding_goes_on_when_the_disk_is_full_to_its_last_byte(small_disk: Path) -> None:
    """SAF-4: what its reserve is for."""
    with opened(small_disk / "store", fsync=True) as store:
        for number in range(20):
            store.put(entry(number, size=10_000))
        with (small_disk / "others").open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))
        until_refused(store)
        before = numbers(store)
        store.begin_batch(BatchUnderWay(1, (1, 2)))
        store.end_batch(BatchUnderWay(1, (1, 2)))
        assert numbers(store) == before[2:]


def test_a_disk_of_which_nothing_can_be_deleted_refuses_and_the_folder_can_be_opened_again(tmp_path: Path) -> None:
    """SAF-1, SAF-4: on one that had become read-only senders waited for ever."""
    (tmp_path / "store").mkdir()
    with opened(tmp_path / "store", fsync=True) as store:
        (tmp_path / "store" / RESERVE_FILE).unlink()
        (tmp_path / "store" / RESERVE_FILE).mkdir()
        with no_file_larger(500_000):
            confirmed = until_refused(store)
            with pytest.raises(NotStored):
                store.put(entry(2_000))
            store.close()
    (tmp_path / "store" / RESERVE_FILE).rmdir()
    with opened(tmp_path / "store") as store:
        assert numbers(store) == confirmed


def test_threads_that_wait_for_the_disk_wait_together(tmp_path: Path) -> None:
    """SAF-1"""
    with opened(tmp_path, fsync=True) as store:
        threads = [threading.Thread(target=store_all, args=(store, range(at * 100, at * 100 + 50))) for at in range(8)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        found = numbers(store)
    assert sorted(found) == sorted(at * 100 + each for at in range(8) for each in range(50))
    for at in range(8):
        assert [number for number in found if number // 100 == at] == [at * 100 + each for each in range(50)]


def test_what_is_set_aside_is_shown_retried_behind_all_others_and_dropped(tmp_path: Path) -> None:
    """SAF-6"""
    with opened(tmp_path) as store:
        for number in range(4):
            store.put(entry(number))
        rows = store.waiting(0, 2, 1 << 30)
        store.set_aside([(number, each) for number, each, _ in rows], lambda number: f"no right {number}")
        assert numbers(store) == [2, 3]
        assert [(number, each.reason, each.attempts) for number, each in store.set_aside_entries()] == [
            (1, "no right 1", 1),
            (2, "no right 2", 1),
        ]
        assert store.retry([1]) == 1
        assert numbers(store) == [2, 3, 0]
        assert (store.drop([2]), store.drop([2])) == (1, 0)
        assert store.counts().set_aside == 0
        assert store.drop([3], set_aside=False) == 1
    with opened(tmp_path) as store:
        assert numbers(store) == [3, 0]
        assert store.counts().lost == 0


def test_more_dead_letters_than_fit_into_memory_are_retried_in_their_order(tmp_path: Path) -> None:
    """SAF-6: all of them were in memory at once, four times."""
    many = 2 * RETRIED_AT_ONCE + 50
    with opened(tmp_path) as store:
        store_all(store, range(many))
        rows = store.waiting(0, many, 1 << 30)
        store.set_aside([(number, each) for number, each, _ in rows], lambda number: "in doubt")
        store.put(entry(many))
        assert store.retry() == many
        assert numbers(store) == [many, *range(many)]
        assert store.counts().set_aside == 0
    with opened(tmp_path) as store:
        assert numbers(store) == [many, *range(many)]
        assert store.counts().lost == 0


@pytest.mark.parametrize("fsync", [False, True])
def test_ctrl_c_anywhere_in_a_send_leaves_it_stored_and_counted_or_neither(tmp_path: Path, fsync: bool) -> None:
    """SAF-1: what was written and not counted gave its number to the next, which was deleted when the first had been
    forwarded; and interrupted in its wait for the disk, a send held up all others for ever.
    """
    finished: list[int] = []
    known: dict[int, int] = {}
    with opened(tmp_path / "a", fsync=fsync) as store:
        for place in places(finished):
            with suppress(KeyboardInterrupt):
                with interrupted_at(place):
                    store.put(entry(place))
                finished.append(place)
            rows = {number: each.sends[0].route for number, each, _ in store.waiting(0, 100_000, 1 << 30)}
            assert known.items() <= rows.items()
            known = rows
        assert store.wait_stored(SOON_S)
        assert set(finished) <= set(numbers(store))
        assert store.counts().waiting == len(numbers(store)) == len(set(numbers(store)))


def test_a_folder_that_could_not_be_opened_is_opened_when_its_cause_is_mended(tmp_path: Path) -> None:
    """SAF-1: as long as the error was kept somewhere, this process was told that the database is locked by itself."""
    with opened(tmp_path):
        pass
    (tmp_path / "sends.mark").rename(tmp_path / "kept")
    (tmp_path / "sends.mark").mkdir()
    with pytest.raises(ResourceAllocationError, match="Is a directory") as kept, opened(tmp_path):
        pass
    (tmp_path / "sends.mark").rmdir()
    (tmp_path / "kept").rename(tmp_path / "sends.mark")
    with opened(tmp_path) as store:
        assert not numbers(store), kept


def test_other_folders_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("hi")
    with pytest.raises(IllegalStateError, match="holds other files and no store"), opened(tmp_path / "other"):
        pass
    with opened(tmp_path / "a"):
        pass
    with pytest.raises(IllegalStateError, match="is of namespace '', and this is 'shop'"):
        SendStore.open(tmp_path / "a", namespace="shop", limits=StoreLimits(), fsync=True, clock=ManualClock())
    said = tmp_path / "a" / "store.json"
    said.write_text(said.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(IllegalStateError, match="is of version 2, and this program knows 1"), opened(tmp_path / "a"):
        pass
    with pytest.raises(IllegalStateError, match="is no store of sends"):
        look_into(tmp_path, 1)
