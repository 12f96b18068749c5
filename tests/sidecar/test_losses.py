"""What a receiver had in hand when it went: counted, at once there for the next one, and told in the events."""

from __future__ import annotations

import pytest

from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.codec.events import decode_events
from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY, DeliveryCount
from jbm_kafka.core.channel.entries import ChannelEvents, MessageFate, Position
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.memory.memory_kafka import CommitFault, MemoryCluster
from jbm_kafka.ports.deliveries import Disposition
from jbm_kafka.ports.link import Link
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Settling, Transfer
from tests.sidecar.parts import group_worker_behind
from tests.sidecar.stepped import CHECKPOINTS, QUEUE, Start, SteppedSidecar

DELAY_MS = 600_000


def received(one: SteppedSidecar, link: Link, count: int = 1) -> list[tuple[int, DeliveryCount]]:
    """The next messages, each as the application is shown it."""
    return [(delivery.offset, delivery.count) for delivery in one.deliveries(link, count)]


def events(cluster: MemoryCluster) -> list[ChannelEvents]:
    """What committed checkpoints say that they did."""
    found: list[ChannelEvents] = []
    for log in cluster.topics["jbm.events"].logs:
        records, _ = log.read(log.begin, 1_000, committed_only=True)
        found += [decode_events(record.value() or b"") for record in records]
    return found


def attempted(one: SteppedSidecar) -> list[bytes]:
    """What the changelog was told of hand-overs."""
    log = one.cluster.log(QUEUE.changelog_topic(), 0)
    records, _ = log.read(log.begin, 1_000, committed_only=True)
    return [record.value() or b"" for record in records if b"|attempted|" in (record.key() or b"")]


def test_what_a_session_had_in_hand_when_it_ended_is_an_attempt_and_waits_no_delay(start: Start) -> None:
    """REDELIVER-1: close counts; what never reached the application does not."""
    one = start("one", settings=AddressSettings(redelivery_delay_ms=DELAY_MS))
    link = one.attach("s")
    one.send("in hand", "unread")
    link.demand.credit = 2
    one.run(lambda: len(link.buffer) == 2)
    assert link.pop() is not None
    group_worker_behind(link).detach(link.terms.link_id)
    again = received(one, one.attach("t"), 2)
    assert again == [(0, DeliveryCount(1, 2, True)), (1, FIRST_DELIVERY)]


@pytest.mark.parametrize("persist_delivery_count", [False, True])
def test_what_is_taken_from_a_living_session_is_told_at_once_and_no_attempt(
    start: Start, persist_delivery_count: bool
) -> None:
    """REDELIVER-1: flagged, not counted, without a delay: with one attempt allowed it would be a dead letter."""
    options = {
        "settings": AddressSettings(redelivery_delay_ms=DELAY_MS, max_delivery_attempts=1),
        "persist_delivery_count": persist_delivery_count,
    }
    one = start("one", **options)
    link = one.attach("s")
    told: list[Exception] = []
    link.notices.on_trouble = told.append
    one.send("in hand", "unread")
    link.demand.credit = 2
    one.run(lambda: len(link.buffer) == 2)
    one.receive(link, 1)
    group_worker = group_worker_behind(link)
    group_worker.stop()
    one.run(lambda: not group_worker.is_alive)
    [taken] = told
    assert isinstance(taken, JMSError)
    assert taken.values == {
        "topic": "orders",
        "partition": 0,
        "offsets": (0,),
        "message_ids": ("ID:kafka:orders:0:0",),
    }
    two = start("two", **options)
    assert received(two, two.attach("t"), 2) == [(0, DeliveryCount(0, 2, True)), (1, FIRST_DELIVERY)]


def test_an_attempt_that_a_crash_may_forget_gives_no_message_up(start: Start) -> None:
    """REDELIVER-1, REDELIVER-7: it is marked, and only known attempts lead to dead-lettering."""
    settings = AddressSettings(max_delivery_attempts=1)
    one = start("one", settings=settings)
    link = one.attach("s")
    one.send("in hand")
    one.receive(link, 1)
    one.run_for(1_000)
    one.crash()
    two = start("two", settings=settings)
    assert received(two, two.attach("t")) == [(0, DeliveryCount(0, 2, True))]


