"""Three brokers as one cluster on this machine: each topic has three replicas, and a write needs two of them.

Each node is a broker and a controller with a data folder of its own, and may be killed, frozen and started again.
"""

import re
import shutil
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from jbm_kafka.devbroker import ports, process
from jbm_kafka.devbroker.broker_jars import ensure_jars
from jbm_kafka.devbroker.file_lock import FileLock, is_locked
from jbm_kafka.devbroker.java import find_java
from tests.support.kafka_tool import run_tool
from tests.support.namespaces import Namespace, namespaces
from tests.support.relay import Relay
from tests.support.secured import Certificates, SecuredBroker, make_certificates, secured_properties, with_users
from tests.support.topics import ADMIN_TIMEOUT_S, admin_client
from tests.support.waiting import wait_until

NODES = (1, 2, 3)
UP_S = 120.0
DOWN_S = 60.0
ANSWER_S = 5.0
"""A broker that was killed a moment ago may be the one that is asked."""
HEAP = "-Xmx400m"
REPLICATED = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
}


class Node:
    """One broker of the cluster. Its addresses and its data stay the same however often it is started."""

    def __init__(self, number: int, folder: Path, address: str, start: Callable[[FileLock], int]) -> None:
        """`start` begins its process, which takes the lock, and returns the process id."""
        self.number = number
        self.folder = folder
        self.address = address
        self._start = start
        self._pid = 0

    @property
    def is_running(self) -> bool:
        """Its process lives, even if frozen."""
        return is_locked(self.folder / "broker.lock")

    def start(self) -> None:
        """Begin its process; it may take a while until it serves anybody."""
        lock = FileLock(self.folder / "broker.lock")
        assert lock.try_acquire(), f"node {self.number} runs already"
        self._pid = self._start(lock)
        lock.close()

    def stop(self) -> None:
        """End it in order, as a rolling restart does: it hands its leaderships over first."""
        process.send_signal(self._pid, signal.SIGTERM)
        process.send_signal(self._pid, signal.SIGCONT)
        self._wait_gone()

    def kill(self) -> None:
        """End it as a crash does."""
        process.send_signal(self._pid, signal.SIGKILL)
        self._wait_gone()

    def end(self) -> None:
        """Leave no process behind."""
        if self.is_running:
            self.kill()

    def pause(self) -> None:
        """Freeze it: its connections stay open and nothing answers."""
        process.send_signal(self._pid, signal.SIGSTOP)
        wait_until(lambda: process.stands_still(self._pid), about=f"node {self.number} to stand still", timeout_s=10.0)

    def resume(self) -> None:
        """Let a frozen one go on."""
        process.send_signal(self._pid, signal.SIGCONT)

    def wipe(self) -> None:
        """Empty the disk of one that does not run, but for what says which node of which cluster it is."""
        assert not self.is_running
        data = self.folder / "data"
        for each in data.iterdir():
            if each.name == "meta.properties":
                continue
            if each.is_dir():
                shutil.rmtree(each)
            else:
                each.unlink()

    def _wait_gone(self) -> None:
        wait_until(lambda: not self.is_running, about=f"the end of node {self.number}", timeout_s=DOWN_S)


class Cluster:
    """Three nodes, and who of them has which part."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = {node.number: node for node in nodes}

    @property
    def bootstrap(self) -> str:
        """All addresses of the listener without security, with commas between."""
        return ",".join(node.address for node in self.nodes.values())

    def admin(self) -> AdminClient:
        """A client of the listener without security."""
        return admin_client(self.bootstrap)

    def wait_whole(self) -> None:
        """Return when every node that runs is known to the cluster, and each replica of theirs is in sync."""
        wait_until(self._is_whole, about=lambda: f"the cluster to be whole: {self._tails()}", timeout_s=UP_S)

    def wait_led(self, *, besides: Node | None = None) -> None:
        """Return when each partition has a leader that runs, and is another than `besides`."""
        wait_until(
            lambda: not self._unled(besides),
            about=lambda: f"leaders of {self._unled(besides)}: {self._tails()}",
            timeout_s=UP_S,
        )

    def leader(self, topic: str, partition: int = 0) -> Node:
        """The node that leads the partition."""
        found = self.admin().list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic].partitions[partition]
        return self.nodes[found.leader]

    def group_coordinator(self, group: str) -> Node:
        """The node that the group's members talk to."""
        admin = self.admin()  # named, because its futures never end when nobody holds the client
        future = admin.describe_consumer_groups([group], request_timeout=ADMIN_TIMEOUT_S)[group]
        return self.nodes[future.result(ADMIN_TIMEOUT_S).coordinator.id]

    def transaction_coordinator(self, transactional_id: str) -> Node:
        """The node that keeps the producer's transactions."""
        said = run_tool("TransactionsCommand", self.bootstrap, "describe", "--transactional-id", transactional_id)
        return self.nodes[int(said.splitlines()[1].split()[0])]

    def transactional_ids(self) -> list[str]:
        """Of all producers with transactions, in their order."""
        said = run_tool("TransactionsCommand", self.bootstrap, "list")
        return sorted(line.split()[0] for line in said.splitlines()[1:] if line.strip())

    def controller(self) -> Node:
        """The node that leads the controllers."""
        said = run_tool("MetadataQuorumCommand", self.bootstrap, "describe", "--status")
        found = re.search(r"LeaderId:\s+(\d+)", said)
        assert found, said
        return self.nodes[int(found.group(1))]

    def _unled(self, besides: Node | None) -> list[str]:
        """The partitions that have no leader that runs and is another than `besides`, with their replicas in sync."""
        able = {number for number, node in self.nodes.items() if node.is_running and node is not besides}
        admin = admin_client(",".join(self.nodes[number].address for number in able))
        try:
            listed = admin.list_topics(timeout=ANSWER_S)
        except KafkaException as error:
            return [str(error)]
        return [
            f"{name}[{place.id}] of {place.leader}, in sync {place.isrs}"
            for name, topic in listed.topics.items()
            for place in topic.partitions.values()
            if place.leader not in able
        ]

    def _is_whole(self) -> bool:
        running = {number for number, node in self.nodes.items() if node.is_running}
        try:
            listed = self.admin().list_topics(timeout=ANSWER_S)
        except KafkaException:
            return False
        if set(listed.brokers) != running:
            return False
        places = [place for topic in listed.topics.values() for place in topic.partitions.values()]
        return all(place.leader in running and running & set(place.replicas) <= set(place.isrs) for place in places)

    def _tails(self) -> str:
        return "\n".join(f"node {node.number}:\n{process.log_tail(node.folder)}" for node in self.nodes.values())


