"""A second broker in the cluster of a local one: what only it holds has no leader while it is down."""

import re
import signal
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.cimpl import NewTopic

from jbm_kafka.devbroker import LocalBroker, ports, process
from jbm_kafka.devbroker.broker_jars import ensure_jars, resource_text
from jbm_kafka.devbroker.file_lock import FileLock, is_locked
from jbm_kafka.devbroker.java import find_java
from tests.support.topics import ADMIN_TIMEOUT_S, admin_client
from tests.support.waiting import wait_until

FIRST, SECOND = 1, 2
"""Their node numbers."""
UP_S = 60.0


class SecondBroker:
    """Any number of times up and down, on the same data."""

    def __init__(self, first: LocalBroker, folder: Path, *, voters: str | None = None) -> None:
        """`voters`: where it finds the controller, if not where the first one says."""
        self._first = first
        self._voters = voters
        self._folder = folder
        self._pid = 0
        folder.mkdir()
        self._write_settings()

    def start(self) -> None:
        """Return when clients are told of it."""
        lock = FileLock(self._folder / "broker.lock")
        assert lock.try_acquire()
        options = ["-Xmx256m", *process.BRIEF]
        self._pid = process.spawn(self._folder, java=find_java(), jars=ensure_jars(), options=options, lock_fd=lock.fd)
        lock.close()
        self._wait(lambda: SECOND in admin_client(self._first.bootstrap).list_topics(timeout=ADMIN_TIMEOUT_S).brokers)

    def stop(self) -> None:
        """In order: its partitions have no leader from then on."""
        process.send_signal(self._pid, signal.SIGTERM)
        self._wait(lambda: not self.is_running)

    @property
    def address(self) -> str:
        """`host:port` of its clients."""
        return self._address

    @property
    def is_running(self) -> bool:
        """Its process lives."""
        return is_locked(self._folder / "broker.lock")

    def create_topic(self, name: str, places: list[int]) -> None:
        """One partition for each place: the broker that has it."""
        admin = admin_client(self._first.bootstrap)
        config = {"retention.ms": "-1"}
        topic = NewTopic(
            name, num_partitions=len(places), replica_assignment=[[place] for place in places], config=config
        )
        for future in admin.create_topics([topic], operation_timeout=ADMIN_TIMEOUT_S).values():
            future.result(ADMIN_TIMEOUT_S)
        for partition in range(len(places)):
            self.wait_leader(name, partition, is_there=True)

    def wait_leader(self, topic: str, partition: int, *, is_there: bool) -> None:
        """Return when brokers say so."""

        def holds() -> bool:
            found = admin_client(self._first.bootstrap).list_topics(topic, timeout=ADMIN_TIMEOUT_S).topics[topic]
            return partition in found.partitions and (found.partitions[partition].leader >= 0) is is_there

        self._wait(holds)

    def _wait(self, holds: Callable[[], bool]) -> None:
        wait_until(holds, about=process.log_tail(self._folder), timeout_s=UP_S)

    def _write_settings(self) -> None:
        """As the first one's, which has the only controller."""
        of_first = dict(
            line.split("=", 1)
            for line in (self._first.data_dir / "server.properties").read_text(encoding="utf-8").splitlines()
            if "=" in line and not line.startswith("#")
        )
        self._address = f"127.0.0.1:{ports.free_port()}"
        address = f"PLAINTEXT://{self._address}"
        data = self._folder / "data"
        own = {
            **of_first,
            "process.roles": "broker",
            "node.id": str(SECOND),
            "controller.quorum.voters": self._voters or of_first["controller.quorum.voters"],
            "listeners": address,
            "advertised.listeners": address,
            "log.dirs": str(data),
        }
        lines = "".join(f"{name}={value}\n" for name, value in own.items())
        (self._folder / "server.properties").write_text(lines, encoding="utf-8")
        (self._folder / "log4j2.properties").write_text(resource_text("log4j2.properties"), encoding="utf-8")
        data.mkdir()
        meta = (self._first.data_dir / "data" / "meta.properties").read_text(encoding="utf-8")
        meta = re.sub(r"(?m)^directory\.id=.*\n", "", meta).replace("node.id=1", f"node.id={SECOND}")
        (data / "meta.properties").write_text(meta, encoding="utf-8")
