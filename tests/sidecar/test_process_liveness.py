"""What a process holds in the registry ends with it: a client id of a killed one is free, and its leavings go."""

import logging
from collections.abc import Sequence

import pytest

from jbm_kafka.core.destination import Topic
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidClientIDError, InvalidDestinationError, JMSError
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_admin import MemoryAdmin
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import KafkaClientError, Unreachable
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.registry.process_liveness import JOIN_TIMEOUT_MS, RETRY_S, ProcessLiveness
from tests.jms.support import eventually
from tests.sidecar.parts import link_of
from tests.sidecar.processes import SESSION_TIMEOUT_MS, Processes
from tests.sidecar.stepped import SteppedSidecar
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock

PRICES = Topic("prices")
SWEEP = "jbm-sweep"
REGISTRY = "jbm.registry"


def never(error: InvalidClientIDError) -> None:
    raise AssertionError(error)


def test_the_client_id_of_a_killed_process_is_free_after_its_session_timeout(processes: Processes) -> None:
    """CONN-2"""
    killed, theirs = processes.start()
    _, mine = processes.start()
    theirs.claims.client_ids.hold("billing", "c1", never)
    processes.kill(killed, theirs)
    with pytest.raises(InvalidClientIDError, match="a connection of another process has it"):
        mine.claims.client_ids.hold("billing", "c2", never)
    processes.clock.advance(SESSION_TIMEOUT_MS + 1)
    mine.claims.client_ids.hold("billing", "c2", never)
    with pytest.raises(InvalidClientIDError, match="another connection of this process"):
        mine.claims.client_ids.hold("billing", "c3", never)
    mine.claims.client_ids.release("billing", "c2")
    mine.claims.client_ids.hold("billing", "c3", never)


def names_of(cluster: MemoryCluster) -> set[bytes]:
    """Subscriptions that the registry still has."""
    latest: dict[bytes, bytes | None] = {}
    for record in cluster.log("jbm.registry", 0).read(0, 10_000, committed_only=True)[0]:
        latest[record.key() or b""] = record.value()
    return {key for key, value in latest.items() if value is not None and key.startswith(b"subscription|")}


@pytest.mark.parametrize("kind", [SubscriptionKind.SHARED, SubscriptionKind.PRIVATE, SubscriptionKind.SHARED_DURABLE])
def test_what_a_killed_process_subscribed_to_goes_with_it_unless_it_is_durable(
    processes: Processes, kind: SubscriptionKind
) -> None:
    """Of TOPIC-1, TOPIC-2: and a durable one is no longer in use."""
    killed, theirs = processes.start()
    theirs.sources.subscribe(Subscription(PRICES, kind, "old"))
    processes.kill(killed, theirs)
    processes.clock.advance(SESSION_TIMEOUT_MS + 1)
    _, mine = processes.start()
    mine.sources.subscribe(Subscription(PRICES, SubscriptionKind.SHARED, "new"))
    new, old = b"subscription|jbm.shared..new", f"subscription|jbm.{kind.value}..old".encode()
    left = {new, old} if kind is SubscriptionKind.SHARED_DURABLE else {new}
    eventually(lambda: names_of(processes.cluster) == left, "what the killed process left is there still")
    if kind is SubscriptionKind.SHARED_DURABLE:
        mine.sources.unsubscribe("", "old")
        assert names_of(processes.cluster) == {new}


def test_a_durable_subscription_of_a_topic_that_deletes_messages_is_refused(processes: Processes) -> None:
    """Of TOPIC-5: it would lose what it promised to keep."""
    _, mine = processes.start()
    processes.cluster.create_topic("prices", 2, {"retention.ms": "604800000"})
    with pytest.raises(InvalidDestinationError, match=r"retention.ms=604800000.*kafka-configs.sh --alter"):
        mine.sources.subscribe(Subscription(PRICES, SubscriptionKind.SHARED_DURABLE, "audit"))
    mine.sources.subscribe(Subscription(PRICES, SubscriptionKind.SHARED, "audit"))


def test_what_a_holder_has_to_look_for_is_looked_for_until_kafka_answers(processes: Processes) -> None:
    """Of CONN-2, TOPIC-2: others took what it held while it was thought dead, and it was not told."""
    _, mine = processes.start()
    looks: list[int] = []

    def look() -> None:
        looks.append(len(looks))
        if len(looks) < 3:
            raise KafkaClientError("no answer")

    mine.claims.holder.when_back(look)
    mine.claims.client_ids.hold("billing", "c1", never)
    eventually(lambda: len(looks) >= 3, "it is not looked for again")


