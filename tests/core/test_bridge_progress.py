"""What a bridge remembers of the messages that it has taken on."""

from __future__ import annotations

from jbm_kafka.core.bridge_progress import BridgeProgress

A, B, C, D = b"a", b"b", b"c", b"d"


def test_what_was_recorded_is_known_until_the_source_has_settled_it() -> None:
    """Of BRIDGE-2."""
    progress = BridgeProgress({})
    assert (progress.next_number, progress.over) == (1, ())
    progress.add([A, B])
    assert A in progress
    assert B in progress
    assert C not in progress
    progress.confirm([A])
    assert (A in progress, len(progress), progress.over) == (False, 1, ())
    progress.confirm([B, C])
    assert (len(progress), progress.over) == (0, (1,))


def test_what_is_over_is_deleted_with_the_next_batch() -> None:
    """Of BRIDGE-2."""
    progress = BridgeProgress({})
    progress.add([A])
    progress.confirm([A])
    progress.add([B])
    assert (progress.over, progress.next_number) == ((), 3)
    progress.confirm([B])
    progress.add([])  # of messages that nobody could know again
    assert (progress.over, progress.next_number) == ((), 3)


def test_batches_of_a_process_before_stay_until_they_came_again() -> None:
    """Of BRIDGE-2."""
    progress = BridgeProgress({4: [A, B], 7: [C], 2: []})
    assert set(progress.marks) == {A, B, C}
    assert (progress.next_number, progress.over, len(progress)) == (8, (2,), 3)
    progress.confirm([C, A])
    assert progress.over == (2, 7)
    assert B in progress


def test_beyond_the_limit_the_oldest_batches_are_forgotten_and_never_the_newest() -> None:
    """Of BRIDGE-2."""
    progress = BridgeProgress({1: [A], 2: [B]}, marks_max=2)
    progress.add([C])
    assert (A in progress, B in progress, C in progress, progress.over) == (False, True, True, (1,))
    small = BridgeProgress({}, marks_max=1)
    small.add([A, B, C])
    assert len(small) == 3
    small.add([D])
    assert (A in small, D in small, small.over) == (False, True, (1,))


def test_an_id_that_is_used_again_and_again_leaves_no_batch_behind() -> None:
    """Of BRIDGE-2: of each message with it a record stayed in Kafka for ever, and was read at each start."""
    progress = BridgeProgress({})
    deleted: list[int] = []
    for _ in range(9):
        deleted += progress.over
        progress.add([A])
    assert deleted + list(progress.over) == list(range(1, 9))
    assert (len(progress), A in progress) == (1, True)
    assert BridgeProgress({1: [A], 2: [A, B], 3: [A]}).over == (1,)
    assert BridgeProgress({1: [A], 3: [A]}).next_number == 4
