"""What `show` says while partitions change hands, and of processes that have none."""

from dataclasses import replace

import pytest

from jbm_kafka.admin import PartitionCounts, QueueCounts
from jbm_kafka.cli.queues import _list_beside, _show_admission, _show_shares


def counts(*, held: int, owned: int, idle: int) -> QueueCounts:
    """Of that many partitions each holds one message, and the first `owned` of them have a process."""
    partitions = [
        PartitionCounts(partition=p, begin=0, settled_to=0, end=1, uncommitted=0, held=1) for p in range(held)
    ]
    return QueueCounts(
        name="orders", group="jbm.orders", members=2, idle_members=idle, partitions=tuple(partitions),
        owners=dict.fromkeys(range(owned), "member"), ready=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (counts(held=2, owned=2, idle=0), ""),
        (counts(held=2, owned=2, idle=1), "1 of the receivers has no partition\n"),
        (counts(held=2, owned=2, idle=2), "2 of the receivers have no partition\n"),
        (
            counts(held=2, owned=1, idle=0),
            "partition 1 holds messages, and the group is about to give it to a process; who had it may still work on "
            "some: jbm-kafka explain orders --subscription audit tells more\n",
        ),
        (
            counts(held=2, owned=0, idle=2),
            "partitions 0, 1 hold messages, and the group is about to give them to a process; who had them may still "
            "work on some: jbm-kafka explain orders --subscription audit tells more\n",
        ),
    ],
)
def test_partitions_that_move_are_not_denied_to_who_still_works_on_them(
    found: QueueCounts, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`show` said "no process has them" while handlers ran, and "1 of the receivers have"."""
    _show_shares(found, " --subscription audit")
    assert capsys.readouterr().out == said


def test_partitions_that_were_added_and_not_admitted_are_told_with_what_admits_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`show` said not a word of it, while senders were refused."""
    found = counts(held=4, owned=4, idle=0)
    _show_admission(replace(found, unit_partitions=2))
    told = capsys.readouterr().out
    assert told == (
        "it has 4 partitions, and its units are routed by 2: what is sent with a unit is refused; "
        "jbm-kafka admit-partitions orders routes them anew\n"
    )
    _show_admission(replace(found, unit_partitions=4))
    assert capsys.readouterr().out == ""


def test_the_list_says_that_a_changelog_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    found = counts(held=1, owned=0, idle=0)
    _list_beside(found)
    assert capsys.readouterr().out == ""
    _list_beside(replace(found, has_changelog=False))
    assert capsys.readouterr().out == (
        "orders: its changelog is missing; a receiver makes it again (docs: the changelog of a queue)\n"
    )


def test_the_list_says_that_added_partitions_are_not_admitted(capsys: pytest.CaptureFixture[str]) -> None:
    """It only counted more partitions, while senders were refused."""
    found = replace(counts(held=4, owned=4, idle=0), unit_partitions=2)
    _list_beside(found)
    assert capsys.readouterr().out == (
        "orders: units are routed by 2 of its 4 partitions: what is sent with a unit is refused until: "
        "jbm-kafka admit-partitions orders\n"
    )
    for over in (replace(found, unit_partitions=4), replace(found, next_partitions=4)):
        _list_beside(over)
        assert capsys.readouterr().out == "", "sends pass"
