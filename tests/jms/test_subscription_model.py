"""Subscriptions by chance against a model on paper: each gets what was sent since it began, once, units in order."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from jbm_kafka import AddressSettings, ConnectionFactory, Topic
from jbm_kafka.jms.consumer import MessageConsumer
from jbm_kafka.jms.context import Context
from jbm_kafka.testing.memory_world import MemoryWorld
from tests.jms.support import NOTHING_S, receive

ACTS = 60
TOPICS = (Topic("prices"), Topic("news"))
NAMES = ("audit", "bill", "team", "crew")
"""The first two are unshared and durable, the third is shared and durable, the last one shared."""
CHOICES: dict[str, Callable[[int], bool]] = {
    "": lambda number: True,
    "odd = TRUE": lambda number: number % 2 == 1,
    "number > 40 OR rest = 0": lambda number: number > 40 or number % 5 == 0,
}
"""Selectors, and what each of them chooses."""


@dataclass
class Paper:
    """What one subscription should still give, and who receives from it."""

    topic: Topic
    selector: str
    owed: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """Numbers by unit, in the order sent."""
    consumers: list[MessageConsumer] = field(default_factory=list)


class Play:
    """One run; each act is done and noted on paper."""

    def __init__(self, factory: ConnectionFactory, jms: Context, seed: int) -> None:
        self._chance = random.Random(seed)
        self._jms = jms
        self._sender = factory.create_context()
        self._producer = self._sender.create_producer()
        self.paper: dict[str, Paper] = {}
        self._number = 0

    def act(self) -> None:
        self._chance.choice([self.send, self.send, self.take, self.take, self.open, self.close, self.end])()

    def send(self) -> None:
        topic, unit = self._chance.choice(TOPICS), self._chance.choice("abc")
        for _ in range(self._chance.randint(1, 4)):
            self._number += 1
            properties = {"odd": self._number % 2 == 1, "number": self._number, "rest": self._number % 5}
            self._producer.send(topic, str(self._number), unit_of_order=unit, properties=properties)
            for paper in self.paper.values():
                if paper.topic == topic and CHOICES[paper.selector](self._number):
                    paper.owed[unit].append(self._number)

    def open(self) -> None:
        name = self._chance.choice(NAMES)
        known = self.paper.get(name)
        is_used = known is not None and known.consumers
        topic = known.topic if known is not None and is_used else self._chance.choice(TOPICS)
        is_kept = known is not None and (is_used or self._chance.random() < 0.7)
        selector = known.selector if known is not None and is_kept else self._chance.choice(list(CHOICES))
        is_shared = name in ("team", "crew")
        if known is not None and known.consumers and not is_shared:
            return
        if known is None or (known.topic, known.selector) != (topic, selector):
            known = self.paper[name] = Paper(topic, selector)  # what another choice held is dropped
        create = {
            "team": self._jms.create_shared_durable_consumer,
            "crew": self._jms.create_shared_consumer,
        }.get(name, self._jms.create_durable_consumer)
        known.consumers.append(create(topic, name, selector))

    def take(self) -> None:
        for name, paper in self.paper.items():
            if paper.consumers and any(paper.owed.values()) and self._chance.random() < 0.5:
                self.take_one(name, paper)

    def take_one(self, name: str, paper: Paper) -> None:
        message = receive(self._chance.choice(paper.consumers))
        unit, number = str(message.unit_of_order), int(str(message.body))
        assert paper.owed[unit][:1] == [number], f"{name}, unit {unit}: {number} came, owed {paper.owed[unit]}"
        assert not message.redelivered
        del paper.owed[unit][0]

    def close(self) -> None:
        open_ones = [name for name, paper in self.paper.items() if paper.consumers]
        if open_ones:
            name = self._chance.choice(open_ones)
            self.paper[name].consumers.pop().close()
            if name == "crew" and not self.paper[name].consumers:
                del self.paper[name]

    def end(self) -> None:
        idle = [name for name, paper in self.paper.items() if not paper.consumers and name != "crew"]
        if idle and self._chance.random() < 0.3:
            name = self._chance.choice(idle)
            self._jms.unsubscribe(name)
            del self.paper[name]

    def finish(self) -> None:
        """Everything owed comes, and nothing else."""
        for name, paper in self.paper.items():
            if not paper.consumers:
                create = (
                    self._jms.create_shared_durable_consumer if name == "team" else self._jms.create_durable_consumer
                )
                paper.consumers.append(create(paper.topic, name, f" ( {paper.selector} ) " if paper.selector else None))
            while any(paper.owed.values()):
                self.take_one(name, paper)
            for consumer in paper.consumers:
                assert consumer.receive(NOTHING_S) is None
        self._sender.close()


@pytest.mark.parametrize("seed", range(6))
def test_subscriptions_by_chance_give_what_they_owe_and_nothing_else(seed: int) -> None:
    """TOPIC-1, UNIT-12, of TOPIC-2, TOPIC-3, UNIT-1"""
    with MemoryWorld() as world:
        settings = {"#": AddressSettings(partitions=2)}
        factory = world.factory(address_settings=settings)
        with world.factory(address_settings=settings, client_id="model").create_context() as jms:
            play = Play(factory, jms, seed)
            for _ in range(ACTS):
                play.act()
            play.finish()