def test_an_attempt_is_recorded_before_its_message_is_seen_and_no_other_is(start: Start) -> None:
    """REDELIVER-7, ACK-8: what lay in the buffers of a process that died comes as if new."""
    one = start("one", persist_delivery_count=True)
    link, other = one.attach("s"), one.attach("t")
    one.send(*(f"m{number}" for number in range(5)))
    link.demand.credit, other.demand.credit = 2, 2
    one.run(lambda: len(link.buffer) == len(other.buffer) == 2)
    one.held.add(CHECKPOINTS)
    assert link.pop() is other.pop() is None
    one.run_for(2_000)
    assert link.pop() is other.pop() is None, "nothing is recorded"
    assert attempted(one) == []
    one.held.clear()
    seen = [one.deliveries(link, 1)[0].offset, one.deliveries(other, 1)[0].offset]
    assert len(attempted(one)) == 1, "they shared a checkpoint"
    one.crash()
    two = start("two", persist_delivery_count=True)
    again = received(two, two.attach("u"), 5)
    assert again == [(n, DeliveryCount(1, 2, True) if n in seen else FIRST_DELIVERY) for n in range(5)]


def test_what_was_asked_for_and_goes_back_unread_is_no_attempt(start: Start) -> None:
    """REDELIVER-1, REDELIVER-7: also when it lies unread with another session, and its process dies."""
    one = start("one", persist_delivery_count=True)
    link, other = one.attach("s"), one.attach("t")
    one.send("unread")
    link.demand.credit = 1
    one.run(lambda: bool(link.buffer))
    assert link.pop() is None
    one.run(lambda: link.buffer.is_recorded)
    link.give_back_unread()
    other.demand.credit = 1
    channel = one.group_worker.data.channels[0]
    one.run(lambda: bool(other.buffer) and not channel.needs_checkpoint and channel.checkpoints.freeze is None)
    one.crash()
    two = start("two", persist_delivery_count=True)
    assert received(two, two.attach("u")) == [(0, FIRST_DELIVERY)]


def test_who_asks_again_after_his_time_was_up_gets_what_was_recorded_for_him_once(start: Start) -> None:
    """REDELIVER-7: it lies first in the buffer, and its hand-over is one attempt."""
    one = start("one", persist_delivery_count=True)
    link = one.attach("s")
    one.send("a", "b")
    link.demand.credit = 2
    one.run(lambda: len(link.buffer) == 2)
    assert link.pop() is None
    one.run(lambda: link.buffer.is_recorded)
    recorded = len(attempted(one))
    assert not link.is_asking
    taken = link.pop()
    assert taken is not None
    one.run_for(500)
    assert (taken.offset, len(attempted(one))) == (0, recorded)
    link.put_back(taken)
    assert link.pop() is taken, "Ctrl-C came before the application had it"
    one.crash()
    two = start("two", persist_delivery_count=True)
    assert received(two, two.attach("t"), 2) == [(0, DeliveryCount(1, 2, True)), (1, FIRST_DELIVERY)]


ANSWERS = pytest.mark.parametrize("answer", [None, *CommitFault])
"""What the first checkpoint hears of its commit: a word, or nothing, committed or not."""


