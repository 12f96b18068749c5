"""Starts in a crowd: how long until so many processes are ready that all begin at once, each with what it claims.

`python -m tests.chaos.storm [--cluster] [COUNT ...]` starts 20 and then 50 on a local Kafka of its own, or on three
brokers, each with a client id and a durable subscription; then so many consumers of one shared subscription. It prints
the time until all are ready, counted from the start of the first, the processor time of one, and how often a change of
the registry was refused because somebody else's came between. With 20 processes a start of more than 20 s ends with
exit code 1, with 50 of 40 s.
"""

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
from pathlib import Path

import jbm_kafka
from jbm_kafka import AcknowledgeMode, ConnectionFactory, Topic
from jbm_kafka.registry import registry_log
from tests.support.broker import local_broker
from tests.support.chaos_crew import Process
from tests.support.cluster import three_brokers
from tests.support.topics import create_topic

TOPIC = "storm"
ALLOWED_S = {20: 20.0, 50: 40.0}


class Refusals(logging.Handler):
    """Counts the tries to change the registry that somebody else's ended."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += record.msg == registry_log.OVERTAKEN


def claim(given: str) -> None:
    """One process of the crowd: says when it is ready, and leaves when its standard input ends."""
    task = json.loads(given)
    refusals = Refusals()
    logging.getLogger(registry_log.__name__).addHandler(refusals)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(name)s %(levelname)s %(message)s")
    factory = ConnectionFactory(task["bootstrap"], client_id=task["client_id"] or None, state_dir=task["state_dir"])
    with factory.create_connection() as connection:
        session = connection.create_session(AcknowledgeMode.CLIENT)
        create = session.create_durable_consumer if task["client_id"] else session.create_shared_durable_consumer
        create(Topic(TOPIC), "crowd")
        used = resource.getrusage(resource.RUSAGE_SELF)
        print("ready", refusals.count, used.ru_utime + used.ru_stime, flush=True)
        sys.stdin.buffer.read()


def start(bootstrap: str, folder: Path, count: int, *, is_shared: bool) -> bool:
    """Start so many at once; False: they took longer than they may."""
    folder.mkdir(parents=True, exist_ok=True)
    crowd: list[Process] = []
    begun = time.monotonic()
    try:
        for number in range(count):
            name = f"p{number}"
            task = {"bootstrap": bootstrap, "client_id": "" if is_shared else name, "state_dir": str(folder / name)}
            crowd.append(Process("tests.chaos.storm", json.dumps(task), folder / f"{name}.log"))
        lines = [process.wait_ready().split() for process in crowd]
        took_s = time.monotonic() - begun
        for process in crowd:
            process.ask_to_stop()
        for process in crowd:
            process.wait_stopped()
    finally:
        for process in crowd:
            process.end_anyhow()
    refused, used_s = sum(int(line[1]) for line in lines), sum(float(line[2]) for line in lines)
    claims = "one shared subscription" if is_shared else "a client id and a durable subscription each"
    print(
        f"{count} processes with {claims}: all ready after {took_s:.1f} s, {refused} tries refused, "
        f"{used_s / count:.1f} s of a processor each",
        flush=True,
    )
    return took_s <= ALLOWED_S.get(count, took_s)


def main() -> int:
    """Measure each crowd as it comes for the first time, when it comes again, and on one subscription."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("counts", type=int, nargs="*", default=list(ALLOWED_S), help="processes of each crowd")
    parser.add_argument("--cluster", action="store_true", help="on three brokers")
    asked = parser.parse_args()
    kafka = three_brokers if asked.cluster else local_broker
    print(f"jbm_kafka is that of {jbm_kafka.__file__}")
    with tempfile.TemporaryDirectory() as made, kafka(Path(made) / "kafka") as broker:
        create_topic(broker.bootstrap, TOPIC, partitions=4, config={"retention.ms": "-1", "retention.bytes": "-1"})
        were_fast = [
            start(broker.bootstrap, Path(made) / f"{count}", count, is_shared=is_shared)
            for count in asked.counts
            for is_shared in (False, False, True)
        ]
    return 0 if all(were_fast) else 1


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("{"):
        claim(sys.argv[1])
    else:
        sys.exit(main())
