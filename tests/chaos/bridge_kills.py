"""Bridges under kills, within a cluster and to another, and from Artemis to Kafka and back: every party is killed
again and again.

`python -m tests.chaos.bridge_kills [clusters|artemis] [--messages N] [--seconds S] [--brokers 1|3] [--seed N]` sends N
numbered messages of 200 units while bridges run as processes of `jbm-kafka bridge`, two of each into Kafka from
elsewhere, and every two to five seconds one of the parties is killed and started again: a bridge, Artemis, and one of a
cluster's three brokers. A broker that is alone is left alone: killed between a commit and its marks it may never end
that transaction. Then it waits until all have arrived, and reads nothing but Kafka's topics and Artemis' queue: a
message that is not there, there twice, or behind a later one of its unit, is a fault, of which the first are printed,
and exit code 1.
"""

from __future__ import annotations

import argparse
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from jbm_kafka import ConnectionFactory, DeliveryMode, Queue
from jbm_kafka.amqp_client.amqp_records import AmqpRecord
from jbm_kafka.amqp_client.client_settings import ClientSettings
from jbm_kafka.amqp_client.transfer_connection import Sending, TransferConnection, TransferOutcome
from jbm_kafka.codec.amqp.decode_transfer import decode_transfer
from jbm_kafka.codec.amqp.encode_transfer import encode_transfer
from jbm_kafka.codec.headers import encode_headers
from jbm_kafka.codec.property_header import Property
from jbm_kafka.core.jms_errors import JMSError
from tests.support.artemis import ArtemisServer
from tests.support.broker import local_broker
from tests.support.cluster import Cluster, Node, three_brokers
from tests.support.topics import create_topic

UNITS = 200
IN, MID, OUT = "kept.in", "mid", "kept.out"
QUIET_S = 120.0
"""So long nothing new may arrive before the rest counts as lost."""
MOMENT_S = 3.0
_HEAD = """
cluster = "here"
[connection]
state_dir = "{folder}/state-{name}"
[clusters.here]
bootstrap = "{here}"
[clusters.there]
bootstrap = "{there}"
"""
CLUSTERS_FILE = """
[bridges.within]
source.destination = "kept.in"
target.destination = "mid"
[bridges.across]
source.destination = "mid"
target = {destination = "kept.out", cluster = "there"}
"""
ARTEMIS_FILE = """
[bridges.arriving]
source = {destination = "kept.in", cluster = "there"}
target.destination = "mid"
[bridges.leaving]
source.destination = "mid"
target = {destination = "kept.out", cluster = "there", duplicate_property = "_AMQ_DUPL_ID"}
"""


class Program:
    """A process that is killed, and started again."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._command, self._log = command, log
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Begin; it returns at once."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def kill(self) -> None:
        """SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


class Parties:
    """All that can be killed; each call kills one and starts it again."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._all: dict[str, dict[str, Callable[[], None]]] = {}
        """By their kinds, which the first words of their names are."""
        self.kills: dict[str, int] = {}

    def add(self, name: str, kill: Callable[[], None], start: Callable[[], None]) -> None:
        """One more."""

        def again() -> None:
            kill()
            start()

        self._all.setdefault(name.partition(" ")[0], {})[name] = again
        self.kills[name] = 0

    def kill_until(self, is_over: threading.Event, seconds: float) -> None:
        """Kill one, each kind as often, and wait for two to five seconds, until so much time has passed."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not is_over.wait(self._chance.uniform(2.0, 5.0)):
            kind = self._all[self._chance.choice(sorted(self._all))]
            name = self._chance.choice(sorted(kind))
            kind[name]()
            self.kills[name] += 1


