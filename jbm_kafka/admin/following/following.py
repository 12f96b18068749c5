"""A thread that follows a namespace, for a process that is asked for the latest at any time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.admin.following.backlog_follower import BacklogFollower
from jbm_kafka.core.channel.backlog import Backlogs
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.core.failure_text import one_line_of
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.statistics import Health

log = logging.getLogger(__name__)

LOOKED_AT_S, IDLE_S = 5.0, 30.0
"""From one step to the next, while somebody asks, and while nobody does."""
REMEMBERED_S = 60.0
"""For so long after a question somebody asks."""
NOT_YET = "nothing was looked at yet"
OLD_S = 120.0
"""A process whose latest step was so long ago is not ready."""


class Following(ClosedAtEnd):
    """Steps until it is closed; a context manager. Any thread may ask."""

    def __init__(
        self,
        bootstrap: str,
        kafka: Mapping[str, object] | None,
        namespace: str,
        timeout_s: float,
        *,
        on_step: Callable[[Backlogs], object] = lambda found: None,
    ) -> None:
        """`on_step` gets what each step finds, on the thread of this, before anybody else.

        Raises:
            InvalidSettingError: the arguments, which are those of `Admin`, are wrong.
        """
        self._on_step = on_step
        self._core = AdminCore(bootstrap, kafka, namespace, timeout_s)
        self._follower = BacklogFollower(self._core)
        self._lock = threading.Lock()
        self._latest: Backlogs | None = None
        self._trouble = NOT_YET
        self._stepped_at = self._asked_at = time.monotonic()
        self._wake = threading.Event()
        self._is_ended = False
        self._thread = threading.Thread(target=self._run, name="jbm-following", daemon=True)
        self._thread.start()

    def latest(self) -> Backlogs | None:
        """Return what was found last; it never waits. None: nothing yet. While somebody asks, it is some seconds
        old."""
        with self._lock:
            was_idle = time.monotonic() - self._asked_at > REMEMBERED_S
            self._asked_at = time.monotonic()
            if was_idle:
                self._wake.set()
            return self._latest

    def look_now(self) -> None:
        """Step as soon as it can, as after something was changed."""
        self._wake.set()

    @property
    def trouble(self) -> str:
        """Why the latest step told nothing; empty: it did, or the first has not ended."""
        with self._lock:
            return "" if self._trouble == NOT_YET else self._trouble

    def health(self, timeout: float | None, /) -> Health:
        """Alive while its thread is; ready when its latest step succeeded not long ago. It waits for nobody."""
        with self._lock:
            is_old = time.monotonic() - self._stepped_at > OLD_S
            reasons = [self._trouble] if self._trouble else []
            if is_old and not reasons:
                reasons = [f"the latest look is older than {OLD_S:g} s"]
        is_alive = self._thread.is_alive()
        return Health(is_alive, is_alive and not reasons, tuple(reasons))

    def close(self) -> None:
        """Follow no more. A second call does nothing."""
        self._is_ended = True
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_ended:
                self._step()
                self._wake.wait(self._pause_s())
                self._wake.clear()
        finally:
            self._follower.close()
            self._core.close()

    def _pause_s(self) -> float:
        with self._lock:
            return LOOKED_AT_S if time.monotonic() - self._asked_at <= REMEMBERED_S else IDLE_S

    def _step(self) -> None:
        try:
            found = self._follower.step()
            self._on_step(found)
        except Exception as error:
            is_ours = not isinstance(error, JMSError)  # without its thread nobody would hear that what is told is old
            trouble = f"a bug: {one_line_of(repr(error))}" if is_ours else str(error)
            if trouble != self._trouble:
                log.warning("%s; what is told is that of before", trouble, exc_info=error if is_ours else None)
            with self._lock:
                self._trouble = trouble
            return
        with self._lock:
            self._latest, self._trouble, self._stepped_at = found, "", time.monotonic()
