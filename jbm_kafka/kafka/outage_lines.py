"""Log lines about brokers none of which answers: one line for all clients of a cluster, and one when it is over.

They are no warnings: a process that uses a destination warns of silence and of its end by itself, and who only asks has
an error. docs/logging.md lists the lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import cache

LOG = logging.getLogger("jbm_kafka.kafka")

OUTAGE_SILENCE_S = 30.0
"""One line in so long while no broker answers, and none in so long after one does: a client tells what it saw only when
it is used next, which may be after the outage."""

ANSWERED_LATELY_S = 3.0
"""For so long after an answer what a client says is no proof: the next question is, and a process that uses a
destination asks one every second."""


class OutageLines:
    """The lines of one cluster. Any thread.

    A client has lost all its brokers also when it was idle for so long that they closed its connections, which they do
    after ten minutes.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._quiet_until_s = float("-inf")
        self._is_logged = False
        """The latest line says that no broker answers."""
        self._is_silent = False
        """The latest question had no answer."""
        self._answered_at_s = float("-inf")
        self._suspicion: object = None
        """A client's complaint that came while questions were answered."""

    def down(self, error: object) -> None:
        """A client has lost all its brokers, now or before it was last used."""
        now_s = self._now_s()
        is_quiet = now_s < self._quiet_until_s
        if is_quiet or now_s < self._answered_at_s + ANSWERED_LATELY_S:
            self._suspicion = None if is_quiet else error
            LOG.debug("Kafka client: %s; it keeps trying", error)
            return
        self._tell(error)

    def _tell(self, error: object) -> None:
        self._quiet_until_s, self._is_logged, self._suspicion = self._now_s() + OUTAGE_SILENCE_S, True, None
        LOG.info("no Kafka broker answers; clients keep trying (%s)", error)

    def silent(self) -> None:
        """A question had no answer."""
        self._is_silent = True
        error, self._suspicion = self._suspicion, None
        if error is not None:
            self._tell(error)

    def answered(self) -> None:
        """A question was answered."""
        self._answered_at_s, self._suspicion = self._now_s(), None
        if not (self._is_logged or self._is_silent):
            return
        is_logged, self._is_logged, self._is_silent = self._is_logged, False, False
        self._quiet_until_s = self._now_s() + OUTAGE_SILENCE_S
        if is_logged:  # at the level of the loss: a reader of the beginning shall read the end
            LOG.info("a Kafka broker answers again")


@cache
def outage_at(bootstrap: str) -> OutageLines:
    """That of all clients of this process with the address: what another cluster answers ends no outage of this one."""
    return OutageLines()
