"""The input of a failure test: what is sent, what is to become of it, and its sending by Kafka's own producer."""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer

from jbm_kafka.core.murmur2 import partition_for


@dataclass(frozen=True, slots=True)
class Input:
    """Messages of all units mixed, known before any is sent."""

    units: Mapping[str, int]
    """How many messages each has; they are numbered from 0."""
    poison: frozenset[tuple[str, int]]
    """(unit, number) of those that are always refused."""
    bodies: Sequence[tuple[str, str]]
    """(unit, body), in the order of sending."""

    @classmethod
    def mixed(cls, *, units: int, each: int, seed: int, refused: float, poison: int) -> "Input":
        """Some are refused once, some are poison."""
        chance = random.Random(f"input {seed}")
        names = [f"unit-{i}" for i in range(units)]
        poisoned = frozenset((u, chance.randrange(each)) for u in chance.sample(names, min(poison, units)))
        turns = [u for u in names for _ in range(each)]
        chance.shuffle(turns)
        counts, bodies = dict.fromkeys(names, 0), []
        for unit in turns:
            number, counts[unit] = counts[unit], counts[unit] + 1
            body = {"unit": unit, "number": number, "poison": (unit, number) in poisoned}
            body["refuse"] = int(chance.random() < refused)
            bodies.append((unit, json.dumps(body)))
        return cls(counts, poisoned, bodies)

    @property
    def good(self) -> frozenset[tuple[str, int]]:
        """All that must be done."""
        return frozenset((u, n) for u, count in self.units.items() for n in range(count)) - self.poison

    def send(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        wait_turn: Callable[[int], object] = lambda sent: None,
        types: Sequence[str] = (),
        delayed_ms: int = 0,
        is_doubled: bool = False,
    ) -> None:
        """Everything; `wait_turn` is called before each message, with the number of those before it.

        With `types` the messages of a unit have one of them each as their JMSType, in turn. Of twenty messages one is
        `delayed_ms`, and one of ten comes twice with one duplicate id.
        """
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        for sent, (unit, body) in enumerate(self.bodies):
            wait_turn(sent)
            # The partition is said, because for a moment a client may see fewer of a new topic than there are.
            place = partition_for(unit.encode(), partitions)
            headers: list[tuple[str, str | bytes | None]] = [("JBMBody", b"text")]
            if types:
                headers.append(("JMSType", types[json.loads(body)["number"] % len(types)].encode()))
            if delayed_ms and sent % 20 == 0:
                headers.append(("JMSDeliveryTime", b"%d" % (time.time_ns() // 1_000_000 + delayed_ms)))
            copies = 1
            if is_doubled and sent % 10 == 0:
                headers.append(("JBMDuplicateID", b"copy of %d" % sent))
                copies = 2
            for _ in range(copies):
                producer.produce(topic, key=unit, value=body, headers=headers, partition=place)
            producer.poll(0)
        assert producer.flush(30) == 0
