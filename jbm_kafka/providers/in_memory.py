"""The provider of `memory://NAME`: the same sidecar over a Kafka in memory, for tests of applications.

A name is a world of its own, in this process only: topics, groups, messages. It is made by its first user, a connection
or whoever else holds it, and is gone with its last. Nothing is written to a disk, and no broker is asked.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from jbm_kafka.core.destination import Destination, Queue, with_namespace
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError, JMSError
from jbm_kafka.core.selectors.selector import Selector
from jbm_kafka.core.subscription import Source
from jbm_kafka.core.wrong_values import shown_name, wrong_value
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.memory.memory_held import MemoryHeldStore
from jbm_kafka.memory.memory_journal import MemoryJournal
from jbm_kafka.memory.memory_kafka import MemoryKafka
from jbm_kafka.ports import KafkaClientError, Outgoing, SendReport
from jbm_kafka.ports.clock import Clock, SystemClock
from jbm_kafka.ports.installation import Installation
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.provider import Seen, TopicInfo
from jbm_kafka.ports.unit_of_work import UnitOfWork
from jbm_kafka.providers.shared_sidecars import RunningSidecar, SharedSidecars
from jbm_kafka.providers.sidecar_provider import SidecarProvider
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.runtime import Stores
from jbm_kafka.sidecar.sidecar import Sidecar

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CHECKPOINT_INTERVAL_MS = 2
"""Where the factory says nothing: a checkpoint costs next to nothing here, and tests wait for its effects."""
LINGER_MS = 100
"""How long membership outlives the last receiver: joining is quick here."""
COMMAND_LOOK_MS = 60
"""A look costs next to nothing here."""
SETTLE_S = 0.5
"""How long a look waits for what was begun before it. In a world where nobody goes on it is some milliseconds."""
HEAR_S = 0.005
"""Until it is asked again whether somebody has looked at a topic that grew."""


def check(installation: Installation) -> None:
    """Raises InvalidSettingError for settings that mean nothing here: what is given holds, or is refused.

    `state_dir` holds: it tells sidecars apart, and what is in a state folder may be missing at any time.
    """
    name, given = installation.bootstrap, installation.client_settings
    _check_name(name)
    if given:
        raise InvalidSettingError(
            f"kafka={{{', '.join(f'{key!r}: …' for key in given)}}} is for a Kafka client, and "
            f"memory://{name} has none: leave it out, for instance by taking it from where the url comes from",
            setting="kafka",
            url=f"memory://{name}",
        )


def connect(installation: Installation) -> SidecarProvider:
    """A connection's provider; the first user of the name makes its world.

    Raises:
        InvalidSettingError: a connection that this one would share the sidecar of was made with other settings.
    """
    world = use_world(installation.bootstrap)
    try:
        running = world.sidecars.acquire(installation)
    except BaseException:
        world.let_go()
        raise

    def let_go(patience: Patience) -> None:
        try:
            world.sidecars.release(running, patience)
        finally:
            world.let_go()

    return WorldProvider(world, installation, running, let_go)


class WorldProvider(SidecarProvider):
    """A connection's way to its world: whoever looks at what a queue holds looks when what was begun before has ended.

    On a cluster nobody can wait for that, for others go on; here a test has said all that there is.
    """

    def __init__(
        self, world: World, installation: Installation, running: RunningSidecar, let_go: Callable[[Patience], None]
    ) -> None:
        super().__init__(installation, running, compresses=False, let_go=let_go)
        self._world = world

    def ensure(self, destination: Destination) -> TopicInfo:
        self._world.check_there()
        return super().ensure(destination)

    def attach(self, source: Source, link: Link) -> GroupWorker:
        self._world.check_there()
        return super().attach(source, link)

    def submit(self, work: UnitOfWork) -> None:
        self._world.check_there()
        super().submit(work)

    def send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> None:
        if self._world.is_over:
            raise _WorldOver(self._world.name)  # as `send` of a port may: the session counts the send as not made
        super().send(record, report, is_waited_for=is_waited_for)

    def try_send(self, record: Outgoing, report: SendReport | None, *, is_waited_for: bool) -> bool:
        if self._world.is_over:
            raise _WorldOver(self._world.name)
        return super().try_send(record, report, is_waited_for=is_waited_for)

    def send_error(self, error: KafkaClientError, destination: Destination) -> JMSError:
        return _over(str(error)) if isinstance(error, _WorldOver) else super().send_error(error, destination)

    def end_positions(self, source: Source, timeout_s: float) -> Mapping[int, int]:
        """Return what the end is when nothing is on its way: a dead letter that was leaving its queue is in its own."""
        self._world.wait_idle(min(SETTLE_S, timeout_s / 2))
        return super().end_positions(source, timeout_s)

    def browse(self, queue: Queue, *, include: str, selector: Selector | None) -> Iterator[Seen]:
        """As of SidecarProvider, once nothing is on its way."""
        self._world.check_there()
        self._world.settle()
        return super().browse(queue, include=include, selector=selector)


class World:
    """The world that one name stands for. Any thread."""

    def __init__(self, name: str, clock: Clock) -> None:
        self.name = name
        self.clock = clock
        self.cluster = MemoryCluster(clock)
        self.sidecars = SharedSidecars(self._begin)
        self.users = 0
        self.is_over = False
        """It was ended while it had users, maybe."""

    def check_there(self) -> None:
        """Raises IllegalStateError when it was ended."""
        if self.is_over:
            raise _over(self.name)

    def let_go(self) -> None:
        """One user less; with the last the world is gone."""
        with _lock:
            self.users -= 1
            if not self.users:
                self._forget()

    def wait_idle(self, timeout_s: float) -> bool:
        """True once all that was said before is carried out and recorded, and what must leave a queue has left it."""
        running = self.sidecars.all()
        for each in running:
            assert isinstance(each.kafka, MemoryKafka), each.kafka
            each.kafka.deliver()
        ends_at_s = time.monotonic() + timeout_s
        return all(each.sidecar.sources.wait_idle(max(0.0, ends_at_s - time.monotonic())) for each in running)

    def settle(self) -> None:
        """Return when nothing is on its way; not for ever, for somebody may go on sending."""
        self.wait_idle(SETTLE_S)

    def wait_heard(self, timeout_s: float) -> bool:
        """True once everybody goes by what was recorded before: by pauses, settings, and where units are.

        By themselves they look every second; a test would wait for that, and there is nobody else to wait for.
        """
        ends_at_s = time.monotonic() + timeout_s
        while False in [each.sidecar.destinations.hear() for each in self.sidecars.all()]:
            if time.monotonic() >= ends_at_s:
                return False
            time.sleep(HEAR_S)
        return self.wait_idle(min(SETTLE_S, timeout_s))

    def end(self) -> None:
        """Gone now, whoever uses it: connections that are open say so, and the name is taken only for a world anew."""
        with _lock:
            self.is_over = True
            if _worlds.get(self.name) is self:
                _over_names.add(self.name)
            self._forget()
        for running in self.sidecars.all():
            running.sidecar.close()

    def _forget(self) -> None:
        if _worlds.get(self.name) is self:
            del _worlds[self.name]

    def _begin(self, installation: Installation) -> RunningSidecar:
        config = replace(installation.config, linger_ms=LINGER_MS, is_in_memory=True, command_look_ms=COMMAND_LOOK_MS)
        if "checkpoint_interval_ms" not in installation.given:
            config = replace(config, checkpoint_interval_ms=CHECKPOINT_INTERVAL_MS)
        kafka = MemoryKafka(self.cluster)
        stores = Stores(
            MemoryJournal(clock=self.clock),
            MemoryHeldStore(),
            with_namespace(f"jbm.{secrets.token_hex(8)}.0", config.namespace),
            lambda: None,
            has_past=False,
        )
        sidecar = Sidecar(kafka=kafka, clock=self.clock, config=config, stores=stores)
        return RunningSidecar(replace(installation, config=config), kafka, self.clock, sidecar)


_worlds: dict[str, World] = {}
_over_names: set[str] = set()
"""Names of worlds that their owner ended, until he makes them anew: an old user of the name would begin another one."""
_lock = threading.Lock()


def use_world(name: str, *, clock: Clock | None = None) -> World:
    """The name's world, made if it is not there; the user must `let_go` of it.

    Raises:
        InvalidSettingError: the name cannot be one, or a clock is given, and the world is there with another.
        IllegalStateError: no clock is given, and the world of this name was ended by its owner.
    """
    _check_name(name)
    with _lock:
        if clock is not None:
            _over_names.discard(name)
        elif name in _over_names:
            raise _over(name)
        world = _worlds.get(name)
        if world is None:
            world = _worlds[name] = World(name, clock or SystemClock())
        elif clock is not None and clock is not world.clock:
            raise InvalidSettingError(f"memory://{name} is in use, with another clock: choose another name", name=name)
        world.users += 1
        return world


class _WorldOver(KafkaClientError):
    """Nothing was sent: the world, which is named, was ended."""


def _over(name: str) -> IllegalStateError:
    return IllegalStateError(f"the memory world memory://{name} is closed; make a new MemoryWorld", name=name)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise wrong_value(
            "url", f"memory://{shown_name(name)}", "write memory://NAME, a name of letters, digits and . _ -"
        )


def worlds() -> frozenset[str]:
    """The names in use."""
    return frozenset(_worlds)


def _after_fork() -> None:
    global _lock  # noqa: PLW0603 - another thread may have held it
    _worlds.clear()
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