@ANSWERS
@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("letters", (MessageFate.DEAD_LETTERED, 0, 1, "queue:letters")),
        ("topic:letters", (MessageFate.DEAD_LETTERED, 0, 1, "topic:letters")),
        (None, (MessageFate.REMOVED, 0, 1, None)),
    ],
)
def test_what_is_given_up_leaves_an_event_with_its_end(
    start: Start,
    address: str | None,
    expected: tuple[MessageFate, int, int, str | None],
    answer: CommitFault | None,
) -> None:
    """REDELIVER-3, LOG-5: a dead letter and a removal both, each once, with the checkpoint that ends the message."""
    one = start("one", settings=AddressSettings(max_delivery_attempts=1, dead_letter_address=address))
    link = one.attach("s")
    one.send("poison")
    one.receive(link, 1)
    one.held.add(CHECKPOINTS)
    link.settlement.dispositions.append(Disposition(returned=[(link.settlement.leases[0], Modified(0, counted=True))]))
    one.run_for(1_000)
    assert events(one.cluster) == []
    group = one.cluster.group(group_worker_behind(link).data.group.group_id)
    one.cluster.faults.commits.extend([] if answer is None else [answer])
    one.held.clear()
    one.run(lambda: bool(events(one.cluster)))
    assert group.committed[QUEUE.kafka_topic(""), 0].position == 1
    one.run_for(1_000)
    [(topic_id, told)] = [(event.topic_id, message) for event in events(one.cluster) for message in event.messages]
    assert (told.fate, told.offset, told.attempts, told.target) == expected
    assert told.reason == "max-delivery-attempts"
    assert (told.max_delivery_attempts, told.on_dead_letter, told.due_at_ms) == (1, "continue", None)
    if address is not None:
        letters = one.cluster.log("letters", 0)
        [letter] = letters.read(letters.begin, 9, committed_only=True)[0]
        assert dict(letter.headers() or [])["jms.string._JBM_ORIG_TOPIC_ID"] == (topic_id or "").encode()


def test_what_comes_back_leaves_an_event_that_tells_until_when_it_waits_and_by_which_limits(start: Start) -> None:
    """LOG-10: so whoever reads the events knows what came too early or too often, whatever the settings are by then."""
    settings = AddressSettings(redelivery_delay_ms=DELAY_MS, max_delivery_attempts=3)
    one = start("one", settings=settings)
    link = one.attach("s")
    one.send("fails", "nacked", "unread")
    assert one.receive(link, 2) == [0, 1]
    link.demand.credit = 1
    one.run(lambda: bool(link.buffer))
    before_ms = one.clock.now_ms()
    rows = [Modified(0, counted=True), Modified(1, counted=True, delay_ms=5), Modified(2, counted=False)]
    link.settlement.dispositions.append(Disposition(returned=[(link.settlement.leases[0], row) for row in rows]))
    one.run(lambda: bool(events(one.cluster)))
    [event] = events(one.cluster)
    told = {message.offset: message for message in event.messages}
    assert sorted(told) == [0, 1], "nobody had the third"
    at_ms = told[0].at_ms
    assert at_ms is not None
    assert before_ms <= at_ms <= event.at_ms
    for offset, delay_ms in ((0, DELAY_MS), (1, 5)):
        message = told[offset]
        assert (message.fate, message.attempts) == (MessageFate.RETURNED, 1)
        assert (message.at_ms, message.due_at_ms, message.delay_ms) == (at_ms, at_ms + delay_ms, delay_ms)
        assert (message.max_delivery_attempts, message.on_dead_letter) == (3, "continue")


def test_events_name_the_topic_as_the_position_does(start: Start) -> None:
    """LOG-10: a queue that was made anew under the same name has other messages at the same offsets."""
    one = start("one")
    link = one.attach("s")
    one.send("a")
    one.receive(link, 1)
    link.settlement.leases[0].acknowledge(0)
    one.run(lambda: bool(events(one.cluster)))
    log = one.cluster.log(QUEUE.changelog_topic(), 0)
    entries = [decode_entry(r.key(), r.value())[1] for r in log.read(log.begin, 1_000, committed_only=True)[0]]
    [topic_id] = {entry.topic_id for entry in entries if isinstance(entry, Position)}
    assert [event.topic_id for event in events(one.cluster)] == [topic_id]


def test_however_much_one_checkpoint_tells_no_record_of_it_is_too_large_for_its_topic(start: Start) -> None:
    """MSG-2, of LOG-5: it was one record, refused for ever, and nothing of its group was recorded any more."""
    one, count = start("one"), 100
    link = one.attach("s")
    for number in range(count):
        one.send("returned", unit=b"%04096d" % number)
    one.receive(link, count)
    one.held.add(CHECKPOINTS)
    returned = [(link.settlement.leases[0], Modified(offset, counted=True)) for offset in range(count)]
    link.settlement.dispositions.append(Disposition(returned=returned))
    one.run_for(1_000)
    one.held.clear()
    one.run_for(1_000)
    logs = one.cluster.topics["jbm.events"].logs
    sizes = [
        len(record.value() or b"") for log in logs for record in log.read(log.begin, 1_000, committed_only=True)[0]
    ]
    assert max(sizes) < 300_000, sizes
    told = [message.offset for event in events(one.cluster) for message in event.messages]
    assert sorted(told) == list(range(count))


