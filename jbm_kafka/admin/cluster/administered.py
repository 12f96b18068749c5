"""The cluster that is administered: Kafka's, or a world in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jbm_kafka.core.bootstrap import checked_bootstrap
from jbm_kafka.ports import Kafka
from jbm_kafka.ports.clock import Clock, SystemClock
from jbm_kafka.ports.installation import Installation, SidecarConfig

IN_MEMORY = "memory://"


@dataclass(frozen=True, slots=True)
class Administered:
    """The installation as administration needs it."""

    kafka: Kafka
    clock: Clock
    """The clock by which delays and expiry are judged there."""
    let_go: Callable[[], None]
    """To be called once, at the end."""
    settle: Callable[[], None]
    """To be called before each look: in memory it waits for what was begun before, on a cluster for nothing."""
    heard: Callable[[float], object] | None = None
    """Waits until every process goes by what was recorded before, so many seconds at most. None: on a cluster nobody
    knows when that is, and the seconds have to go by."""


def administered(
    url: str, client_settings: Mapping[str, object] | None, timeout_s: float, *, namespace: str = ""
) -> Administered:
    """The cluster at `url`: `host:port`, several with commas, or `memory://NAME`, which is used until it is let go.

    Raises:
        InvalidSettingError: it cannot be, or a setting cannot.
    """
    if isinstance(url, str) and url.startswith(IN_MEMORY):
        return _in_memory(url.removeprefix(IN_MEMORY), client_settings or {}, timeout_s)
    bootstrap = checked_bootstrap("bootstrap", url)
    from jbm_kafka.kafka import ConfluentKafka  # its client takes longer to load than a test in memory takes

    kafka = ConfluentKafka(bootstrap, client_settings, namespace=namespace, admin_timeout_s=timeout_s)
    return Administered(kafka, SystemClock(), lambda: None, lambda: None)


def _in_memory(name: str, client_settings: Mapping[str, object], timeout_s: float) -> Administered:
    from jbm_kafka.memory.memory_kafka import MemoryKafka
    from jbm_kafka.providers import in_memory

    in_memory.check(Installation(name, client_settings, None, SidecarConfig()))
    world = in_memory.use_world(name)
    kafka = MemoryKafka(world.cluster, admin_timeout_s=timeout_s)
    return Administered(kafka, world.clock, world.let_go, world.settle, world.wait_heard)
