"""How the rows of a batch are cut into transactions, and which of them a repeated batch leaves out. Without Spark."""

from collections.abc import Iterator, Sequence
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jbm_kafka.ports import Outgoing
from jbm_spark.batch_ledger import LedgerEntry
from jbm_spark.batch_parts import SECONDS_MAX, BatchParts, PlacedRow, Written
from jbm_spark.errors import WriteError


def rows(numbers: Sequence[int], places: Sequence[int] | None = None) -> Iterator[PlacedRow]:
    """Numbers, each in a place of its own unless places are given."""
    for number, place in zip(numbers, numbers if places is None else places, strict=True):
        yield Outgoing("q", 0, None, b"%d" % number), hash((number, "digest")), place


def taken(parts: BatchParts) -> list[list[int]]:
    """All parts that are left."""
    found = []
    while not parts.is_over:
        found.append([int(record.value or b"") for record in parts.next_part()])
    return found


def test_a_part_has_at_most_so_many_rows_and_rows_of_one_place_are_in_one() -> None:
    """SPARK-3: but for more of one place than a part takes."""
    assert taken(BatchParts(rows(range(20)), rows_max=10)) == [[*range(8)], [*range(8, 16)], [*range(16, 20)]]
    places = [0] * 9 + [1] * 3 + [2] * 12
    assert [len(part) for part in taken(BatchParts(rows(range(24), places), rows_max=10))] == [9, 10, 5]


def test_a_slow_part_ends_before_its_transaction_times_out() -> None:
    now_s = 0.0

    def clock_s() -> float:
        nonlocal now_s
        now_s += SECONDS_MAX / 2
        return now_s

    assert [len(part) for part in taken(BatchParts(rows(range(1_000)), clock_s=clock_s))] == [513, 487]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 8), st.integers(0, 40), st.randoms())
def test_a_batch_that_is_begun_again_anywhere_writes_each_row_once(
    sizes: list[int], rows_max: int, kill: int, chance: object
) -> None:
    """SPARK-3: killed between any two transactions; rows of one place may come in another order then."""
    places = [place for place, size in enumerate(sizes) for _ in range(size)]
    numbers, written, first = (
        [*range(len(places))],
        list[int](),
        BatchParts(rows(range(len(places)), places), rows_max=rows_max),
    )
    while not first.is_over and kill:
        written += [int(record.value or b"") for record in first.next_part()]
        kill -= 1
    if first.is_over:
        assert written == numbers
        return
    if max(sizes) * 5 <= rows_max:  # else a place may be divided
        numbers.sort(key=lambda number: (places[number], chance.random()))  # type: ignore[attr-defined]
    again = BatchParts(rows(numbers, [places[number] for number in numbers]), rows_max=rows_max)
    again.pass_over(first.written)
    assert sorted([*written, *chain(*taken(again))]) == sorted(numbers)


@pytest.mark.parametrize("others", [[0, 1, 9, 3, 4, 5], [0, 1], [0, 1, 2], []])
def test_a_batch_that_is_repeated_with_other_rows_is_noticed(others: list[int]) -> None:
    """SPARK-4: another one among the first, too few, and as many as were written where there were more."""
    first = BatchParts(rows(range(6)), rows_max=4)
    written = len([*first.next_part()])
    assert written == 3
    with pytest.raises(WriteError, match="its first 3 rows were written by an earlier attempt, and are others now"):
        BatchParts(rows(others), rows_max=4).pass_over(first.written)


def test_the_mark_of_a_part_is_of_the_next_number_for_versions_that_know_no_parts() -> None:
    """They took a batch for written where the number was its own."""
    whole, part = LedgerEntry(7), LedgerEntry.of_part(7, Written(50_000, 2**64 - 1))
    assert (whole.batch, whole.part) == (7, None)
    assert (part.number, part.batch, part.part) == (8, 7, Written(50_000, 2**64 - 1))
    assert (LedgerEntry(7, "5 rows, 0a1b2c3d").batch, LedgerEntry(7, "5 rows, 0a1b2c3d").part) == (7, None)
