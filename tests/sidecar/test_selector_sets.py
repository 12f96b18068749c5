"""All processes that receive from a queue select alike: who would not is refused, whoever comes first."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from jbm_kafka.codec.registry_records import SelectorSet, decode_selectors, encode_selectors, selectors_key
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import KafkaClientError
from jbm_kafka.ports.link import Link
from jbm_kafka.registry.own_topics import registry_topic
from jbm_kafka.registry.process_liveness import RETRY_S
from jbm_kafka.registry.selector_sets import LEAVE_MS
from jbm_kafka.sidecar.sidecar import Sidecar
from tests.jms.support import eventually
from tests.sidecar.parts import link_of
from tests.sidecar.processes import SESSION_TIMEOUT_MS, Processes
from tests.sidecar.stepped import SteppedSidecar
from tests.support.manual_clock import ManualClock

ORDERS = Queue("orders")
EU, US = "region = 'EU'", "region = 'US'"
KEY = selectors_key("orders")
RETRY_MS = int(RETRY_S * 1_000)


@pytest.fixture
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    for sidecar in made.alive:
        sidecar.close()


class Consumer:
    """What a session does for one; on a stopped connection it is started later."""

    def __init__(self, sidecar: Sidecar, selector: str = "", *, started: bool = True) -> None:
        self._sidecar = sidecar
        self._selector = selector
        self.link: Link = link_of(f"{id(self)}")
        sidecar.claims.selector_sets.use(ORDERS, selector)
        self.link.notices.on_left = lambda: sidecar.claims.selector_sets.end_use(ORDERS, selector)
        if started:
            try:
                self.start()
            except BaseException:
                self.close()
                raise

    def start(self) -> None:
        """Raises what ends its group worker before its partitions are open."""
        link = self.link
        worker = link.group_worker = self.worker = self._sidecar.sources.attach(ORDERS, link)
        link.is_attached = True
        eventually(lambda: worker.is_settled or link.notices.failure is not None, "the consumer is not served")
        if link.notices.failure is not None:
            raise link.notices.failure

    def close(self) -> None:
        self.link.leave()


def recorded(sidecar: Sidecar) -> SelectorSet | None:
    registry = sidecar.claims.selector_sets._parts.registry
    registry.refresh()
    value = registry.get(KEY)
    return None if value is None else decode_selectors(value)


def test_who_selects_otherwise_is_refused_until_the_others_have_closed(processes: Processes) -> None:
    """Of SEL-2: with both sets, the queue and the remedy; the same selector is welcome."""
    (_, one), (_, other), (_, third) = (processes.start() for _ in range(3))
    consumers = [Consumer(one, EU), Consumer(other, EU)]
    with pytest.raises(IllegalStateError) as refused:
        Consumer(third, US)
    said = (
        "queue:orders: this process would receive with the selector \"region = 'US'\", and other processes receive "
        "with the selector \"region = 'EU'\". A message waits in the process that has its partition, so all "
        "processes must select alike: use the same selectors in each, made before connection.start(), or a queue"
    )
    assert str(refused.value).startswith(said)
    assert (refused.value.values["selectors"], refused.value.values["others"]) == ((US,), (EU,))
    # Who leaves in the middle of a rebalance waits for a clock that stands.
    eventually(lambda: all(len(each.worker.data.channels) == 1 for each in consumers), "each has a partition")
    for consumer in consumers:
        consumer.close()
    assert recorded(third) is None
    Consumer(third, US)


def test_who_selects_nothing_conflicts_with_who_selects_whoever_comes_first(processes: Processes) -> None:
    """Of SEL-2"""
    (_, one), (_, other) = processes.start(), processes.start()
    plain = Consumer(one)
    assert recorded(one) is None
    assert one.claims.holder.name == "", "who selects nothing holds nothing"
    with pytest.raises(IllegalStateError, match="and other processes receive with no selector"):
        Consumer(other, EU)
    assert recorded(other) is None
    plain.close()
    Consumer(other, EU)  # waits for who lingers; its pauses move the clock
    with pytest.raises(IllegalStateError, match=r"would receive with no selector, and other .* with the selector"):
        Consumer(one)


def test_the_selectors_of_a_killed_process_bind_nobody_after_its_session_timeout(processes: Processes) -> None:
    """Of SEL-2: its lease, and its place in the queue's group."""
    killed, theirs = processes.start()
    _, mine = processes.start()
    Consumer(theirs, EU)
    processes.kill(killed, theirs)
    with pytest.raises(IllegalStateError, match="counts until its session timeout"):
        Consumer(mine, US)
    processes.clock.advance(SESSION_TIMEOUT_MS + 1)
    Consumer(mine, US)
    found = recorded(mine)
    assert found is not None
    assert (found.selectors, len(found.holders)) == ((US,), 1)


