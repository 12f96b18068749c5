"""What is stored comes out in its queues once and in order, whatever dies in between; a Kafka in memory.

A kill is the folder as the kernel has it at that moment, copied, and a new process's store opened on the copy.
"""

import time
from collections import deque
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from jbm_kafka.core.jms_errors import JMSError, ResourceAllocationError
from jbm_kafka.memory.memory_cluster import CommitFault
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.kafka import AccessRefused, NobodyAnswers
from jbm_kafka.store_and_forward.forwarding_order import LONGEST_WAIT_MS, next_wait_ms
from jbm_kafka.store_and_forward.send_store import BatchUnderWay
from jbm_kafka.store_and_forward.store_forwarder import MARK_AGAIN_MS
from tests.support.forwarding_rounds import QUEUES, Rounds
from tests.support.manual_clock import ManualClock
from tests.support.waiting import wait_until

COUNT = 8


class Killed(BaseException):
    """Whatever runs ends here."""


@pytest.fixture
def rounds(tmp_path: Path) -> Iterator[Rounds]:
    made = Rounds(tmp_path, f"saf-{tmp_path.name}".replace("[", "").replace("]", "")[:60])
    yield made
    made.close()


STEPS = ("initialise", "begin", "produce", "send_offsets", "commit")


@pytest.mark.parametrize("fault", [None, *CommitFault])
def test_a_kill_at_any_step_loses_nothing_and_repeats_nothing(rounds: Rounds, fault: CommitFault | None) -> None:
    """SAF-2, SAF-3: killed before each step of the third batch, with any end of the commits before and in it."""
    sent = 0
    killed = []
    of_both = []
    for at in (*range(10), 0):
        rounds.put(sent, *QUEUES)
        rounds.put(sent + 1, "a")
        of_both.append(sent)
        sent += 2
        left = at

        def kill(transactional_id: str, step: str) -> None:
            nonlocal left
            if transactional_id.endswith(rounds.store.store_id):
                if not left:
                    killed.append(step)
                    raise Killed
                left -= 1

        rounds.world.cluster.faults.step = kill
        rounds.world.cluster.faults.commits = deque([] if fault is None else [fault, fault])
        is_alive = True
        while is_alive:
            try:
                if not rounds.forwarder.forward():
                    rounds.put(sent, "a")
                    sent += 1
            except (JMSError, KafkaClientError):
                continue
            except Killed:
                is_alive = False
        rounds.world.cluster.faults.step = None
        rounds.world.cluster.faults.commits.clear()
        rounds.start()
        rounds.forward_all()
        assert rounds.found("a") == list(range(sent))
        assert rounds.found("b") == of_both
        assert rounds.store.counts().set_aside == 0, "nothing is in doubt"
    assert set(STEPS) <= set(killed)


def test_a_kill_between_kafka_and_the_store_repeats_nothing(rounds: Rounds) -> None:
    """SAF-3: the transaction is committed, and the store was not told."""
    for number in range(3):
        rounds.put(number, "a")
    rounds.forward_all()
    rounds.put(3, "a")
    committed = rounds.store.end_batch

    def kill(batch: BatchUnderWay) -> None:
        if batch.entries:
            raise Killed
        committed(batch)

    rounds.store.end_batch = kill  # type: ignore[method-assign]
    with pytest.raises(Killed):
        rounds.forwarder.forward()
    rounds.start()
    rounds.put(4, "a")
    rounds.forward_all()
    assert rounds.found("a") == [0, 1, 2, 3, 4]
    assert rounds.store.counts().set_aside == 0, "it is not in doubt"


def test_a_number_that_kafka_has_forgotten_is_no_reason_to_send_again(
    rounds: Rounds,
) -> None:
    """SAF-3: what is in doubt is a dead letter of the store, and the rest goes on."""
    rounds.put(0, "a")
    rounds.forward_all()
    rounds.store.begin_batch(BatchUnderWay(rounds.store.batch_number() + 1, (2,)))
    rounds.put(1, "a")
    rounds.put(2, "a")
    with closing(MemoryKafka(rounds.world.cluster).admin()) as admin:
        admin.delete_groups([f"jbm.{rounds.store.store_id}.mark"])  # as Kafka does by itself after a week
    rounds.start()
    rounds.forward_all()
    [(number, entry)] = rounds.store.set_aside_entries()
    assert (number, rounds.found("a")) == (2, [0, 2])
    assert entry.reason.startswith("nobody knows whether it was sent: Kafka has no record of the batch")
    rounds.store.retry()
    rounds.forward_all()
    assert rounds.found("a") == [0, 2, 1]


