"""What a changelog says of messages put behind what it has: an owner finds them as their last one left them."""

from pyroaring import BitMap

from jbm_kafka.core.channel.channel_state import ChannelState
from jbm_kafka.core.channel.entries import BLOCK_OFFSETS, Duplicates, Held, Position, SeenId, Settled
from jbm_kafka.core.channel.restoring import SEEN, Restored, Restoring

BEGIN = Position("t", "jbm.a:1", watermark=3, fetched=5, offered=4, truncated=1)


def test_each_message_has_its_past_and_what_was_there_stays() -> None:
    """Of LOG-13."""
    there = (BEGIN, Settled(0, BitMap([4]).serialize()), Settled(7, None), Duplicates(2, ()))
    restoring = Restoring(there)
    first = restoring.put(
        [
            Restored(
                10, is_held=True, is_read=True, is_seen=True, attempts=2, due_at_ms=9, delay_ms=8, reason="failed"
            ),
            Restored(11, is_held=False, is_read=True),
            Restored(12, is_held=True, is_read=True),
            Restored(13, is_held=True, is_read=True, is_seen=True, unit=b"u"),
        ],
        [SeenId(b"d", 10, 1)],
        "jbm.b:1",
    )
    assert first == [
        Position("t", "jbm.b:1", 3, 14, 4, 1),
        Held(10, 2, 9, 8, None, "failed"),
        Held(13, 0, 0, 0, b"u", SEEN),
        Settled(0, BitMap([4, 11]).serialize()),
        Duplicates(3, (SeenId(b"d", 10, 1),)),
    ]
    state = ChannelState()
    for entry in sorted((*there[1:], *first), key=lambda each: not isinstance(each, Position)):
        state.apply(entry)
    assert list(state.unsettled) == [3, *range(5, 11), 12, 13]
    assert restoring.watermark == state.watermark == 3


def test_what_nobody_had_read_is_new_and_what_may_have_been_handed_over_is_below_the_mark() -> None:
    """Of LOG-13 and SEND-8: an owner compares the duplicate ids of what it has not read."""
    restoring = Restoring([BEGIN])
    unread = [
        Restored(10, is_held=True, is_read=False, is_seen=True),
        Restored(11, is_held=True, is_read=False),
        Restored(12, is_held=False, is_read=False),
    ]
    assert restoring.put(unread, [], "jbm.b:1") == [Position("t", "jbm.b:1", 3, 5, 11, 1)]
    far = restoring.put([Restored(BLOCK_OFFSETS + 1, is_held=False, is_read=True)], [], "jbm.b:2")
    assert far == [Position("t", "jbm.b:2", 3, BLOCK_OFFSETS + 2, 11, 1), Settled(1, BitMap([1]).serialize())]


def test_many_ids_are_records_of_their_own() -> None:
    ids = [SeenId(b"%d" % number, 1, number) for number in range(1_001)]
    _, first, second = Restoring([BEGIN]).put([], ids, "jbm.b:1")
    assert (first, second) == (Duplicates(0, tuple(ids[:1_000])), Duplicates(1, tuple(ids[1_000:])))
