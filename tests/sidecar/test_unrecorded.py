"""What Kafka refuses to record, and would refuse for ever: nothing more is handed over until that is mended."""

from __future__ import annotations

import pytest

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import JMSError, JMSSecurityError, TransactionRolledBackError
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Disposition
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling, Transfer
from tests.sidecar.parts import link_of
from tests.sidecar.stepped import QUEUE, SteppedSidecar

CHANGELOG, EVENTS, GROUP = QUEUE.changelog_topic(), "jbm.events", "jbm.queue.orders"
RECOVERS_MS = 31_000
"""After the longest pause between two tries."""


@pytest.fixture
def link(one: SteppedSidecar) -> Link:
    """Of a receiver that has the first of a hundred messages."""
    link = one.attach("s")
    one.send(*map(str, range(100)))
    assert one.receive(link, 1) == [0]
    one.run_for(1_000)
    return link


def refuse(one: SteppedSidecar, what: str) -> None:
    """From now on Kafka refuses that."""
    if what == "too large":
        one.cluster.topics[CHANGELOG].config = {**one.cluster.topics[CHANGELOG].config, "max.message.bytes": "1"}
    else:
        one.cluster.faults.denied = frozenset({what})


def allow(one: SteppedSidecar) -> None:
    """Kafka takes everything again."""
    one.cluster.faults.denied = frozenset()
    one.cluster.topics[CHANGELOG].config = {**one.cluster.topics[CHANGELOG].config, "max.message.bytes": "1000000"}


def acknowledge(link: Link, *offsets: int) -> None:
    link.settlement.leases[0].acked.extend(offsets)


@pytest.mark.parametrize(
    ("refused", "kind", "about"),
    [
        (CHANGELOG, JMSSecurityError, CHANGELOG),
        (EVENTS, JMSSecurityError, EVENTS),
        (GROUP, JMSSecurityError, f"group {GROUP}"),
        ("too large", JMSError, CHANGELOG),
    ],
)
def test_messages_were_handed_out_of_which_nothing_could_be_recorded(
    one: SteppedSidecar, link: Link, refused: str, kind: type[JMSError], about: str, caplog: pytest.LogCaptureFixture
) -> None:
    """LOG-12: and nobody was told."""
    told: list[Exception] = []
    link.notices.on_trouble = told.append
    refuse(one, refused)
    acknowledge(link, 0)
    one.run(lambda: link.notices.hindrance is not None)
    error = link.notices.hindrance
    assert isinstance(error, kind)
    assert str(error).startswith(f"{about}: Kafka refuses what is to be recorded")
    assert error.topic == (None if refused == GROUP else about)
    link.demand.credit = 10
    one.run_for(60_000)
    assert link.pop() is None
    assert told == [error]
    found = one.sidecar.observation.health(None)
    assert (found.is_alive, found.is_ready, found.reasons) == (True, False, (f"queue:orders: {error}",))
    assert caplog.text.count(str(error)) == 1
    assert sum(record.levelname == "WARNING" for record in caplog.records) == 1

    allow(one)
    one.run(lambda: link.notices.hindrance is None)
    assert one.sidecar.observation.health(None).is_ready
    assert one.receive(link, 2) == [1, 2]
    acknowledge(link, 1, 2)
    one.run_for(1_000)
    one.crash()
    two = SteppedSidecar("two", one.cluster)
    assert two.receive(two.attach("t"), 1) == [3]
    two.crash()


def test_a_receiver_that_comes_while_nothing_can_be_recorded_is_told(one: SteppedSidecar, link: Link) -> None:
    refuse(one, CHANGELOG)
    acknowledge(link, 0)
    one.run(lambda: link.notices.hindrance is not None)
    late = one.attach("t")
    one.run(lambda: late.notices.hindrance is not None)
    assert late.notices.hindrance is link.notices.hindrance, "it is one trouble"