def test_a_number_is_repeated_after_a_machine_has_slept_for_long(tmp_path: Path) -> None:
    """SAF-3: the clock that stands still while it sleeps said that Kafka has it still: all of a batch was in doubt."""
    clock = ManualClock()
    with closing(Rounds(tmp_path, "slept", clock=clock)) as rounds:
        rounds.put(0, "a")
        rounds.forward_all()
        clock.jump(8 * MARK_AGAIN_MS)
        with closing(MemoryKafka(rounds.world.cluster).admin()) as admin:
            admin.delete_groups([f"jbm.{rounds.store.store_id}.mark"])  # as Kafka does by itself after a week

        def kill(transactional_id: str, step: str) -> None:
            if step == "produce":
                raise Killed

        rounds.world.cluster.faults.step = kill
        rounds.put(1, "a")
        with pytest.raises(Killed):
            rounds.forwarder.forward()
        rounds.world.cluster.faults.step = None
        rounds.start()
        rounds.forward_all()
        assert rounds.found("a") == [0, 1]


def test_whatever_a_batch_ended_with_it_is_asked_for(rounds: Rounds) -> None:
    """SAF-3: after an error that nobody had thought of a batch that was committed was sent again."""
    for number in range(3):
        rounds.put(number, "a")

        def fail(transactional_id: str, step: str) -> None:
            if step == "committed" and transactional_id.endswith(rounds.store.store_id):
                raise MemoryError

        rounds.world.cluster.faults.step = fail if number else None
        with suppress(MemoryError):
            rounds.forward_all()
        rounds.world.cluster.faults.step = None
        rounds.forward_all()
    assert rounds.found("a") == [0, 1, 2]


def test_a_disk_that_fails_when_a_batch_begins_puts_nothing_in_doubt(rounds: Rounds) -> None:
    """SAF-3: its number was taken, and never came to Kafka; the next batch, cut short, was one that nobody knows."""
    rounds.put(0, "a")
    rounds.forward_all()
    begun = rounds.store.begin_batch

    def fail(batch: BatchUnderWay) -> None:
        begun(batch)
        raise ResourceAllocationError("it cannot be written")

    def kill(transactional_id: str, step: str) -> None:
        if step == "produce":
            raise Killed

    rounds.put(1, "a")
    rounds.store.begin_batch = fail  # type: ignore[method-assign]
    with pytest.raises(ResourceAllocationError):
        rounds.forwarder.forward()
    rounds.store.begin_batch = begun  # type: ignore[method-assign]
    rounds.world.cluster.faults.step = kill
    with pytest.raises(Killed):
        rounds.forwarder.forward()
    rounds.world.cluster.faults.step = None
    rounds.start()
    rounds.forward_all()
    assert rounds.found("a") == [0, 1]


def test_a_line_on_which_few_records_get_through_in_time_gets_small_batches(tmp_path: Path) -> None:
    """SAF-3: the same large one was tried for ever, and nothing got through."""
    clock, written = ManualClock(), 0

    def slow(transactional_id: str, step: str) -> None:
        nonlocal written
        written = 0 if step == "begin" else written + (step == "produce")
        rounds.world.cluster.faults.leaderless = every if written > 20 else frozenset()

    every = frozenset(("a", partition) for partition in range(16))
    with closing(Rounds(tmp_path, "slow", clock=clock)) as rounds:
        for number in range(300):
            rounds.put(number, "a")
        rounds.world.cluster.faults.step = slow
        for _ in range(60):
            rounds.forwarder.forward()
            clock.advance(LONGEST_WAIT_MS)
        assert rounds.found("a") == list(range(300))


def test_an_older_copy_of_the_folder_sends_nothing_twice(rounds: Rounds) -> None:
    """SAF-3"""
    rounds.put(0, "a")
    rounds.forward_all()
    rounds.put(1, "a")
    original, old = rounds.forwarder, rounds.store
    rounds.start()
    copy, kept = rounds.forwarder, rounds.store
    rounds.forwarder, rounds.store = original, old
    rounds.forward_all()
    rounds.forwarder, rounds.store = copy, kept
    rounds.forward_all()
    assert rounds.found("a") == [0, 1]
    assert "the folder is an older copy" in rounds.store.set_aside_entries()[0][1].reason


def test_a_disk_that_cannot_keep_which_cluster_it_is_forwards_to_none(rounds: Rounds) -> None:
    """SAF-3: at the second try it was, and another cluster could be next."""
    folder = rounds.store.path / "store.json.new"
    folder.mkdir()
    rounds.put(0, "a")
    for _ in range(2):
        with pytest.raises(IsADirectoryError):
            rounds.forwarder.forward()
    folder.rmdir()
    rounds.forward_all()
    assert rounds.found("a") == [0]


def test_many_dead_letters_of_one_destination_are_one_line(rounds: Rounds, caplog: pytest.LogCaptureFixture) -> None:
    """SAF-6"""
    rounds.world.cluster.faults.denied = frozenset({"b"})
    for number in range(50):
        rounds.put(number, "b")
        rounds.forward_all()
    assert rounds.store.counts().set_aside == 50
    [line] = [record.getMessage() for record in caplog.records if "dead letters" in record.getMessage()]
    assert "entries to queue:b become dead letters of the store, the first is number 1: " in line


