"""One console: the cluster that it looks at and what it remembers of it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import HTTPConnection

from jbm_kafka.admin import Admin
from jbm_kafka.admin.following.following import Following
from jbm_kafka.console.frame.console_settings import ConsoleSettings
from jbm_kafka.console.frame.history import History
from jbm_kafka.console.frame.letter_counts import LetterCounts
from jbm_kafka.console.frame.long_looks import LongLooks
from jbm_kafka.console.frame.registry_schemas import RegistrySchemas
from jbm_kafka.console.frame.runs import ActionRuns
from jbm_kafka.console.frame.viewer import Viewer
from jbm_kafka.core.channel.backlog import Backlogs
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.core.settings.addresses import destination_at
from jbm_kafka.ports.clock import Clock

log = logging.getLogger(__name__)

T = TypeVar("T")

TIMEOUT_S = 10.0
"""For one answer of the cluster."""


@dataclass(frozen=True, slots=True)
class LookedAtCluster:
    """Which cluster and namespace, as `Admin` takes them."""

    bootstrap: str
    kafka: Mapping[str, object] | None = field(default=None, repr=False)
    namespace: str = ""


class Console:
    """The cluster is asked only from the first look on. Any thread."""

    def __init__(self, cluster: LookedAtCluster, settings: ConsoleSettings) -> None:
        """
        Raises:
            InvalidSettingError: the cluster, or the schema registry, is named wrongly.
        """
        self.cluster = cluster
        self.settings = settings
        self.history = History()
        self._lock = threading.Lock()
        self._following: Following | None = None
        self.admin = Admin(cluster.bootstrap, kafka=cluster.kafka, namespace=cluster.namespace, timeout_s=TIMEOUT_S)
        self.runs = ActionRuns(self.admin, self.changed)
        self.looks = LongLooks()
        self._made_lock = threading.Lock()
        self._made: dict[Callable[..., Any], tuple[Backlogs | None, Any]] = {}
        login = settings.schema_registry_user, settings.schema_registry_password
        self.schemas = RegistrySchemas(settings.schema_registry, *login) if settings.schema_registry else None
        """The schemas of the schema registry; None: there is none."""
        self._clock: Clock = self.admin._core.cluster.clock
        self._letter_queues: frozenset[str] = frozenset()
        self.letters = LetterCounts(self.admin)

    @property
    def following(self) -> Following:
        """Follows what is held, from the first time on that anybody asks."""
        with self._lock:
            if self._following is None:
                at = self.cluster
                self._following = Following(at.bootstrap, at.kafka, at.namespace, TIMEOUT_S, on_step=self._stepped)
            return self._following

    def backlogs(self, viewer: Viewer) -> Backlogs | None:
        """Return what was found last, of the destinations that he may look at; None: nothing was found yet."""
        found = self.following.latest()
        return None if found is None else seen_by(found, viewer.may_look)

    def of_latest(self, make: Callable[[Console, Backlogs], T]) -> T:
        """Return what `make` gives of what was found last, made once for all who look before the next step."""
        found = self.following.latest()
        assert found is not None, "nothing was found yet"
        with self._made_lock:
            of, made = self._made.get(make, (None, None))
            if of is not found:
                self._made[make] = found, (made := make(self, found))
            answer: T = made
            return answer

    @property
    def trouble(self) -> str:
        """Why what is shown may be old; empty: it is not."""
        return self.following.trouble

    def changed(self) -> None:
        """Somebody has changed something: what was asked before is old."""
        self.looks.forget()
        if self._following is not None:
            self._following.look_now()

    def letter_queues(self) -> frozenset[str]:
        """Names of the queues that take dead letters, by what is recorded."""
        return self._letter_queues

    def now_ms(self) -> int:
        """Return the time by the cluster's clock, which in a test's world in memory is the test's."""
        return self._clock.now_ms()

    def _stepped(self, found: Backlogs) -> None:
        self.history.take(found)
        with suppress(JMSError):  # a step later
            self._letter_queues = self._letters_at()
            self.letters.look(found, self._letter_queues)

    def _letters_at(self) -> frozenset[str]:
        given = [each.given().get("dead_letter_address") for each in self.admin.address_settings().values()]
        named = [destination_at(each).name for each in given if isinstance(each, str) and each]
        return frozenset({self.admin.dead_letter_queue().name, *named})

    def close(self) -> None:
        """Let the cluster go. A second call does nothing."""
        with self._lock:
            following, self._following = self._following, None
        if following is not None:
            following.close()
        self.looks.close()
        self.runs.close()
        self.admin.close()


def seen_by(found: Backlogs, may_look: Callable[[str], bool]) -> Backlogs:
    """The same of those destinations alone."""
    return Backlogs(
        looked_at_ms=found.looked_at_ms,
        backlogs=tuple(each for each in found.backlogs if may_look(each.destination)),
        prepared=found.prepared,
        oldest_prepared_at_ms=found.oldest_prepared_at_ms,
        unreadable=found.unreadable,
    )


def console_of(request: HTTPConnection) -> Console:
    """The console whose page it is."""
    console: Console = request.scope["jbm.console"]
    return console


def viewer_of(request: HTTPConnection) -> Viewer:
    """Who asks for it."""
    viewer: Viewer = request.scope["jbm.viewer"]
    return viewer
