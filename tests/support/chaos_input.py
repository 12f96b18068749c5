"""The input of a failure test: what is sent, what is to become of it, and its sending by Kafka's own producer."""

import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import Producer

from jbm_kafka.core.murmur2 import partition_for

DELAY_MS = 2_000
"""From the sending on; a unit waits for its delayed message."""


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
    def mixed(
        cls, *, units: int, each: int, seed: int, refused: float, poison: int, odd: float = 0.0, called: str = "unit"
    ) -> "Input":
        """Some are refused once, some are poison; the part `odd` is sent twice with a duplicate id, as much late."""
        chance = random.Random(f"input {seed}")
        names = [f"{called}-{i}" for i in range(units)]
        poisoned = frozenset((u, chance.randrange(each)) for u in chance.sample(names, min(poison, units)))
        turns = [u for u in names for _ in range(each)]
        chance.shuffle(turns)
        counts, bodies = dict.fromkeys(names, 0), []
        for unit in turns:
            number, counts[unit] = counts[unit], counts[unit] + 1
            body = {"unit": unit, "number": number, "poison": (unit, number) in poisoned}
            body["refuse"] = int(chance.random() < refused)
            if odd:
                body["times"], body["delay_ms"] = 1 + (chance.random() < odd), DELAY_MS * (chance.random() < odd)
            bodies.append((unit, json.dumps(body)))
        return cls(counts, poisoned, bodies)

    @property
    def good(self) -> frozenset[tuple[str, int]]:
        """All that must be done."""
        return frozenset((u, n) for u, count in self.units.items() for n in range(count)) - self.poison

    def and_then(self, later: "Input") -> "Input":
        """Both; they have no unit in common."""
        return Input({**self.units, **later.units}, self.poison | later.poison, [*self.bodies, *later.bodies])

    def send(
        self,
        bootstrap: str,
        topic: str,
        *,
        partitions: int,
        wait_turn: Callable[[int], object] = lambda sent: None,
        types: Sequence[str] = (),
    ) -> None:
        """Everything; `wait_turn` is called before each message, with the number of those before it.

        With `types` the messages of a unit have one of them each as their JMSType, in turn.
        """
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True})
        for sent, (unit, body) in enumerate(self.bodies):
            wait_turn(sent)
            # The partition is said, because for a moment a client may see fewer of a new topic than there are.
            place = partition_for(unit.encode(), partitions)
            headers: list[tuple[str, str | bytes | None]] = [("JBMBody", b"text")]
            told = json.loads(body)
            if types:
                headers.append(("JMSType", types[told["number"] % len(types)].encode()))
            if delay_ms := told.get("delay_ms", 0):
                headers.append(("JMSDeliveryTime", b"%d" % (time.time_ns() // 1_000_000 + delay_ms)))
            if (times := told.get("times", 1)) > 1:
                headers.append(("JBMDuplicateID", b"%d" % told["number"]))
            for _ in range(times):
                producer.produce(topic, key=unit, value=body, headers=headers, partition=place)
            producer.poll(0)
        assert producer.flush(30) == 0
