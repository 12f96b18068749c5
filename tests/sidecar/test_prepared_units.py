"""What a branch has of units that its session's consumers got one after the other, in whole sidecars (ACK-10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jbm_kafka.core.channel.branch import Branch, BranchState, Xid, branch_across
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY, DeliveryCount
from jbm_kafka.core.channel.holders import branch_holder
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork
from jbm_kafka.sidecar.lane.group_worker import transfer_of
from tests.sidecar.stepped import Start, SteppedSidecar

COMMITTED, ROLLED_BACK = BranchState.COMMITTED, BranchState.ROLLED_BACK
MESSAGES = 6


def received(process: SteppedSidecar, links: Sequence[Link], order: str) -> list[tuple[Link, Delivery]]:
    """The next message of each consumer, in this order."""
    return [(links[int(each) - 1], process.deliveries(links[int(each) - 1], 1)[0]) for each in order]


def prepared(process: SteppedSidecar, branch: Branch, got: Sequence[tuple[Link, Delivery]]) -> Completion:
    """Its prepare, under way."""
    done = Completion(None)
    work = UnitOfWork("it", (), [Received(link, each.lease, [each.offset]) for link, each in got], done, branch=branch)
    process.sidecar.prepare(branch, transfer_of(work))
    return done


def refusal_of(done: Completion) -> str:
    """Empty: there was none."""
    try:
        done.wait(0, about="a prepare")
    except JMSError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("heir", [False, True], ids=["carried out", "carried out by an heir"])
@pytest.mark.parametrize("state", [COMMITTED, ROLLED_BACK], ids=lambda state: state.value)
@pytest.mark.parametrize("order", ["12", "21", "11", "121", "123", "3121"])
def test_a_unit_goes_on_whichever_consumers_of_a_session_got_it(
    start: Start, order: str, state: BranchState, heir: bool
) -> None:
    """ACK-10, UNIT-5: prepared, it stood still for ever after a rollback, or its group worker died."""
    one = start("one")
    links = [one.attach("s", number) for number in (1, 2, 3)]
    one.send(*map(str, range(MESSAGES)), unit=b"u")
    branch = one.sidecar.branches.begin(Xid(1, b"g", b"b"))
    done = prepared(one, branch, received(one, links, order))
    one.run(lambda: done.is_done)
    assert refusal_of(done) == ""
    if heir:
        one.crash()
        one = start("two")
    one.sidecar.branches.decide(branch.branch, state)
    first = 0 if state is ROLLED_BACK else len(order)
    assert one.receive(one.attach("another"), MESSAGES - first) == list(range(first, MESSAGES))


@pytest.mark.parametrize(("persists", "count"), [(True, FIRST_DELIVERY), (False, DeliveryCount(0, 2, True))])
def test_what_a_killed_worker_had_only_prefetched_beside_its_branch_is_no_attempt(
    start: Start, persists: bool, count: DeliveryCount
) -> None:
    """Of ACK-10, REDELIVER-7: where attempts are recorded it comes as if new, else flagged, and uncounted."""
    one = start("one", persist_delivery_count=persists)
    link = one.attach("s")
    one.send("0", "1", unit=b"u")
    got = received(one, [link], "1")
    link.demand.credit = 1
    one.run(lambda: bool(link.buffer))
    branch = one.sidecar.branches.begin(Xid(1, b"g", b"b"))
    done = prepared(one, branch, got)
    one.run(lambda: done.is_done)
    assert refusal_of(done) == ""
    one.crash()
    two = start("two", persist_delivery_count=persists)
    two.sidecar.branches.decide(branch.branch, COMMITTED)
    (second,) = two.deliveries(two.attach("t"), 1)
    assert (second.offset, second.count) == (1, count)


def test_of_branches_with_one_unit_the_first_alone_is_prepared(start: Start) -> None:
    """SEL-2, UNIT-5: three transactions of one client killed the group worker of another sidecar's queue.

    The second may end first, and what the first has may come again after it.
    """
    one = start("one")
    links = [one.attach("s", number) for number in (1, 2, 3)]
    one.send(*map(str, range(MESSAGES)), unit=b"u")
    got = received(one, links, "123")
    branches = [branch_across(b"t" * 16, number, "jbm.two.xa") for number in range(3)]
    ends = [prepared(one, branch, [each]) for branch, each in zip(branches, got, strict=True)]
    one.run(lambda: all(end.is_done for end in ends))
    assert [bool(refusal_of(end)) for end in ends] == [False, True, True]
    state, holder = one.group_worker.data.channels[0].state, branch_holder(branches[0].branch)
    one.run(lambda: holder in state.in_hand)
    assert list(state.in_hand[holder]) == [0]
    assert list(state.in_hand["s"]) == [1, 2]


def test_what_its_session_has_unread_of_a_unit_waits_for_the_branch(start: Start) -> None:
    """ACK-10, UNIT-2: it would come before what the branch may give back."""
    one = start("one")
    link = one.attach("s")
    one.send("a", "b", unit=b"u")
    link.demand.credit = 2
    one.run(lambda: len(link.buffer) == 2)
    delivery = link.pop()
    assert delivery is not None
    branch = one.sidecar.branches.begin(Xid(1, b"g", b"b"))
    done = prepared(one, branch, [(link, delivery)])
    one.run(lambda: done.is_done)
    assert link.pop() is None
    one.sidecar.branches.decide(branch.branch, ROLLED_BACK)
    assert one.receive(one.attach("another"), 2) == [0, 1]