def test_what_was_closed_while_kafka_was_away_stayed_taken_while_its_process_lived(
    processes: Processes, caplog: pytest.LogCaptureFixture
) -> None:
    """CONN-2, of TOPIC-2: others are not refused once Kafka is back; what is held again by then stays."""
    (_, one), (_, other) = processes.start(), processes.start()
    audit, trail = (Subscription(PRICES, SubscriptionKind.DURABLE, name, client_id="a") for name in ("audit", "trail"))
    for client_id, subscription in (("billing", audit), ("sales", trail)):
        one.claims.client_ids.hold(client_id, "c1", never)
        one.sources.subscribe(subscription)

    def no_answer(_: str, step: str) -> None:
        raise Unreachable(f"no answer to {step}")

    processes.cluster.faults.step = no_answer
    with caplog.at_level(logging.INFO):
        for client_id, subscription in (("billing", audit), ("sales", trail)):
            one.claims.client_ids.release(client_id, "c1")
            one.sources.end_use(subscription)
    processes.cluster.faults.step = None
    assert "client id 'billing' cannot be given back now, others have to wait; it is tried again: " in caplog.text
    one.claims.client_ids.hold("sales", "c2", never)
    one.sources.subscribe(trail)
    processes.clock.advance(int(RETRY_S * 1_000))
    eventually(lambda: not one.claims.holder._not_let_go, "it is not tried again")
    other.claims.client_ids.hold("billing", "c3", never)
    other.sources.subscribe(audit)
    with pytest.raises(InvalidClientIDError, match="a connection of another process has it"):
        other.claims.client_ids.hold("sales", "c3", never)
    with pytest.raises(IllegalStateError, match="has a consumer in another process"):
        other.sources.subscribe(trail)


def test_what_a_process_held_is_free_when_its_closing_has_returned() -> None:
    """Of CONN-2: the next process with its client id was refused, for a while."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    process = SteppedSidecar("one", cluster)
    process.sidecar.claims.client_ids.hold("billing", "c1", never)
    group = process.sidecar.claims.holder.name
    assert cluster.group(group).members
    process.sidecar.close()
    assert not cluster.group(group).members


def test_a_subscription_made_anew_while_its_leavings_are_swept_keeps_its_consumer() -> None:
    """TOPIC-1: the sweep had read that it was ended, and took its new consumer for one of the old, without a word."""
    cluster = MemoryCluster(ManualClock(), waits=False)
    killed, process = SteppedSidecar("killed", cluster), SteppedSidecar("one", cluster)
    workers = Subscription(PRICES, SubscriptionKind.SHARED, "workers")
    killed.sidecar.claims.holder.name = "jbm.holder.killed"
    killed.sidecar.sources.subscribe(workers)
    killed.crash()
    process.clock.advance(60_000)
    process.held.add(SWEEP)
    process.sidecar.sources.subscribe(Subscription(PRICES, SubscriptionKind.SHARED, "another"))
    (sweep,) = [each for each in process.workers.ready() if each.name == SWEEP]
    for _ in range(2):  # it has read what there is
        sweep.step()
    process.sidecar.sources.subscribe(workers)
    link = link_of("s")
    worker = link.group_worker = process.sidecar.sources.attach(workers, link)
    link.is_attached = True
    process.run(lambda: worker.is_settled)
    process.held.clear()
    process.run(lambda: not sweep.is_alive)
    process.run_for(1_000)
    assert (worker.is_running, link.notices.failure) == (True, None)
    assert b"subscription|" + workers.group_id().encode() in names_of(cluster)
    process.crash()


class SlowToForget(MemoryAdmin):
    """A cluster that keeps an empty group until it is told to delete it, as some brokers do; it may be silent."""

    def __init__(self, kafka: MemoryKafka) -> None:
        super().__init__(kafka._process, timeout_s=1.0)
        self.kept: set[str] = set()
        self.is_silent = False
        self.is_asked_while_silent = False

    def check_answered(self, timeout_s: float) -> None:
        if self.is_silent:
            raise KafkaClientError("no answer")

    def delete_groups(self, groups: Sequence[str]) -> None:
        self.is_asked_while_silent |= self.is_silent
        super().delete_groups(groups)
        self.kept.difference_update(groups)


class OneHolder:
    """A holder alone, in the test's own thread."""

    def __init__(self, *, has_topic: bool = True) -> None:
        self.cluster = MemoryCluster(ManualClock(), waits=False)
        self.kafka = MemoryKafka(self.cluster)
        self.began_ms = self.clock.monotonic_ms()
        self.admin = SlowToForget(self.kafka)
        self.workers = SteppedWorkers(self.clock, lambda seconds: self.run_for(int(seconds * 1000)))
        if has_topic:
            self.make_topic()
        self.looks: list[int] = []
        self.holder = ProcessLiveness(
            kafka=self.kafka, admin=self.admin, config=SidecarConfig(), topic=REGISTRY, workers=self.workers,
            clock=self.clock, chance=lambda: 0.5,
        )  # fmt: skip
        self.holder.when_back(lambda: self.looks.append(self.clock.monotonic_ms()))

    @property
    def clock(self) -> ManualClock:
        assert isinstance(self.cluster.clock, ManualClock)
        return self.cluster.clock

    def make_topic(self) -> None:
        self.cluster.create_topic(REGISTRY, 1, {})

    def run_for(self, duration_ms: int) -> None:
        end_ms = self.clock.monotonic_ms() + duration_ms
        while self.clock.monotonic_ms() < end_ms:
            for worker in self.workers.ready():
                worker.step()
            self.clock.advance(10)

    def join(self) -> str:
        name = self.holder.ensure()
        self.admin.kept.add(name)
        return name

    def is_member(self) -> bool:
        return bool(self.cluster.group(self.holder.name).members)

    def lose_topic(self) -> None:
        """The broker forgets the member, and it cannot join again."""
        self.admin.delete_topics([REGISTRY])
        self.cluster.expire_member(self.holder.name, next(iter(self.cluster.group(self.holder.name).members)))
        self.run_for(1_000)