class ArtemisSide:
    """Sends to Artemis as a program does that is told of each message: once more with its duplicate id, if need be."""

    def __init__(self, port: int) -> None:
        url = f"amqp://127.0.0.1:{port}"
        self._settings = ClientSettings(url, (("127.0.0.1", port),), "", "", "", None, False)

    def send_all(self, numbers: range, failed: threading.Event) -> None:
        """In rounds, one message of each unit; the next is begun when all of one are confirmed."""
        rounds = deque(list(numbers[at : at + UNITS]) for at in range(0, len(numbers), UNITS))
        while rounds and not failed.is_set():
            with suppress(JMSError), closing(TransferConnection(self._settings)) as connection:
                sending = connection.send_to(Queue(IN), IN)
                while rounds and not failed.is_set():
                    rounds[0] = _unconfirmed(sending, rounds[0])
                    if rounds[0]:
                        break
                    rounds.popleft()

    def read_all(self, address: str, quiet_s: float, count: int) -> list[int]:
        """What the queue holds, as `read_topic`. Artemis runs meanwhile."""
        found: list[int] = []
        with closing(TransferConnection(self._settings)) as connection:
            receiving = connection.receive_from(Queue(address), address, "", 1_000)
            while taken := receiving.take(1_000, quiet_s if len(found) < count else MOMENT_S):
                found += [int(decode_transfer(each.data, now_ms=0).value or b"") for each in taken]
                receiving.accept(taken)
        return found


def _unconfirmed(sending: Sending, numbers: Sequence[int]) -> list[int]:
    """Send them; which of them are to be sent again."""
    told: queue.Queue[tuple[int, TransferOutcome]] = queue.Queue()

    def tell(number: int, outcome: TransferOutcome, _: str) -> None:
        told.put((number, outcome))

    for number in numbers:
        sending.send(_encoded(number), partial(tell, number))
    found = dict(told.get(timeout=90.0) for _ in numbers)
    return [number for number in numbers if found[number] is not TransferOutcome.ACCEPTED]


def _encoded(number: int) -> bytes:
    properties = {"_AMQ_DUPL_ID": Property("string", f"sent-{number}")}
    headers = encode_headers(message_id=f"ID:{number}", properties=properties, body_kind=b"text")
    record = AmqpRecord(IN, None, f"u{number % UNITS}".encode(), b"%d" % number, headers, 0)
    return encode_transfer(record, b"text", Queue(IN), delivery_count=0, now_ms=int(time.time() * 1_000))


