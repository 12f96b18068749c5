"""A machine that loses power again and again, with a store that is forwarded to a Kafka that does not.

`python -m tests.support.power_losses FOLDER fsync|kernel SEED` prints as JSON what was put before each loss, and what
the queue has in the end. It runs with `synced_sizes.c` loaded, which knows what the disk has.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections import deque
from pathlib import Path

from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.memory.memory_cluster import CommitFault
from jbm_kafka.ports import KafkaClientError
from tests.support.forwarding_rounds import Rounds

LOSSES = 8


def synced_sizes() -> dict[str, int]:
    """How much of each file the disk has."""
    lines = Path(os.environ["SYNCED_SIZES"]).read_text().splitlines()
    return {path: int(size) for size, _, path in (line.partition(" ") for line in lines)}


def main(folder: str, fsync: str, seed: str) -> None:
    """Lose power, and tell what became of it."""
    chance = random.Random(int(seed))
    rounds = Rounds(Path(folder), "power", fsync=fsync == "fsync")
    ends: list[int] = []
    lost: list[int] = []
    sent = 0
    for _ in range(LOSSES):
        rounds.world.cluster.faults.commits = deque(chance.choices([*CommitFault], k=chance.randrange(3)))
        for _ in range(chance.randrange(1, 40)):
            rounds.put(sent, "a")
            sent += 1
            if chance.random() < 0.15:
                try:
                    rounds.forwarder.forward()
                except (JMSError, KafkaClientError):
                    continue
        rounds.world.cluster.faults.commits.clear()
        ends.append(sent)
        rounds.start(synced_sizes())
        lost.append(rounds.store.counts().lost)
    rounds.forward_all()
    print(json.dumps({"ends": ends, "lost": lost, "found": rounds.found("a"), "batches": rounds.store.batch_number()}))
    rounds.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
