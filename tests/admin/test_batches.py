"""What owners are asked to take out, portion after portion, and what becomes of units that reach over several."""

from jbm_kafka.admin.messages.batches import PORTION, PORTION_BYTES, PORTION_UNCOPIED, Portions, portions_of
from jbm_kafka.admin.messages.selection import ChosenMessage
from jbm_kafka.codec.command_records import Answer
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.destination import Queue

PARKED = Queue("parked")


def message(offset: int, unit: str | None = "joe", *, partition: int = 0, size: int = 1) -> ChosenMessage:
    return ChosenMessage(partition, offset, unit, f"ID:{offset}", size)


def answer(**result: list[int]) -> Answer:
    return Answer("a", 0, {"address": "parked", **result})


def portions(verb: Verb = Verb.MOVE, *, splits_units: bool = False) -> Portions:
    """Two, of two units."""
    parts = [[message(0), message(1, "ann")], [message(2), message(3, "ann"), message(4, None)]]
    return Portions(verb, PARKED if verb is Verb.MOVE else None, splits_units, parts)


def test_one_portion_follows_the_other() -> None:
    mine = portions()
    assert mine.arguments([]) == {"offsets": [0, 1], "to": "parked", "splits_units": False}
    first = answer(done=[0], gone=[1])
    assert mine.arguments([first]) == {"offsets": [2, 3, 4], "to": "parked", "splits_units": False}
    assert mine.arguments([first, answer(done=[2, 3, 4])]) is None


def test_what_is_behind_a_message_that_stayed_is_not_moved_past_it() -> None:
    """Of UNIT-14: the worker may be done with the first by then, and what he had behind it still stays."""
    mine = portions()
    for stays in ("in_hand", "behind", "too_large"):
        first = answer(**{stays: [0]}, done=[1])
        assert mine.arguments([first]) == {"offsets": [3, 4], "to": "parked", "splits_units": False}
        fates = {each.offset: fate for each, fate in mine.fates([first, answer(done=[3, 4])])}
        assert fates == {0: stays, 1: "done", 2: "behind", 3: "done", 4: "done"}


def test_a_unit_that_may_be_split_passes_what_is_too_large() -> None:
    split = portions(splits_units=True)
    assert split.arguments([answer(too_large=[0], done=[1])]) == {
        "offsets": [2, 3, 4],
        "to": "parked",
        "splits_units": True,
    }
    assert split.arguments([answer(in_hand=[0], done=[1])]) == {"offsets": [3, 4], "to": "parked", "splits_units": True}


def test_what_only_leaves_passes_what_stays() -> None:
    assert portions(Verb.REMOVE).arguments([answer(in_hand=[0, 1])]) == {"offsets": [2, 3, 4]}


def test_what_was_refused_or_not_asked_has_no_fate() -> None:
    refused = Answer("a", 0, error="no")
    assert [fate for _, fate in portions().fates([refused])] == [None] * 5


def test_a_portion_is_of_a_fair_size() -> None:
    many = [message(offset) for offset in range(2 * PORTION)] + [message(0, partition=1)]
    assert [len(each) for each in portions_of(many, is_copied=True)[0]] == [PORTION, PORTION]
    assert [len(each) for each in portions_of(many, is_copied=False)[0]] == [min(2 * PORTION, PORTION_UNCOPIED)]
    assert [len(each) for each in portions_of(many, is_copied=True)[1]] == [1]
    large = [message(offset, size=PORTION_BYTES // 2) for offset in range(3)]
    assert [len(each) for each in portions_of(large, is_copied=True)[0]] == [2, 1]
