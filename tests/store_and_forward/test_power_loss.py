"""SAF-3, SAF-5: a machine loses power: the disk has of each file what it was told to write, and no byte more.

What that is tells a library that is loaded before the C library and counts at each fsync; Kafka goes on.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).parents[1] / "support" / "synced_sizes.c"
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(2, 6))]


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library, compiled as the package's own modules are."""
    made = tmp_path_factory.mktemp("library") / "synced_sizes.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", made, SOURCE, "-ldl"], check=True)
    return made


def ran(library: Path, fault: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python process that has ended, with a disk that the library tells of, or that fails as `fault` says."""
    environment = {**os.environ, "LD_PRELOAD": str(library), **fault}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=170)


REFUSED = """
import os, sys
from pathlib import Path
from jbm_kafka.store_and_forward.send_store import MEND_MS, NotStored
from tests.store_and_forward.test_send_store import entry, numbers, opened
from tests.support.manual_clock import ManualClock
broken, folder, clock = Path(os.environ["SYNC_FAILS"]), Path(sys.argv[1]), ManualClock()
with opened(folder, fsync=True, clock=clock) as store:
    store.put(entry(1))
    broken.touch()
    try:
        store.put(entry(2))
    except NotStored as error:
        print("cannot be written" in str(error))
    broken.unlink()
    clock.advance(MEND_MS)
    store.put(entry(3))
    print(numbers(store))
with opened(folder) as store:
    print(numbers(store), store.counts().lost)
"""


def test_what_was_refused_is_not_sent_though_the_disk_may_have_it(library: Path, tmp_path: Path) -> None:
    """SAF-4: the disk took it and then failed to confirm it."""
    done = ran(library, {"SYNC_FAILS": str(tmp_path / "broken")}, "-c", REFUSED, str(tmp_path / "store"))
    assert done.stdout.splitlines() == ["True", "[1, 3]", "[1, 3] 0"], done.stderr


SYNCED_LATER = """
import sys
from pathlib import Path
from tests.store_and_forward.test_send_store import entry, opened
from tests.support.power_losses import synced_sizes
from tests.support.waiting import wait_until
with opened(Path(sys.argv[1])) as store:
    store.put(entry(1))
    (log,) = (store.path / "rocks").glob("*.log")
    wait_until(lambda: synced_sizes().get(str(log), 0) >= 100, about="the disk to have it", timeout_s=20)
    print(log.stat().st_size == synced_sizes()[str(log)])
"""


def test_without_fsync_the_disk_has_it_soon_though_nobody_forwards(library: Path, tmp_path: Path) -> None:
    """SAF-5: it had nothing while Kafka was away."""
    (tmp_path / "sizes").touch()
    done = ran(library, {"SYNCED_SIZES": str(tmp_path / "sizes")}, "-c", SYNCED_LATER, str(tmp_path / "store"))
    assert done.stdout.splitlines() == ["True"], done.stderr


RETRIED = """
import sys
from pathlib import Path
from tests.store_and_forward.test_send_store import entry, opened
from tests.support.power_losses import synced_sizes
with opened(Path(sys.argv[1]), fsync=True) as store:
    store.put(entry(1))
    store.set_aside([(1, entry(1))], lambda number: "no right")
    (log,) = (store.path / "rocks").glob("*.log")
    for change in (store.retry, lambda: store.drop(set_aside=False)):
        print(change(), log.stat().st_size == synced_sizes()[str(log)])
"""


def test_what_an_operator_retries_or_drops_is_on_the_disk(library: Path, tmp_path: Path) -> None:
    """SAF-5, SAF-6: else the next start tells of a loss that is none, or sends what was dropped."""
    (tmp_path / "sizes").touch()
    done = ran(library, {"SYNCED_SIZES": str(tmp_path / "sizes")}, "-c", RETRIED, str(tmp_path / "store"))
    assert done.stdout.splitlines() == ["1 True", "1 True"], done.stderr


RETRY_REFUSED = """
import os, sys
from pathlib import Path
from jbm_kafka.core.jms_errors import ResourceAllocationError
from jbm_kafka.store_and_forward.send_store import MEND_MS
from tests.store_and_forward.test_send_store import entry, numbers, opened
from tests.support.manual_clock import ManualClock
broken, folder, clock = Path(os.environ["SYNC_FAILS"]), Path(sys.argv[1]), ManualClock()
with opened(folder, fsync=True, clock=clock) as store:
    store.put(entry(1))
    store.set_aside([(1, entry(1))], lambda number: "no right")
    broken.touch()
    try:
        store.retry()
    except ResourceAllocationError as error:
        print("cannot be written" in str(error))
    broken.unlink()
    clock.advance(MEND_MS)
    store.put(entry(2))
    counts = store.counts()
    print(numbers(store), counts.waiting, counts.set_aside)
with opened(folder) as store:
    print(numbers(store), store.counts().lost)
"""


def test_a_retried_dead_letter_that_the_disk_did_not_confirm_is_not_lost(library: Path, tmp_path: Path) -> None:
    """SAF-6: the disk had it all the same, and the next send got its number and took its place."""
    done = ran(library, {"SYNC_FAILS": str(tmp_path / "broken")}, "-c", RETRY_REFUSED, str(tmp_path / "store"))
    assert done.stdout.splitlines() == ["True", "[1, 2] 2 0", "[1, 2] 0"], done.stderr


LEFT = """
import os, sys
from pathlib import Path
from jbm_kafka.store_and_forward.send_store import NotStored
from tests.store_and_forward.test_send_store import entry, numbers, opened
broken, folder = Path(os.environ["SYNC_FAILS"]), Path(sys.argv[1])
with opened(folder, fsync=True) as store:
    store.put(entry(1))
    broken.touch()
    try:
        store.put(entry(2))
    except NotStored:
        print(numbers(store))
    broken.unlink()
with opened(folder) as store:
    print(numbers(store), store.counts().lost)
"""


def test_what_was_refused_is_not_sent_by_the_next_that_uses_the_folder(library: Path, tmp_path: Path) -> None:
    """SAF-4: nor by this one meanwhile."""
    done = ran(library, {"SYNC_FAILS": str(tmp_path / "broken")}, "-c", LEFT, str(tmp_path / "store"))
    assert done.stdout.splitlines() == ["[1]", "[1] 0"], done.stderr


HUNG = """
import os, sys, threading
from pathlib import Path
from jbm_kafka.store_and_forward.send_store import BatchUnderWay
from tests.store_and_forward.test_send_store import entry, numbers, opened
from tests.support.waiting import wait_until
hung, fsync, batch = Path(os.environ["SYNC_HANGS"]), sys.argv[2] == "fsync", BatchUnderWay(1, (1,))
for begin in (lambda: store.put(entry(2)), lambda: store.begin_batch(batch)):
    with opened(Path(sys.argv[1]) / begin.__code__.co_names[1], fsync=fsync) as store:
        store.put(entry(1))
        hung.touch()
        thread = threading.Thread(target=begin)
        thread.start()
        wait_until(lambda: hung.stat().st_size, about="a disk that writes", timeout_s=20)
        if not fsync:
            store.put(entry(3))
        print("goes on")
        hung.unlink()
        thread.join()
"""


@pytest.mark.parametrize("fsync", ["fsync", "kernel"])
def test_while_the_disk_writes_other_threads_go_on(library: Path, tmp_path: Path, fsync: str) -> None:
    """SAF-1: the process stood still at each send or batch, its event loop too; and without fsync sends waited."""
    done = ran(library, {"SYNC_HANGS": str(tmp_path / "hung")}, "-c", HUNG, str(tmp_path / "store"), fsync)
    assert done.stdout.splitlines() == ["goes on"] * 2, done.stderr


WAITING = """
import os, sys
from pathlib import Path
from jbm_kafka.store_and_forward.send_store import PENDING_BYTES_MAX
from tests.store_and_forward.test_send_store import entry, numbers, opened
hung, size, sent = Path(os.environ["SYNC_HANGS"]), 1 << 20, 0
with opened(Path(sys.argv[1]), fsync=True) as store:
    hung.touch()
    while store.has_room_to_wait():
        store.put_later(entry(sent, size=size), None)
        sent += 1
    print(sent * size <= PENDING_BYTES_MAX)
    hung.unlink()
    store.wait_stored(20)
    print(numbers(store) == list(range(sent)))
"""


def test_large_sends_that_wait_for_the_disk_fill_no_memory(library: Path, tmp_path: Path) -> None:
    """SAF-1: ten thousand of any size waited, ten gigabytes of them if each has one megabyte."""
    done = ran(library, {"SYNC_HANGS": str(tmp_path / "hung")}, "-c", WAITING, str(tmp_path / "store"))
    assert done.stdout.splitlines() == ["True", "True"], done.stderr


IN_DOUBT = """
import sys
from pathlib import Path
from contextlib import closing
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.store_and_forward.send_store import BatchUnderWay
from tests.support.forwarding_rounds import Rounds
from tests.support.power_losses import synced_sizes
with closing(Rounds(Path(sys.argv[1]), "doubt", fsync=True)) as rounds:
    rounds.put(0, "a")
    rounds.forward_all()
    rounds.put(1, "a")
    rounds.store.begin_batch(BatchUnderWay(rounds.store.batch_number() + 1, (2,)))
    with closing(MemoryKafka(rounds.world.cluster).admin()) as admin:
        admin.delete_groups([f"jbm.{rounds.store.store_id}.mark"])
    rounds.start(synced_sizes())
    rounds.forward_all()
    rounds.start(synced_sizes())
    rounds.forward_all()
    print(rounds.found("a"), [number for number, _ in rounds.store.set_aside_entries()])
"""


def test_what_is_in_doubt_is_on_the_disk_before_its_number_is_in_kafka(library: Path, tmp_path: Path) -> None:
    """SAF-5: after a loss of power it was taken for sent, and deleted."""
    (tmp_path / "sizes").touch()
    (tmp_path / "stores").mkdir()
    done = ran(library, {"SYNCED_SIZES": str(tmp_path / "sizes")}, "-c", IN_DOUBT, str(tmp_path / "stores"))
    assert done.stdout.splitlines() == ["[0] [2]"], done.stderr


def losses(library: Path, folder: Path, fsync: str, seed: int) -> Any:
    """What became of it."""
    (folder / "stores").mkdir()
    done = ran(
        library,
        {"SYNCED_SIZES": str(folder / "sizes")},
        "-m",
        "tests.support.power_losses",
        str(folder / "stores"),
        fsync,
        str(seed),
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("seed", SEEDS)
def test_with_fsync_nothing_is_lost_and_nothing_comes_twice(library: Path, tmp_path: Path, seed: int) -> None:
    """SAF-5, SAF-3"""
    found = losses(library, tmp_path, "fsync", seed)
    assert found["found"] == list(range(found["ends"][-1]))
    assert set(found["lost"]) == {0}
    assert found["batches"] > 5


@pytest.mark.parametrize("seed", SEEDS)
def test_without_fsync_tails_are_lost_counted_and_nothing_comes_twice(library: Path, tmp_path: Path, seed: int) -> None:
    """SAF-5, SAF-3"""
    found = losses(library, tmp_path, "kernel", seed)
    begin = counted = 0
    left: list[int] = []
    for end, lost in zip(found["ends"], found["lost"], strict=True):
        left += range(begin, end - (lost - counted))
        begin, counted = end, lost
    assert found["found"] == left, "what is lost is the end of what was sent before a loss, and as much as is said"
    assert counted > 0
