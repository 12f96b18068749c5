"""Bridges: each takes the messages of a queue or topic to another one, here or elsewhere."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from jbm_kafka.bridge.bridge_counts import BridgeStatistics
from jbm_kafka.bridge.bridge_spec import IN_FLIGHT, checked_bridge
from jbm_kafka.bridge.configured_bridges import arguments_of_bridge
from jbm_kafka.bridge.ends import BridgeEnd
from jbm_kafka.bridge.running_bridge import RunningBridge
from jbm_kafka.core.bridge_way import Guarantee
from jbm_kafka.core.jms_errors import IllegalStateError, InvalidSettingError, JMSError
from jbm_kafka.core.statistics import Health
from jbm_kafka.jms.base.arguments import checked_seconds, checked_timeout_s

if TYPE_CHECKING:
    from jbm_kafka.configuration.loaded import Loaded

DRAIN_S = 25.0
"""Below the 30 s after which Kubernetes kills."""
LOOK_S = 0.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Bridge:
    """Takes the messages of one queue or topic to another.

        bridge = Bridge("orders-in", BridgeEnd("localhost:9092", "orders"), BridgeEnd("other:9092", "orders"))
        bridge.run()

    Units stay units and in order, and a message keeps its id, its times, its priority, its properties and its body.

    Run: run, until SIGTERM or SIGINT; or start and stop. run_all has several in one process.
    What it is: name, guarantee. How it fares: health, trouble, stands_by; what it has counted: statistics.
    """

    def __init__(
        self,
        name: str,
        source: BridgeEnd,
        target: BridgeEnd,
        *,
        guarantee: Guarantee | str | None = None,
        selector: str | None = None,
        rate: str | None = None,
        reply_to: str | Mapping[str, str] = "keep",
        in_flight: int = IN_FLIGHT,
        lanes: int = 1,
        drain_s: float = DRAIN_S,
    ) -> None:
        """A bridge that does not run yet.

        Args:
            name: by which its progress is recorded; nobody else's in the target cluster.
            source: where messages come from.
            target: where they go.
            guarantee: "exactly-once", "duplicates-okay" or "at-most-once"; None: the strongest that there is.
            selector: which messages go, as "region = 'EU'"; the others stay.
            rate: how many may go in any such period, as "100/s".
            reply_to: "keep": answers go where the message says; "drop": nowhere; or a dict from where they go now to
                where they are to go, "" for nowhere. A temporary destination of another place is dropped.
            in_flight: how many messages it may have taken and not settled, over all units.
            lanes: how many sessions work side by side within one cluster, without a rate. One is as fast on a few
                processors; more go on beside one whose commit waits.
            drain_s: how long stopping waits for what is in hand.

        Raises:
            InvalidSettingError, InvalidSelectorError: what cannot be.
        """
        self._spec = checked_bridge(
            name,
            source,
            target,
            guarantee=guarantee,
            selector=selector,
            rate=rate,
            reply_to=reply_to,
            in_flight=in_flight,
            lanes=lanes,
        )
        self._drain_s = checked_seconds("drain_s", drain_s)
        self._running: RunningBridge | None = None
        self._asked_to_end: threading.Event | None = None
        """Ends the process that runs it; None: who called `start` has a program of his own."""
        self._lock = threading.Lock()

    @classmethod
    def from_config(cls, name: str, path: str | os.PathLike[str] | None = None) -> Self:
        """The bridge of this name in [bridges] of the configuration: docs/bridge.md.

        Args:
            path: the file; None: that of JBM_CONFIG, else ./jbm-kafka.toml, else ~/.config/jbm-kafka/config.toml.

        Raises:
            InvalidSettingError: there is none, or a value that cannot be; the text names its place.
        """
        from jbm_kafka.configuration.loaded import load  # Pydantic, a quarter of a second

        return cls._of_file(load(path), name, {})

    @classmethod
    def _of_file(cls, loaded: Loaded, name: str, overrides: Mapping[str, Any]) -> Self:
        """As `from_config`, with values over the file's cluster in use, by its keys."""
        arguments = arguments_of_bridge(loaded, name, overrides)
        try:
            return cls(**arguments)
        except JMSError as error:
            setting = str(error.values.get("setting", ""))
            origin = loaded.origin("bridges", name, setting) or f"{loaded.path}, bridges.{name}"
            raise InvalidSettingError(f"{origin}: {error}") from None

    @property
    def name(self) -> str:
        """The name by which its progress is recorded."""
        return self._spec.name

    @property
    def guarantee(self) -> Guarantee:
        """Return what holds of each message."""
        return self._spec.guarantee

    @property
    def stands_by(self) -> bool:
        """Another process runs it, as `trouble` says; this one goes on with it when that ends."""
        running = self._running
        return running is not None and running.stands_by

    def start(self) -> None:
        """Begin, on threads of its own; it returns at once, and where a side does not answer it is waited for.

        Raises:
            IllegalStateError: it runs already.
        """
        with self._lock:
            if self._running is not None:
                raise IllegalStateError(f"start(): bridge {self.name} runs; stop() it first")
            self._running = RunningBridge(self._spec, self._drain_asked)
            self._running.start()

    def stop(self) -> bool:
        """Take no more, finish with what is in hand, and disconnect. True: all was finished in time.

        What was not comes again from the source. Not running: nothing happens.
        """
        with self._lock:
            running, self._running = self._running, None
        return True if running is None else running.end(self._drain_s)

    def _ask_to_end(self) -> None:
        running = self._running
        if running is not None:
            running.ask_to_end(self._drain_s)

    def run(self) -> int:
        """Start, wait for SIGTERM, SIGINT or an operator (`jbm-kafka drain`), and stop: 0, or 1 when something was left
        in hand."""
        return run_all([self])

    def health(self, timeout: float | None = 5.0) -> Health:
        """How it fares. It is ready when both sides answer, and messages go on, here or by the process that runs it.

        Args:
            timeout: so many seconds each side has to answer; None: it is not asked.
        """
        running = self._running
        if running is None:
            return Health(False, False, (f"bridge {self.name} does not run",))
        return running.health(None if timeout is None else checked_timeout_s(timeout, "for 5"))

    def statistics(self) -> BridgeStatistics:
        """Return what it has counted since it was started; zeros while it does not run."""
        running = self._running
        return BridgeStatistics() if running is None else running.statistics()

    @property
    def trouble(self) -> str | None:
        """Why nothing goes on here now, as far as was seen; None: it does."""
        running = self._running
        return "it does not run" if running is None else running.trouble

    def _drain_asked(self) -> bool:
        asked = self._asked_to_end
        if asked is not None:
            asked.set()
        return asked is not None

    def __repr__(self) -> str:
        state = "stopped" if self._running is None else "running"
        return f"<Bridge {self.name} from {self._spec.source!r} to {self._spec.target!r} {state}>"


def run_all(bridges: Sequence[Bridge]) -> int:
    """Start them, wait for SIGTERM, SIGINT or an operator (`jbm-kafka drain`), and stop them: 0, or 1 when something
    was left in hand. A second signal ends the process at once.
    """
    asked = threading.Event()

    def signalled(number: int, frame: FrameType | None) -> None:
        asked.set()

    before = {number: signal.signal(number, signalled) for number in _SIGNALS}
    try:
        for bridge in bridges:
            bridge._asked_to_end = asked
            bridge.start()
        while not asked.wait(LOOK_S):
            pass  # another thread may take the signal, and this one sleeps on
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for bridge in bridges:  # all at once: a process has some 30 s to end
            bridge._ask_to_end()
        have_ended = [bridge.stop() for bridge in bridges]
        for bridge in bridges:
            bridge._asked_to_end = None
    return 0 if all(have_ended) else 1