def test_what_expires_without_an_expiry_address_is_not_told_as_acknowledged(start: Start) -> None:
    """SEND-5, LOG-5: its event says expired; nobody had it, so nobody can have acknowledged it."""
    one = start("one", settings=AddressSettings(expiry_address=None))
    link = one.attach("s")
    one.send("late", headers=[("JMSExpiration", b"%d" % one.clock.now_ms())])
    one.send("fine")
    assert [offset for offset, _ in received(one, link)] == [1]
    one.run(lambda: bool(events(one.cluster)))
    [event] = events(one.cluster)
    assert [(told.fate, told.offset, told.target) for told in event.messages] == [(MessageFate.EXPIRED, 0, None)]
    assert event.acknowledged == ()


@ANSWERS
def test_what_a_session_commits_and_what_it_acknowledges_is_told_in_the_events(
    start: Start, answer: CommitFault | None
) -> None:
    """LOG-5: both with the checkpoint that records them, and once."""
    one = start("one")
    link = one.attach("s")
    one.send("a", "b", "c")
    one.receive(link, 3)
    channel = group_worker_behind(link).data.channels[0]
    settling = Settling(channel=channel, session="s", offsets=[0, 1])
    one.cluster.faults.commits.extend([] if answer is None else [answer])
    one.sidecar.submit(
        Transfer(about="a commit", sends=(), settlings=[(group_worker_behind(link).checkpoint_part, settling)])
    )
    link.settlement.leases[0].acknowledge(2)
    one.run(
        lambda: channel.state.watermark == 3 and not channel.needs_checkpoint and channel.checkpoints.freeze is None
    )
    ranges = [places for event in events(one.cluster) for places in event.acknowledged]
    assert sorted(offset for r in ranges for offset in range(r.first, r.last + 1)) == [0, 1, 2]


def test_what_used_up_its_attempts_by_crashes_is_held_for_an_operator_too(start: Start) -> None:
    """REDELIVER-3, REDELIVER-7, of UNIT-16: no process is given it again, and it goes nowhere else."""
    settings = AddressSettings(max_delivery_attempts=1, on_dead_letter="hold", dead_letter_address="letters")
    one = start("one", settings=settings, persist_delivery_count=True)
    link = one.attach("s")
    one.send("poison")
    one.receive(link, 1)
    one.crash()
    two = start("two", settings=settings, persist_delivery_count=True)
    link = two.attach("t")
    two.send("fine")
    assert [offset for offset, _ in received(two, link)] == [1]
    link.demand.credit = 1
    two.run_for(10_000)
    assert not link.buffer
    assert two.cluster.log("letters", 0).end == 0


def test_a_partition_whose_changelog_is_damaged_stays_closed_and_the_others_go_on(start: Start) -> None:
    """MSG-2: what the damaged record said was forgotten, and messages that were settled came again."""
    one = start("one", partitions=2)
    link = one.attach("s")
    one.run(lambda: len(one.group_worker.data.channels) == 2)
    one.send("a", partition=0)
    one.send("b", partition=1)
    assert one.receive(link, 2) == [0, 0]
    one.run_for(1_000)
    one.crash()
    changelog = QUEUE.changelog_topic()
    one.cluster.faults.damaged = lambda topic, partition, offset: (topic, partition) == (changelog, 0)
    two = start("two", partitions=2)
    again = two.attach("s")
    two.run(lambda: list(two.group_worker.data.channels) == [1] and bool(again.notices.pending))
    assert two.receive(again, 1) == [0]
    [told] = again.notices.pending
    assert "offset 0: what is stored there cannot be read" in str(told)
    two.run_for(5_000)
    assert list(two.group_worker.data.channels) == [1], "nothing of the damaged one is handed over"