def test_another_cluster_gets_nothing(rounds: Rounds, tmp_path: Path) -> None:
    """SAF-3"""
    rounds.put(0, "a")
    rounds.forward_all()
    rounds.store.keep_cluster("another")
    rounds.put(1, "a")
    rounds.start()
    with pytest.raises(JMSError, match="forwards to cluster another, and this is "):
        rounds.forwarder.forward()
    assert rounds.store.counts().waiting == 1


def test_while_kafka_is_away_all_waits_and_then_goes(rounds: Rounds) -> None:
    """SAF-2"""

    def away(transactional_id: str, step: str) -> None:
        raise NobodyAnswers(f"{step}: no answer", bootstrap="there")

    for number in range(COUNT):
        rounds.world.cluster.faults.step = away
        rounds.put(number, "a")
        with pytest.raises(NobodyAnswers):
            rounds.forwarder.forward()
        if number % 2:
            rounds.world.cluster.faults.step = None
            rounds.forward_all()
    assert rounds.found("a") == list(range(COUNT))


def test_new_sends_do_not_cut_the_wait_after_a_failure_short(rounds: Rounds) -> None:
    """SAF-2: nor does it hinder the end."""
    tries_s: list[float] = []

    def away(transactional_id: str, step: str) -> None:
        tries_s.append(time.monotonic())
        rounds.put(len(tries_s), "a")
        raise NobodyAnswers(f"{step}: no answer", bootstrap="there")

    rounds.world.cluster.faults.step = away
    rounds.put(0, "a")
    rounds.forwarder.start()
    wait_until(lambda: len(tries_s) >= 3, about="tries", timeout_s=30.0)
    assert tries_s[2] - tries_s[0] >= (next_wait_ms(0) + next_wait_ms(1)) / 1_000
    rounds.forwarder.stop(30.0)
    assert rounds.store.counts().waiting == 1 + len(tries_s)


def test_a_right_that_is_missing_makes_dead_letters_of_its_own_entries_only(rounds: Rounds) -> None:
    """SAF-6: with no word of Kafka's which record it was."""
    for number in range(COUNT):
        rounds.put(number, QUEUES[number % 2])
    rounds.put(COUNT, *QUEUES)
    rounds.world.cluster.faults.denied = frozenset({"b"})
    rounds.forward_all()
    assert rounds.found("a") == [number for number in range(COUNT) if not number % 2]
    aside = rounds.store.set_aside_entries()
    assert [int(entry.sends[-1].value or b"") for _, entry in aside] == [1, 3, 5, 7, COUNT]
    assert all("Topic authorization failed" in entry.reason for _, entry in aside)
    rounds.world.cluster.faults.denied = frozenset()
    assert rounds.store.retry() == 5
    rounds.forward_all()
    assert rounds.found("b") == [1, 3, 5, 7, COUNT]
    assert rounds.found("a")[-1] == COUNT, "a transaction is set aside and sent whole"


def test_credentials_that_are_refused_make_no_dead_letters(rounds: Rounds) -> None:
    """SAF-6: what was sent to a destination for the first time became one, when the password had been changed."""
    rounds.put(0, "a")
    rounds.forward_all()
    batches = rounds.forwarder._batches
    assert batches is not None

    def refuse(name: str = "") -> str:
        raise AccessRefused("Authentication failed")

    rounds.world.cluster.faults.create = refuse  # type: ignore[assignment]
    batches.cluster_id = refuse  # type: ignore[method-assign]
    rounds.put(1, "new")
    with pytest.raises(AccessRefused):
        rounds.forwarder.forward()
    assert rounds.store.counts().set_aside == 0
    rounds.world.cluster.faults.create = None
    del batches.cluster_id
    rounds.forward_all()
    assert rounds.found("new") == [1]


def test_what_is_too_large_for_its_topic_is_a_dead_letter_and_its_unit_goes_on(rounds: Rounds) -> None:
    """SAF-6"""
    rounds.put(0, "a")
    rounds.put(1, "a", size=2_000_000)
    rounds.put(2, "a")
    rounds.forward_all()
    assert rounds.found("a") == [0, 2]
    [(number, entry)] = rounds.store.set_aside_entries()
    assert (number, entry.attempts) == (2, 1)
    assert entry.reason


def test_a_partition_without_leader_holds_its_destination_and_no_other(
    rounds: Rounds, caplog: pytest.LogCaptureFixture
) -> None:
    """SAF-6: and one line says so, however often it is tried."""
    for number in range(COUNT):
        rounds.put(number, QUEUES[number % 2])
    rounds.world.cluster.faults.leaderless = frozenset(("b", partition) for partition in range(16))
    while rounds.store.counts().waiting > COUNT / 2:
        rounds.forwarder.forward()  # without an error, though its abort gets no answer: another producer takes over
    assert rounds.found("a") == [number for number in range(COUNT) if not number % 2]
    assert rounds.forwarder.troubles() == ["queue:b: what is stored for it is not taken for now, and is tried again"]
    assert rounds.store.counts().set_aside == 0
    rounds.world.cluster.faults.leaderless = frozenset()
    while rounds.store.counts().waiting:
        rounds.forwarder.forward()
    assert rounds.found("b") == [number for number in range(COUNT) if number % 2]