def test_no_group_stays_behind_of_a_process_that_has_closed() -> None:
    """Each that had a client id or a subscription left one, and lists of groups grew for days."""
    one = OneHolder()
    one.join()
    one.holder.stop(Patience(lambda _: True))
    assert (one.admin.kept, one.is_member()) == (set(), False)


def test_a_process_that_closes_while_kafka_is_silent_asks_it_nothing() -> None:
    """The client's library ended the process, in the middle of its closing, when the broker came back."""
    one = OneHolder()
    name = one.join()
    one.admin.is_silent = True
    one.holder.stop(Patience(lambda _: True))
    assert (one.admin.kept, one.admin.is_asked_while_silent) == ({name}, False)
    assert not [worker for worker in one.workers.all if worker.is_alive], "it did not end"


def test_why_nothing_can_be_held_is_said_at_once() -> None:
    """Of CONN-2: after 30 s it was said that the group was not joined, and not why."""
    one = OneHolder(has_topic=False)
    with pytest.raises(JMSError, match=rf"group jbm\.holder\.\w+: .*{REGISTRY}"):
        one.holder.ensure()
    assert one.clock.monotonic_ms() - one.began_ms < JOIN_TIMEOUT_MS // 10


def test_a_process_whose_membership_broke_is_a_member_again_by_itself_and_looks_what_it_has_left() -> None:
    """Of CONN-2, TOPIC-2: what it held was free for others until it asked for something more to hold."""
    one = OneHolder()
    name = one.join()
    one.run_for(5_000)
    assert len(one.looks) == 1, "it looks when it has joined, and not all the time"
    one.lose_topic()
    with pytest.raises(JMSError, match=f"group {name}: "):
        one.holder.ensure()
    one.make_topic()
    one.run_for(5_000)
    assert (one.is_member(), len(one.looks)) == (True, 2)
    assert one.holder.ensure() == name


def test_a_process_that_closes_while_it_is_no_member_ends() -> None:
    one = OneHolder()
    one.join()
    one.lose_topic()
    one.holder.stop(Patience(lambda _: True))
    assert (one.admin.kept, one.is_member()) == (set(), False)
    assert not [worker for worker in one.workers.all if worker.is_alive], "it did not end"
