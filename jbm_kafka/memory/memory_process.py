"""The process that clients of the in-memory Kafka live in: it can crash, or be stopped and go on."""

from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_groups import Member


class ProcessCrashed(BaseException):
    """Raised in whatever still calls a client of a crashed process, so that its code ends as if it had died.

    Not an Exception: code under test that catches those must not go on living.
    """


class Process:
    """The state that clients of one process share."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self.cluster = cluster
        self.members: list[Member] = []
        self.has_crashed = False
        self.is_frozen = False

    def check(self) -> None:
        """Every client calls this first, and whenever it comes back to life."""
        if self.has_crashed:
            raise ProcessCrashed

    def crash(self) -> None:
        """End without a word: sessions and transactions stay until their timeouts."""
        with self.cluster.changed:
            self.has_crashed = True
            self._fall_silent()
            self.cluster.changed.notify_all()

    def freeze(self) -> None:
        """Stop as under SIGSTOP. The caller must make no calls until `thaw`; only the brokers' clocks run."""
        with self.cluster.changed:
            self.is_frozen = True
            self._fall_silent()

    def thaw(self) -> None:
        with self.cluster.changed:
            self.is_frozen = False
            for member in self.members:
                member.silent_since_ms = None

    def _fall_silent(self) -> None:
        for member in self.members:
            if member.silent_since_ms is None:
                member.silent_since_ms = self.cluster.clock.monotonic_ms()