def read_topic(bootstrap: str, topic: str, quiet_s: float, count: int) -> list[int]:
    """What the topic holds of committed messages, by partition in order; it returns once so many are there, and a
    moment has brought no more, or when nothing has come for so long."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "checker", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "log_level": 0})
    found: list[int] = []
    try:
        partitions = consumer.list_topics(topic, timeout=60.0).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        last = time.monotonic()
        while time.monotonic() - last < (quiet_s if len(found) < count else MOMENT_S):
            taken = [each for each in consumer.consume(1_000, 0.5) if each.error() is None]
            found += [int(each.value() or b"") for each in taken]
            last = time.monotonic() if taken else last
    finally:
        consumer.close()
    return found


def faults(found: Sequence[int], count: int, where: str) -> list[str]:
    """What is lost, what is there twice, and what is behind a later one of its unit."""
    missing = sorted(set(range(count)) - set(found))
    twice = len(found) - len(set(found))
    latest: dict[int, int] = {}
    out_of_order: list[int] = []
    for number in found:
        if number < latest.get(number % UNITS, -1):
            out_of_order.append(number)
        latest[number % UNITS] = max(number, latest.get(number % UNITS, -1))
    print(f"{where}: {len(found)} messages, lost {len(missing)}, twice {twice}, out of order {len(out_of_order)}")
    told = [f"{where}: lost {missing[:5]}"] * bool(missing) + [f"{where}: {twice} are there twice"] * bool(twice)
    return told + [f"{where}: out of order {out_of_order[:5]}"] * bool(out_of_order)


@contextmanager
def _kafka(brokers: int, folder: Path, parties: Parties, name: str) -> Iterator[str]:
    if brokers == 1:
        with local_broker(folder) as broker:
            yield broker.bootstrap
        return
    with three_brokers(folder) as cluster:
        for node in cluster.nodes.values():
            parties.add(f"{name} {node.number}", partial(_kill_of_all, cluster, node), node.start)
        yield cluster.bootstrap


def _kill_of_all(cluster: Cluster, node: Node) -> None:
    """Two that are away stop all: on a busy machine nothing would be on its way at the next kill."""
    cluster.wait_whole()
    node.kill()


def _bridges(
    folder: Path, names: Sequence[str], text: str, here: str, there: str, stack: ExitStack, parties: Parties
) -> None:
    """Run a process for each of these bridges of the file, with a file and a state folder of its own."""
    for number, name in enumerate(names):
        me = f"{name}-{number}"
        file = folder / f"{me}.toml"
        file.write_text(_HEAD.format(folder=folder, name=me, here=here, there=there) + text, encoding="utf-8")
        file.chmod(0o600)
        command = [sys.executable, "-m", "jbm_kafka", "bridge", str(file), "--only", name]
        program = Program(command, folder / f"{me}.log")
        stack.callback(program.kill)
        parties.add(f"bridge {me}", program.kill, program.start)


def send_paced(bootstrap: str, count: int, seconds: float) -> None:
    """Every seventh is due at its share of the time, and what is behind it in its unit waits for it: so there is
    something to take as long as there are kills."""
    with ConnectionFactory(bootstrap).create_connection() as connection:
        producer = connection.create_session().create_producer(Queue(IN))
        for number in range(count):
            producer.send(
                str(number),
                unit_of_order=f"u{number % UNITS}",
                delivery_mode=DeliveryMode.NON_PERSISTENT,
                delivery_delay_ms=0 if number % 7 else int(seconds * 1_000 * number / count),
            )


def across_clusters(folder: Path, *, count: int, seconds: float, brokers: int, seed: int) -> list[str]:
    """From a queue to another of the same cluster, and from there to another cluster; what is wrong."""
    parties = Parties(seed)
    with ExitStack() as stack:
        here, there = (
            stack.enter_context(_kafka(brokers, folder / name, parties, name)) for name in ("source", "target")
        )
        for bootstrap, topics in ((here, (IN, MID)), (there, (OUT,))):
            for topic in topics:
                create_topic(bootstrap, topic, partitions=4, config={"retention.ms": "-1"})
        send_paced(here, count, seconds)
        _bridges(folder, ("within", "across", "across"), CLUSTERS_FILE, here, there, stack, parties)
        parties.kill_until(threading.Event(), seconds)
        print(f"killed: {parties.kills}", flush=True)
        over = time.monotonic()
        wrong = faults(read_topic(here, MID, QUIET_S, count), count, "within the cluster")
        wrong += faults(read_topic(there, OUT, QUIET_S, count), count, "the other cluster")
        print(f"all was read {time.monotonic() - over:.0f} s after the last kill", flush=True)
        return wrong


def over_artemis(folder: Path, *, count: int, seconds: float, brokers: int, seed: int) -> list[str]:
    """Artemis to Kafka, and from there back to Artemis; what is wrong."""
    parties, failed = Parties(seed), threading.Event()
    with ExitStack() as stack:
        server = ArtemisServer(folder / "artemis")
        stack.callback(server.kill)
        server.start()
        parties.add("Artemis", server.kill, server.start)
        bootstrap = stack.enter_context(_kafka(brokers, folder / "kafka", parties, "broker"))
        create_topic(bootstrap, MID, partitions=4)
        _bridges(folder, ("arriving", "arriving", "leaving"), ARTEMIS_FILE, bootstrap, server.url, stack, parties)
        side = ArtemisSide(server.port)
        sender = threading.Thread(target=side.send_all, args=(range(count), failed), daemon=True)
        sender.start()
        stack.callback(failed.set)
        parties.kill_until(failed, seconds)
        sender.join(300.0)
        print(f"killed: {parties.kills}; {count} sent: {not sender.is_alive()}", flush=True)
        wrong = faults(read_topic(bootstrap, MID, QUIET_S, count), count, "Kafka")
        return wrong + faults(side.read_all(OUT, QUIET_S, count), count, "Artemis")


HALVES = {"clusters": across_clusters, "artemis": over_artemis}


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("half", nargs="?", choices=HALVES)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=3)
    parser.add_argument("--seed", type=int, default=random.randrange(10_000))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    found = [_played(HALVES[half], given) for half in ([given.half] if given.half else HALVES)]
    return 1 if any(found) else 0


def _played(half: Callable[..., list[str]], given: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="jbm-bridge-kills-", ignore_cleanup_errors=True) as folder:
        wrong = half(Path(folder), count=given.messages, seconds=given.seconds, brokers=given.brokers, seed=given.seed)
        for line in wrong:
            print(line)
        for log in sorted(Path(folder).glob("*.log")) if wrong else ():
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-4_000:]}")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