@contextmanager
def three_brokers(folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[Cluster]:
    """They run while the block does. `properties` are brokers' settings, over common.properties and REPLICATED."""
    with _cluster(folder, lambda _: dict(properties or {})) as cluster:
        yield cluster


@contextmanager
def three_secured_brokers(folder: Path) -> Iterator[tuple[Cluster, SecuredBroker]]:
    """The same with TLS, users and access rules; the second names all nodes' addresses."""
    certificates = make_certificates(folder / "certificates")
    taken = {number: tuple(f"127.0.0.1:{ports.free_port()}" for _ in range(2)) for number in NODES}

    def properties(number: int) -> dict[str, str]:
        sasl, tls = taken[number]
        return secured_properties(certificates, sasl=sasl, tls=tls)

    with _cluster(folder, properties) as cluster:
        yield cluster, with_users(_secured(cluster, taken, certificates))


@contextmanager
def three_relayed_brokers(folder: Path) -> Iterator[tuple[Cluster, Relay]]:
    """The same with a second listener that clients reach over a relay."""
    taken = {number: (ports.free_port(), ports.free_port()) for number in NODES}

    def properties(number: int) -> dict[str, str]:
        own, relayed = taken[number]
        return {
            "listeners": f"FAR://127.0.0.1:{own}",
            "advertised.listeners": f"FAR://127.0.0.1:{relayed}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,FAR:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    relay = Relay({relayed: own for own, relayed in taken.values()})
    relay.start()
    try:
        with _cluster(folder, properties) as cluster:
            yield cluster, relay
    finally:
        relay.stop()


@contextmanager
def three_brokers_apart(folder: Path) -> Iterator[tuple[Cluster, Mapping[int, Namespace]]]:
    """The same, each in a network namespace of its own, by the node's number."""
    with namespaces(NODES) as places, _cluster(folder, lambda _: {}, places) as cluster:
        yield cluster, places


def _secured(cluster: Cluster, taken: Mapping[int, tuple[str, ...]], certificates: Certificates) -> SecuredBroker:
    sasl, tls = (",".join(addresses) for addresses in zip(*taken.values(), strict=True))
    return SecuredBroker(cluster.bootstrap, sasl, tls, certificates, process.log_file(cluster.nodes[NODES[0]].folder))


@contextmanager
def _cluster(
    folder: Path, properties: Callable[[int], Mapping[str, str]], places: Mapping[int, Namespace] | None = None
) -> Iterator[Cluster]:
    java, jars, cluster_id = find_java(), ensure_jars(), process.new_cluster_id()
    controllers = {number: ports.free_port() for number in NODES}
    hosts = {number: places[number].address if places else "127.0.0.1" for number in NODES}
    voters = ",".join(f"{number}@{hosts[number]}:{port}" for number, port in controllers.items())
    nodes = []
    for number in NODES:
        home, port = folder / f"node-{number}", ports.free_port()
        home.mkdir(parents=True)
        own = {**REPLICATED, **properties(number), "node.id": str(number), "controller.quorum.voters": voters}
        ours = controllers[number]
        process.write_settings(home, port=port, controller_port=ours, properties=own, host=hosts[number])
        process.format_data(home, java=java, jars=jars, cluster_id=cluster_id)

        def start(
            lock: FileLock, home: Path = home, java: str = _java_at(home, java, places[number] if places else None)
        ) -> int:
            options = [HEAP, *process.BRIEF]
            return process.spawn(home, java=java, jars=jars, options=options, lock_fd=lock.fd)

        nodes.append(Node(number, home, f"{hosts[number]}:{port}", start))
    cluster = Cluster(nodes)
    with ExitStack() as stack:
        for node in nodes:
            stack.callback(node.end)
            node.start()
        cluster.wait_whole()
        yield cluster


def _java_at(home: Path, java: str, place: Namespace | None) -> str:
    """A command that is Java in that place."""
    if place is None:
        return java
    command = home / "java"
    command.write_text(f'#!/bin/sh\nexec {" ".join(place.entered)} {java} "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    return str(command)
