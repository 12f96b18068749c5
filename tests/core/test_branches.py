"""Prepared branches as holders of a channel: what passes to them, what is recorded, what a new owner makes of it."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel import changes as c
from jbm_kafka.core.channel.blocking_rule import Rule, blocking_rule_of
from jbm_kafka.core.channel.branch import (
    BranchRecord,
    BranchState,
    PreparedBranch,
    Xid,
    branch_across,
    checked_xid,
    heuristic_error,
    is_across,
    name_of,
    xid_of,
)
from jbm_kafka.core.channel.entries import Position, Prepared
from jbm_kafka.core.channel.holders import branch_holder
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.jms_errors import InvalidSettingError, InvalidTypeError
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from tests.core.channel_parts import START_MS, Channel, message, recovered

BRANCH = "00ff"
HOLDER = branch_holder(BRANCH)


def prepared_channel() -> Channel:
    """Two of unit u, one of v, one without; of u and the last one the first two are the branch's."""
    channel = Channel(message(0, b"u"), message(1), message(2, b"u"), message(3, b"v"))
    assert channel.got("a", 2, one_per_unit=True) == [0, 1]
    channel.state.apply(c.PassedToBranch(BRANCH, {"a": (0, 1)}))
    return channel


def test_the_id_of_a_branch_tells_its_name() -> None:
    """Of ACK-10: whoever meets it in a changelog can say which it is."""
    xid = checked_xid(7, "transaction 1", b"\x00b")
    assert xid_of(xid.hex + "0" * 16) == xid
    assert [name_of(each) for each in (xid.hex + "0" * 16, "of another form")] == [str(xid), "of another form"]


def test_what_a_branch_has_goes_to_nobody_and_holds_its_unit_until_the_branch_has_ended() -> None:
    """Of ACK-10: also at the freeze in which the decision is carried out."""
    channel = prepared_channel()
    assert channel.got("b") == [3]
    assert "a" not in channel.state.in_hand
    channel.acknowledge(HOLDER, 0, 1)
    channel.state.apply(c.BranchEnded(BRANCH))
    assert channel.got("b") == [2]
    failed = channel.freeze()
    assert Prepared(BRANCH, None) in failed.entries
    channel.state.apply(failed.failed)
    assert Prepared(BRANCH, None) in channel.checkpoint()
    assert not channel.state.is_dirty


def channel_with_later_ones(*, attempts: int = 10) -> Channel:
    """Of unit u the branch has 0 and 1, session a has 2 behind them, and 3 waits."""
    settings = ResolvedSettings(dead_letter_address="DLQ", max_delivery_attempts=attempts)
    channel = Channel(*(message(offset, b"u") for offset in range(4)), settings=settings)
    assert channel.got("a", 3) == [0, 1, 2]
    channel.state.apply(c.PassedToBranch(BRANCH, {"a": (0, 1)}))
    return channel


def test_a_session_keeps_what_it_has_behind_a_branch_and_gets_what_follows() -> None:
    """Of SEL-2: also when the branch has ended; nobody else gets any of the unit."""
    channel = channel_with_later_ones()
    assert channel.got("b") == []
    assert channel.got("a") == [3]
    channel.acknowledge(HOLDER, 0, 1)
    channel.state.apply(c.BranchEnded(BRANCH))
    channel.fetch(message(4, b"u"))
    assert channel.got("b") == []
    channel.acknowledge("a", 2, 3)
    assert channel.got("b") == [4]


@pytest.mark.parametrize("is_acknowledged", [True, False])
def test_a_unit_whose_session_lets_go_is_the_branchs_alone(is_acknowledged: bool) -> None:
    """Of SEL-2, UNIT-2: with 3 to wait, or with nothing."""
    channel = channel_with_later_ones()
    if is_acknowledged:
        assert channel.got("a") == [3]
        channel.acknowledge("a", 2, 3)
    else:
        channel.give_back("a", Modified(2, counted=False))
    assert channel.got("a") == []
    channel.give_back(HOLDER, *(Modified(offset, counted=False) for offset in (0, 1)))
    channel.state.apply(c.BranchEnded(BRANCH))
    assert channel.got("b") == ([0, 1] if is_acknowledged else [0, 1, 2, 3])


@pytest.mark.parametrize("is_recovered", [False, True], ids=["its owner", "a new owner"])
@pytest.mark.parametrize("is_committed", [False, True], ids=["rolled back", "committed"])
@pytest.mark.parametrize(
    "taken", [(0, 1, 2, 3, 4), (1, 0, 3, 2, 4), (3, 0, 4, 1, 2), (2, 1, 0)], ids=lambda taken: "".join(map(str, taken))
)
def test_a_unit_that_came_to_a_branch_by_several_consumers_keeps_its_order(
    taken: tuple[int, ...], is_committed: bool, is_recovered: bool
) -> None:
    """ACK-10, UNIT-5: it stood still for ever after a rollback, or its partition was closed."""
    units = [b"u", b"v", b"u", None, b"u", b"u", b"v"]
    messages = [message(offset, unit) for offset, unit in enumerate(units)]
    channel = Channel(*messages)
    assert channel.got("a", 5) == [0, 1, 2, 3, 4]
    beside = [offset for offset in range(5) if offset not in taken]
    if beside:
        channel.give_back("a", *(Modified(offset, counted=False) for offset in beside))
    entries = channel.prepare(BRANCH, {"a": taken})
    assert set(channel.state.in_hand[HOLDER]) == set(taken)
    assert channel.state.durable.prepared == {BRANCH: frozenset(taken)}
    if is_recovered:
        channel = recovered(*entries)
        channel.state.apply(c.OfferedRaised(1 << 40))
        channel.fetch(*messages)
    assert channel.got("b") == [offset for offset in beside if units[offset] is None]
    if is_committed:
        channel.acknowledge(HOLDER, *taken)
    else:
        channel.give_back(HOLDER, *(Modified(offset, counted=True) for offset in taken))
    channel.state.apply(c.BranchEnded(BRANCH))
    left = [offset for offset in range(7) if units[offset] is not None and not (is_committed and offset in taken)]
    got = [offset for _ in left for offset in channel.got("b")]  # what came back goes one by one
    for unit in (b"u", b"v"):
        assert [o for o in got if units[o] == unit] == [o for o in left if units[o] == unit]


