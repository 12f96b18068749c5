"""One run of the bookstore: three workers on one queue, one killed and replaced, and an audit that reads along."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from rich.console import Console

from jbm_kafka.cli.cluster_settings import Cluster
from jbm_kafka.demo.auditor import Auditor
from jbm_kafka.demo.bookstore import DEAD_LETTERS, Line, Names, run_of
from jbm_kafka.demo.demo_error import DemoError
from jbm_kafka.demo.log import Follower, quiet_client
from jbm_kafka.demo.progress import Progress, Show
from jbm_kafka.demo.shop import Clerk, open_shop, session_timeout_ms, tidy
from jbm_kafka.demo.staff import Colleague, Staff

WORKERS = 3
KILL_AT = 0.4
"""When so much of the day is finished, the busiest worker dies, and the audit goes home."""
BACK_AT = 0.7
"""The audit comes back."""

STALLED_S = 60.0
"""Nothing happened for so long: longer than a dead worker's session and its open transaction."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The run's own knowledge; the topics show whether it went well."""

    seconds: float
    killed: str
    done_by_killed: int
    takeover_ms: int | None


def check_exists(cluster: Cluster, names: Names) -> None:
    """Raises DemoError when the run's topics are not there (any more)."""
    topics = AdminClient(quiet_client(cluster)).list_topics(timeout=10).topics
    if names.orders not in topics:
        kept = sorted(run for topic in topics if (run := run_of(topic)) and Names(run).orders == topic)
        raise DemoError(f"there is no run {names.run!r} at {cluster.bootstrap}; there are: {', '.join(kept) or 'none'}")


def play(cluster: Cluster, names: Names, day: Sequence[Line], console: Console) -> RunSummary:
    """The whole day.

    Raises:
        DemoError: a worker or the clerk could not go on, or nothing happened for a minute.
        JMSError: Kafka refused something.
    """
    try:
        tidy(cluster)
        timeout_ms = session_timeout_ms(cluster)
        with (
            open_shop(cluster, names) as connection,
            Auditor(cluster, names) as auditor,
            Staff(cluster, names, session_timeout_ms=timeout_ms) as staff,
            Follower(cluster, [names.journal, DEAD_LETTERS]) as follower,
        ):
            show = Show(console, Progress(names, expected=len(day)))
            return _Day(staff, follower, show, Clerk(connection, names, day), auditor, timeout_ms).pass_by()
    except KafkaException as error:
        raise DemoError(f"Kafka at {cluster.bootstrap}: {error.args[0].str()}") from None


class _Day:
    """The steps of a run, over the parts it was given."""

    def __init__(
        self, staff: Staff, follower: Follower, show: Show, clerk: Clerk, auditor: Auditor, session_timeout_ms: int
    ) -> None:
        self._staff = staff
        self._follower = follower
        self._show = show
        self._seen = show.progress
        self._clerk = clerk
        self._auditor = auditor
        self._session_timeout_ms = session_timeout_ms

    def pass_by(self) -> RunSummary:
        """From the first worker's arrival to the last one's leaving."""
        started_s = time.monotonic()
        colleagues = [self._staff.hire(desk) for desk in range(1, WORKERS + 1)]
        self._staff.wait_ready(colleagues)
        self._show.say(f"{WORKERS} workers compete on one queue; orders begin to arrive")
        self._clerk.start()
        self._auditor.begin()
        self._until(lambda: self._seen.settled >= KILL_AT * self._seen.expected, "not even the first orders")
        victim = self._kill_the_busiest()
        self._auditor.leave()
        self._show.say(f"the audit, a durable subscription of the journal, goes home after {self._auditor.seen} orders")
        self._until(lambda: self._seen.settled >= BACK_AT * self._seen.expected, "more of the orders")
        self._show.say(f"it comes back, {len(self._seen.done) - self._auditor.seen} behind")
        self._auditor.begin()
        self._until(lambda: self._seen.is_complete, "the rest of the orders")
        self._clerk.join()
        self._show.say(f"all {self._seen.expected} finished; the workers go home")
        self._until(lambda: self._auditor.seen >= len(self._seen.done), "the audit")
        self._staff.stop()
        return RunSummary(
            seconds=time.monotonic() - started_s,
            killed=victim.name,
            done_by_killed=self._seen.by_worker[victim.name],
            takeover_ms=self._seen.takeover_ms,
        )

    def _kill_the_busiest(self) -> Colleague:
        busiest = max(self._staff.present, key=lambda name: self._seen.by_worker[name])
        victim = self._staff.kill(busiest)
        self._seen.killed(busiest)
        replacement = self._staff.hire(victim.desk)
        self._show.say(
            f"[red]{busiest} (process {victim.process.pid}) killed with SIGKILL[/] with orders in hand; "
            f"{replacement.name} replaces it; noticed after {self._session_timeout_ms / 1000:g} s"
        )
        return victim

    def _until(self, is_so: Callable[[], bool], what: str) -> None:
        """Watch until it is so.

        Raises:
            DemoError: it cannot become so any more, or nothing happened for a minute.
        """
        last, since_s = -1, time.monotonic()
        while not is_so():
            self._seen.note(self._follower.poll(0.1))
            self._show.refresh(sent=self._clerk.sent)
            self._staff.check()
            if self._auditor.failure is not None:
                raise DemoError(f"the audit failed after {self._auditor.seen} orders: {self._auditor.failure}")
            if self._clerk.failure is not None:
                raise DemoError(f"sending failed after {self._clerk.sent} orders: {self._clerk.failure}")
            now_s = time.monotonic()
            moved = self._seen.settled + self._clerk.sent + self._auditor.seen
            if moved != last:
                last, since_s = moved, now_s
            elif now_s - since_s > STALLED_S:
                raise DemoError(
                    f"nothing happened for {STALLED_S:g} s: {self._seen.settled} of {self._seen.expected} finished, "
                    f"waiting for {what}"
                )
