"""What a process keeps in memory of its temporary destinations: nothing of those that are gone (LOG-9)."""

from collections.abc import Iterator

import pytest

from jbm_kafka.core.destination import TemporaryQueue, TemporaryTopic
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.core.subscription import Subscription, SubscriptionKind
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports.installation import SidecarConfig
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import ThreadWorkers
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.topics import Topics
from jbm_kafka.sidecar.feeds.catch_up import CatchUp
from jbm_kafka.sidecar.feeds.shared_thread import SharedThread
from jbm_kafka.sidecar.temporary.temporaries import Temporaries, TemporariesParts
from tests.support.manual_clock import ManualClock

CONNECTION = "c0123456789ab"


@pytest.fixture
def temporaries() -> Iterator[Temporaries]:
    """Of a process over a cluster in memory."""
    clock, workers, config = ManualClock(), ThreadWorkers(), SidecarConfig()
    kafka = MemoryKafka(MemoryCluster(clock))
    topics = Topics(kafka.admin(), namespace="")
    topics.ensure_system_topics()
    holder = ProcessLiveness(
        kafka=kafka, admin=kafka.admin(), config=config, topic=topics.registry_topic, workers=workers, clock=clock,
        chance=lambda: 0.5,
    )  # fmt: skip
    made = Temporaries(
        TemporariesParts(
            kafka=kafka, admin=kafka.admin(), topics=topics, holder=holder, workers=workers, clock=clock,
            config=config, chance=lambda: 0.5, thread=SharedThread("fed", workers, clock),
            catch_up=CatchUp(kafka, workers), settings_of=lambda _: ResolvedSettings(),
        )
    )  # fmt: skip
    yield made
    made.stop(Patience(lambda _: True))
    holder.stop(Patience(lambda _: True))


def listened_for(temporaries: Temporaries) -> list[str]:
    """The destinations whose messages are looked at."""
    assert temporaries._log is not None
    return [name.decode() for name in temporaries._log._takers]


def test_nothing_is_kept_of_a_queue_that_was_deleted(temporaries: Temporaries) -> None:
    """A process that makes one for each task lives long."""
    kept, gone = (temporaries.create(TemporaryQueue, CONNECTION, number) for number in (1, 2))
    temporaries.delete(gone)
    assert listened_for(temporaries) == [kept.name]


def test_nothing_is_kept_of_a_subscription_whose_last_receiver_has_gone(temporaries: Temporaries) -> None:
    """Nor of its name: another one may be of another topic."""
    one, two = (temporaries.create(TemporaryTopic, CONNECTION, number) for number in (1, 2))
    of_one, of_two = (Subscription(topic, SubscriptionKind.SHARED, "team") for topic in (one, two))
    for _ in range(2):
        temporaries.subscribe(of_one)
    temporaries.end_use(of_one)
    assert listened_for(temporaries) == [one.name]
    temporaries.end_use(of_one)
    assert listened_for(temporaries) == []
    temporaries.subscribe(of_two)
    assert listened_for(temporaries) == [two.name]