def test_a_branch_has_what_each_consumer_got_here_and_at_a_new_owner() -> None:
    """Of ACK-10: all links count, not the one that was named last."""
    channel = Channel(message(0, b"u"), message(1, b"v"), message(2))
    assert [channel.got(session, 1) for session in "abc"] == [[0], [1], [2]]
    entries = channel.prepare(BRANCH, {"a": (0,), "b": (1,), "c": (2,)})
    assert channel.state.durable.prepared == {BRANCH: frozenset((0, 1, 2))}
    assert recovered(*entries).state.durable.prepared == channel.state.durable.prepared
    assert set(channel.state.in_hand[HOLDER]) == {0, 1, 2}


def test_nothing_leaves_before_what_a_branch_has_of_its_unit() -> None:
    """Of SEL-2: out of attempts behind a branch it comes again, and leaves behind it."""
    channel = channel_with_later_ones(attempts=1)
    decision = channel.give_back("a", Modified(2, counted=True))
    assert not decision.leaving
    assert [reference.offset for reference, _ in decision.returned] == [2]


def test_a_branch_of_several_sidecars_is_known_by_its_id() -> None:
    """Of SEL-2: no manager can name one so."""
    branch = branch_across(b"t" * 16, 3, "jbm.x.xa")
    assert is_across(branch.branch)
    assert xid_of(branch.branch) == branch.xid
    assert not is_across(checked_xid(2**31 - 1, "t", "b").hex)


def test_a_new_owner_puts_aside_what_a_branch_has_and_gives_it_to_the_branch_when_it_is_read() -> None:
    """Of ACK-10: offset 1 is not in the log any more, which ends it; an entry without offsets says nothing."""
    channel = recovered(
        Position("topic", "jbm.test:1", 0, 4, 4, 0), Prepared(BRANCH, (0, 1)), Prepared("an ended one", None)
    )
    rule = blocking_rule_of(channel.state, 0, b"u", now_ms=START_MS)
    assert (rule.rule, rule.session) == (Rule.PREPARED, HOLDER)
    channel.fetch(message(0, b"u"), message(2, b"u"), message(3, b"v"))
    assert channel.got("b") == [3]
    assert list(channel.state.in_hand[HOLDER]) == [0]
    assert not channel.state.aside


def test_a_message_without_a_unit_is_the_branchs_too() -> None:
    channel = recovered(Position("topic", "jbm.test:1", 0, 2, 2, 0), Prepared(BRANCH, (0,)))
    channel.fetch(message(0), message(1))
    assert channel.got("b") == [1]


def test_a_channel_knows_how_far_its_log_was_deleted() -> None:
    """Of LOG-2: never further than it had settled, and what it knew before counts for nothing."""
    channel = Channel(message(0), message(1))
    channel.got("a")
    channel.acknowledge("a", 0)
    channel.checkpoint()
    channel.state.apply(c.LogTruncated(5))
    assert channel.state.is_dirty
    (position,) = channel.checkpoint()
    assert isinstance(position, Position)
    assert position.truncated == 1
    channel.state.apply(c.LogTruncated(1))
    assert not channel.state.is_dirty


def test_a_name_of_a_branch_is_shown_as_text_where_it_is_text() -> None:
    xid = checked_xid(1, "order-7", b"\x00\xff")
    assert str(xid) == "1:order-7:0x00ff"
    assert xid.hex == "0000000107" + b"order-7".hex() + "00ff"


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (("1", "a", "b"), InvalidTypeError, "format_id"),
        ((True, "a", "b"), InvalidTypeError, "format_id"),
        ((-1, "a", "b"), InvalidSettingError, "from 0 to 2147483647"),
        ((1, 7, "b"), InvalidTypeError, "gtrid"),
        ((1, "", "b"), InvalidSettingError, "1 to 64 bytes"),
        ((1, "a", b"x" * 65), InvalidSettingError, "this has 65"),
    ],
)
def test_a_name_that_cannot_be_is_refused(
    given: tuple[object, object, object], error: type[Exception], says: str
) -> None:
    """Of ACK-10."""
    with pytest.raises(error, match=says):
        checked_xid(*given)


def test_the_error_of_a_heuristic_branch_names_what_became_of_each_part() -> None:
    record = BranchRecord(Xid(1, b"t", b"b"), BranchState.PREPARED, "jbm.x.xa", 0, "me", (), 0, 0)
    found = PreparedBranch(BRANCH, record, {("jbm.queue.q", 3): "reset", ("jbm.queue.q", 1): "made anew"})
    assert found.xid == record.xid
    assert "jbm.queue.q[1]: made anew; jbm.queue.q[3]: reset" in str(heuristic_error(found))


def test_a_part_of_a_name_that_has_no_utf_8_form_is_refused_in_one_line() -> None:
    """Of ACK-10."""
    with pytest.raises(InvalidSettingError, match="no UTF-8 form"):
        checked_xid(1, "caf\udce9", "b")