def test_a_set_of_several_selectors_is_shown_whole_when_the_connection_starts(processes: Processes) -> None:
    """Of SEL-2: a part of it is another set; a consumer without a selector is part of it."""
    (_, one), (_, other) = processes.start(), processes.start()
    for sidecar in (one, other):
        made = [Consumer(sidecar, selector, started=False) for selector in (US, "", EU, EU)]
        for consumer in made:
            consumer.start()
    found = recorded(one)
    assert found is not None
    assert (found.selectors, len(found.holders)) == (("", EU, US), 2)
    _, third = processes.start()
    with pytest.raises(IllegalStateError, match=r"with no selector and the selector .* and the selector "):
        Consumer(third, EU)


def test_a_process_that_is_alone_changes_its_selectors_and_beside_others_does_not(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    """Of SEL-2: what it may no longer receive for others is in the log."""
    (_, one), (_, other) = processes.start(), processes.start()
    europe, us = Consumer(one, EU), Consumer(one, US)
    us.close()
    found = recorded(one)
    assert found is not None
    assert found.selectors == (EU,)
    theirs = Consumer(other, EU)
    with pytest.raises(IllegalStateError):
        Consumer(one, US)
    theirs.close()
    Consumer(one, US)
    for selector in (EU, US):
        Consumer(other, selector, started=False)
    other.claims.selector_sets.claim(ORDERS, is_joining=True)
    with caplog.at_level(logging.WARNING):
        europe.close()
    assert "this process receives with the selector \"region = 'US'\" only, others with" in "".join(caplog.messages)
    found = recorded(one)
    assert found is not None
    assert found.selectors == (EU, US)


def test_a_process_that_was_thought_dead_holds_its_selectors_again_or_is_refused(processes: Processes) -> None:
    """Of SEL-2: it looks when partitions come to it."""
    (_, one), (_, other) = processes.start(), processes.start()
    Consumer(one, EU)
    found = recorded(one)
    one.claims.selector_sets._parts.registry.write({KEY: None})
    one.claims.selector_sets.check(ORDERS)
    assert recorded(one) == found
    taken = SelectorSet((US,), (other.claims.holder.ensure(),))
    one.claims.selector_sets._parts.registry.write({KEY: encode_selectors(taken)})
    with pytest.raises(IllegalStateError, match="other processes receive with"):
        one.claims.selector_sets.check(ORDERS)


def forget_holder(processes: Processes, sidecar: Sidecar) -> None:
    """The broker thinks the process dead, and with it goes what it recorded; its threads live."""
    group = sidecar.claims.holder.name
    sidecar.claims.selector_sets._parts.registry.write({KEY: None})
    processes.cluster.expire_member(group, next(iter(processes.cluster.group(group).members)))


def test_a_process_that_was_thought_dead_is_a_holder_again_without_being_given_a_partition(
    processes: Processes,
) -> None:
    """Of SEL-2: a third one without selectors was let in beside it."""
    _, one = processes.start()
    Consumer(one, EU)
    found = recorded(one)
    forget_holder(processes, one)
    eventually(lambda: recorded(one) == found, "it holds its selectors no longer")


def test_a_process_that_comes_back_to_others_selectors_hears_so_without_being_given_a_partition(
    processes: Processes,
) -> None:
    """Of SEL-2: its receivers waited in silence."""
    (_, one), (_, other) = processes.start(), processes.start()
    consumer = Consumer(one, EU)
    taken = SelectorSet((US,), (other.claims.holder.ensure(),))
    one.claims.selector_sets._parts.registry.write({KEY: encode_selectors(taken)})
    group = one.claims.holder.name
    processes.cluster.expire_member(group, next(iter(processes.cluster.group(group).members)))
    eventually(lambda: consumer.link.notices.failure is not None, "nobody tells it")
    assert isinstance(consumer.link.notices.failure, IllegalStateError)
    assert "and other processes receive with the selector \"region = 'US'\"" in str(consumer.link.notices.failure)
    with pytest.raises(IllegalStateError):
        Consumer(one, EU)
    assert recorded(other) == taken


def test_a_process_that_comes_back_beside_one_without_selectors_hears_so(processes: Processes) -> None:
    """Of SEL-2: that one came while nobody held any, does not look again, and both received. The broker may not know
    yet that a member is dead, so it has a session timeout to go."""
    (_, one), (_, other) = processes.start(), processes.start()
    consumer = Consumer(one, EU)
    one.claims.selector_sets._parts.registry.write({KEY: None})
    plain = Consumer(other)
    # Who is given up in the middle of a rebalance is no member for a moment.
    eventually(lambda: all(len(each.worker.data.channels) == 1 for each in (consumer, plain)), "each has a partition")
    forget_holder(processes, one)
    # It waits from then on, which is a moment after it is recorded.
    eventually(lambda: ORDERS in one.claims.selector_sets._came_back, "it is no holder again")
    assert consumer.link.notices.failure is None
    processes.clock.advance(SESSION_TIMEOUT_MS + LEAVE_MS + 1)
    eventually(lambda: consumer.link.notices.failure is not None, "nobody tells it")
    assert "and other processes receive with no selector" in str(consumer.link.notices.failure)
    assert recorded(other) is None
    assert plain.link.notices.failure is None


@pytest.mark.parametrize("closed", [(), (US,)], ids=["it_goes_on", "it_closes_one_of_its_selectors_first"])
def test_one_without_selectors_who_came_while_a_process_was_thought_dead_is_seen_by_it(closed: tuple[str, ...]) -> None:
    """Of SEL-2: the record still named it, so it looked for nobody, and both received."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    asleep, plain = SteppedSidecar("one", cluster), SteppedSidecar("other", cluster)
    sets = asleep.sidecar.claims.selector_sets
    for selector in (EU, *closed):
        sets.use(ORDERS, selector)
    selecting = asleep.attach("s")
    asleep.run(lambda: asleep.group_worker.is_settled)
    asleep.kafka.freeze()
    plain.run_for(6_000)
    plain.attach("t")
    plain.run(lambda: plain.group_worker.is_settled)
    asleep.kafka.thaw()
    for selector in closed:
        sets.end_use(ORDERS, selector)
    for _ in range(2_000):  # beyond the session timeout, in which the other might be dead
        asleep.run_for(5)
        plain.run_for(5)
    assert isinstance(selecting.notices.failure, IllegalStateError)
    assert "and other processes receive with no selector" in str(selecting.notices.failure)
    assert plain.group_worker.is_running


def test_who_joins_without_selectors_while_another_claims_his_is_seen_by_him() -> None:
    """Of SEL-2: it looked before the record was there, and both received: what either selects waited in the other."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    one, other = SteppedSidecar("one", cluster), SteppedSidecar("other", cluster)
    members = cluster.group(ORDERS.group_id()).members
    sets = one.sidecar.claims.selector_sets
    one.sidecar.claims.client_ids.hold("billing", "c1", lambda _: None)  # the holder is there, and the registry

    def join(_: str, step: str) -> None:
        if step == "begin" and not members:
            other.attach("s")
            other.run(lambda: bool(members) and other.group_worker.is_settled)

    cluster.faults.step = join
    sets.use(ORDERS, EU)
    with pytest.raises(IllegalStateError, match="other processes receive with no selector"):
        sets.claim(ORDERS, is_joining=True)
    cluster.faults.step = None
    assert recorded(one.sidecar) is None, "nobody is bound by what was refused"


def test_who_selected_leaves_the_queue_with_its_last_consumer_and_who_selects_nothing_stays_for_a_while(
    processes: Processes,
) -> None:
    """Of SEL-2: a member without a record would select nobody knows what. One that never had any joined anew for each
    message that was received by a consumer of its own."""
    _, one = processes.start()
    members = processes.cluster.group(ORDERS.group_id()).members
    plain = Consumer(one)
    plain.close()
    assert (plain.worker.is_running, len(members)) == (True, 1)
    selecting = Consumer(one, EU)
    never_started = Consumer(one, US, started=False)
    never_started.close()
    assert (selecting.worker.is_running, len(members)) == (True, 1)
    selecting.close()
    assert (selecting.worker.is_running, len(members)) == (False, 0)


def test_selectors_that_were_given_up_while_kafka_was_away_stayed_while_the_process_lived(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    """Of SEL-2: others are not refused once Kafka is back; what is used again by then stays."""
    (_, one), (_, other) = processes.start(), processes.start()
    consumers = [Consumer(one, EU), Consumer(one, US)]

    def no_answer(transactional_id: str, step: str) -> None:
        if transactional_id == registry_topic(""):  # or the group worker waits out its time to leave
            raise KafkaClientError(f"no answer to {step}")

    def close_all() -> None:
        processes.cluster.faults.step = no_answer
        while consumers:
            consumers.pop().close()

    with caplog.at_level(logging.WARNING):
        close_all()
    assert "queue:orders: its selectors cannot be given back now, others have to wait; it is tried again" in caplog.text
    assert recorded(one) is not None
    processes.cluster.faults.step = None  # not before: it is tried again on a thread of its own
    consumers.append(Consumer(one, EU))
    processes.clock.advance(RETRY_MS)
    eventually(lambda: not one.claims.holder._not_let_go, "it is not tried again")
    with pytest.raises(IllegalStateError, match="and other processes receive with the selector \"region = 'EU'\""):
        Consumer(other, US)
    close_all()
    processes.cluster.faults.step = None
    processes.clock.advance(RETRY_MS)
    eventually(lambda: recorded(other) is None, "others are refused")
    Consumer(other, US)
