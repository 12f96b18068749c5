"""Goal: what the events tell of hand-overs is true, and complete for whatever is acknowledged (LOG-10).

Method: histories of the simulation with `record_deliveries`. Beside them is a list of what applications were given,
taken down at their receive; at the end it is compared with the committed records of `jbm.events`.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from jbm_kafka.codec.events import decode_events
from jbm_kafka.core.channel.entries import ChannelEvents
from jbm_kafka.core.settings.address_settings import AddressSettings, changed_settings
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.ports.deliveries import Delivery
from tests.simulation.paper import HandOver
from tests.simulation.recorder import Holder, Recorder
from tests.simulation.run import Simulation

STEPS = 500
Given = tuple[str, int, int, int]
"""Topic, partition, offset, attempt."""


class Witness:
    """Takes down what applications get, and what is acknowledged before they do."""

    def __init__(self, recorder: Recorder) -> None:
        self.given: Counter[Given] = Counter()
        self.early: set[tuple[str, int, int]] = set()
        self._handed_over, self._arrived = recorder.handed_over, recorder.arrived
        recorder.handed_over = self.handed_over  # type: ignore[method-assign]
        recorder.arrived = self.arrived  # type: ignore[method-assign]

    def handed_over(self, receiver: Holder, queue: str, delivery: Delivery) -> HandOver:
        self.given[queue, delivery.lease.channel.partition, delivery.offset, delivery.count.attempts + 1] += 1
        return self._handed_over(receiver, queue, delivery)

    def arrived(self, receiver: Holder, delivery: Delivery) -> None:
        self.early.add((delivery.lease.channel.topic, delivery.lease.channel.partition, delivery.offset))
        self._arrived(receiver, delivery)


def told(cluster: MemoryCluster) -> list[ChannelEvents]:
    """Those of committed checkpoints, in the order of each group."""
    logs = cluster.topics["jbm.events"].logs
    return [
        decode_events(record.value() or b"")
        for log in logs
        for record in log.read(log.begin, 1 << 20, committed_only=True)[0]
    ]


@pytest.mark.parametrize(
    "seed", [*range(1, 5), *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(5, 13))]
)
def test_what_is_told_was_given_and_what_is_acknowledged_was_told_before(seed: int) -> None:
    """LOG-10: through crashes, rebalances, refused records and unknown outcomes."""
    simulation = Simulation(seed, STEPS)
    world = simulation.world
    change = partial(changed_settings, by=AddressSettings(record_deliveries=True))
    everything = {pattern: change(settings) for pattern, settings in world.config.address_settings.items()}
    world.config = replace(world.config, address_settings=everything)
    witness = Witness(world.recorder)
    simulation.run()
    runs: Counter[Given] = Counter()
    acknowledged = 0
    for events in told(world.cluster):
        for run in events.deliveries:
            runs.update(
                (events.topic, events.partition, offset, run.attempt)
                for offset in range(run.first, run.first + run.count)
            )
        known = {place[:3] for place in runs}
        places = [
            (events.topic, events.partition, offset)
            for each in events.acknowledged
            for offset in range(each.first, each.last + 1)
        ]
        assert set(places) - known - witness.early == set()
        acknowledged += len(places)
    assert runs - witness.given == Counter()
    assert acknowledged