def test_from_the_beginning_nothing_is_handed_over_in_silence(one: SteppedSidecar) -> None:
    one.cluster.faults.denied = frozenset({CHANGELOG})
    link = one.attach("s")
    one.send("a")
    link.demand.credit = 1
    one.run(lambda: link.notices.hindrance is not None)
    assert isinstance(link.notices.hindrance, JMSSecurityError)


def test_a_call_that_waits_for_its_record_waited_for_a_minute(one: SteppedSidecar, link: Link) -> None:
    refuse(one, CHANGELOG)
    done = Completion()
    link.settlement.dispositions.append(Disposition(acknowledged=[(link.settlement.leases[0], 0)], done=done))
    one.run(lambda: done.is_done)
    with pytest.raises(JMSSecurityError, match=CHANGELOG):
        done.wait(0.0, about="acknowledge")


def test_a_commit_whose_queue_cannot_be_recorded_is_rolled_back_at_once(one: SteppedSidecar, link: Link) -> None:
    refuse(one, CHANGELOG)
    begun_ms = one.clock.monotonic_ms()
    settling = Settling(one.group_worker.data.channels[0], "s", [0])
    transfer = Transfer(
        "a commit", [Outgoing(QUEUE.name, 0, None, b"x")], [(one.group_worker.checkpoint_part, settling)]
    )
    one.sidecar.submit(transfer)
    one.run(lambda: transfer.done.is_done)
    assert one.clock.monotonic_ms() - begun_ms < 5_000
    with pytest.raises(TransactionRolledBackError, match=CHANGELOG) as raised:
        transfer.done.wait(0.0, about="commit")
    assert isinstance(raised.value.__cause__, JMSSecurityError)
    assert raised.value.topic == CHANGELOG


@pytest.mark.parametrize("is_hidden", [False, True])
def test_others_go_on_while_a_queue_cannot_be_recorded(one: SteppedSidecar, link: Link, is_hidden: bool) -> None:
    """`is_hidden`: nor does anybody say whose fault it is."""
    one.cluster.faults.hides_rights = is_hidden
    other = link_of("o")
    other.demand.is_waiting, other.demand.credit = True, 1
    other.group_worker = one.sidecar.sources.attach(Queue("others"), other)
    other.is_attached = True
    one.run(lambda: other.group_worker.is_settled)
    with one.cluster.changed:
        one.cluster.append(Outgoing("others", 0, None, b"a"), None)
    one.run(lambda: bool(other.buffer))
    refuse(one, CHANGELOG)
    acknowledge(link, 0)
    delivery = other.pop()
    assert delivery is not None
    delivery.lease.acknowledge(delivery.offset)
    one.run(lambda: link.notices.hindrance is not None)
    one.run_for(RECOVERS_MS)
    assert other.notices.hindrance is None
    assert {r.split(":")[1] for r in one.sidecar.observation.health(None).reasons} == {"orders"}
    with one.cluster.changed:
        found = one.cluster.group("jbm.queue.others").committed
    assert {offset.position for offset in found.values()} == {1}


def test_a_send_that_may_not_be_written_is_told_and_harms_nobody(one: SteppedSidecar, link: Link) -> None:
    one.cluster.create_topic("secret", 1, {})
    refuse(one, "secret")
    acknowledge(link, 0)
    transfer = Transfer("a commit", [Outgoing("secret", 0, None, b"x")], [])
    one.sidecar.submit(transfer)
    one.run(lambda: transfer.done.is_done)
    with pytest.raises(TransactionRolledBackError, match="secret: ") as raised:
        transfer.done.wait(0.0, about="commit")
    assert isinstance(raised.value.__cause__, JMSSecurityError)
    one.run_for(1_000)
    assert link.notices.hindrance is None


def test_a_right_on_the_transactional_id_is_missed_too(one: SteppedSidecar, link: Link) -> None:
    one.cluster.faults.denied = frozenset({"jbm.one.0", "jbm.one.0.1", "jbm.one.0.2"})
    acknowledge(link, 0)
    one.run(lambda: link.notices.hindrance is not None)
    assert isinstance(link.notices.hindrance, JMSSecurityError)
    allow(one)
    one.run(lambda: link.notices.hindrance is None)
