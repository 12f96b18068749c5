"""A message that expires behind unfinished ones of its unit: it leaves beside them, once, whatever becomes of them."""

from __future__ import annotations

import pytest

from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.channel.owned_channel import owned
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling, Transfer
from tests.sidecar.stepped import CHECKPOINTS, SteppedSidecar
from tests.simulation.views import LogView

EXPIRES_MS = 500


def received_beside_an_expired_one(one: SteppedSidecar, link: Link) -> list[Delivery]:
    """The first and the third of a unit, both unacknowledged; the second expired in between.

    From then on checkpoints wait.
    """
    one.send("first", unit=b"u")
    first = take(one, link)
    one.send("second", unit=b"u", headers=[("JMSExpiration", b"%d" % (one.clock.now_ms() + EXPIRES_MS))])
    one.run_for(EXPIRES_MS)
    one.send("third", unit=b"u")
    one.held.add(CHECKPOINTS)
    return [first, take(one, link)]


def take(one: SteppedSidecar, link: Link) -> Delivery:
    link.demand.credit = 1
    one.run(lambda: bool(link.buffer))
    delivery = link.pop()
    assert delivery is not None
    return delivery


def expired_copies(cluster: MemoryCluster) -> list[bytes | None]:
    return [record.value() for record in LogView(cluster.log("ExpiryQueue", 0)).news()]


def wait_until_all_is_settled(one: SteppedSidecar) -> None:
    channel = one.group_worker.data.channels[0]
    one.run(
        lambda: channel.state.watermark == 3 and not channel.needs_checkpoint and channel.checkpoints.freeze is None
    )
    assert channel.holds_nothing


@pytest.mark.parametrize("is_copied_first", [True, False])
def test_the_next_comes_at_once_and_the_expired_one_goes_to_its_address(
    cluster: MemoryCluster, is_copied_first: bool
) -> None:
    """SEND-5, UNIT-3: without an acknowledgement of the first."""
    one = SteppedSidecar("one", cluster)
    link = one.attach("s")
    first, third = received_beside_an_expired_one(one, link)
    assert [first.offset, third.offset] == [0, 2]
    assert expired_copies(cluster) == []
    if is_copied_first:
        one.held.clear()
        one.run(lambda: expired_copies(cluster) == [b"second"])
        assert one.group_worker.data.channels[0].state.watermark == 0
    link.settlement.leases[0].acked += [0, 2]
    one.held.clear()
    wait_until_all_is_settled(one)
    assert expired_copies(cluster) == [b"second"]
    one.crash()


def test_a_commit_of_those_around_it_is_in_the_same_checkpoint(cluster: MemoryCluster) -> None:
    """LOG-5, SEND-5: a TRANSACTED session; the expired one is no part of its transaction."""
    one = SteppedSidecar("one", cluster)
    link = one.attach("s")
    first, third = received_beside_an_expired_one(one, link)
    settling = Settling(channel=owned(first.lease), session="s", offsets=[first.offset, third.offset])
    done = Completion()
    one.sidecar.submit(
        Transfer(about="commit", sends=(), settlings=[(one.group_worker.checkpoint_part, settling)], done=done)
    )
    one.held.clear()
    one.run(lambda: done.is_done)
    wait_until_all_is_settled(one)
    assert expired_copies(cluster) == [b"second"]
    one.crash()


@pytest.mark.parametrize("is_closed", [False, True])
def test_what_is_rolled_back_comes_again_without_the_expired_one(cluster: MemoryCluster, is_closed: bool) -> None:
    """SEND-5, UNIT-5: also when the session is gone."""
    one = SteppedSidecar("one", cluster)
    link, other = one.attach("s"), one.attach("t")
    rows = [
        (delivery, Modified(delivery.offset, counted=True)) for delivery in received_beside_an_expired_one(one, link)
    ]
    if is_closed:
        link.is_closed = True
        link.group_worker.detach(link.terms.link_id)
    else:
        link.give_back(rows)
    one.run_for(200)
    assert expired_copies(cluster) == []
    one.held.clear()
    again = [take(one, other), take(one, other)]
    assert [(delivery.offset, delivery.count.delivery_count) for delivery in again] == [(0, 2), (2, 2)]
    other.settlement.leases[0].acked += [0, 2]
    wait_until_all_is_settled(one)
    assert expired_copies(cluster) == [b"second"]
    one.crash()


@pytest.mark.parametrize("is_copied", [True, False])
def test_an_owner_that_dies_leaves_one_copy(cluster: MemoryCluster, is_copied: bool) -> None:
    """SEND-5, LOG-5: made by it, or by the next."""
    one = SteppedSidecar("one", cluster)
    received_beside_an_expired_one(one, one.attach("s"))
    if is_copied:
        one.held.clear()
        one.run(lambda: expired_copies(cluster) == [b"second"])
    one.crash()
    two = SteppedSidecar("two", cluster)
    link = two.attach("t")
    again = [take(two, link), take(two, link)]
    assert [(delivery.offset, delivery.count.redelivered) for delivery in again] == [(0, True), (2, True)]
    link.settlement.leases[0].acked += [0, 2]
    wait_until_all_is_settled(two)
    assert expired_copies(cluster) == [b"second"]
    two.crash()
