"""The messages of one channel that applications were given since the last checkpoint, as runs (LOG-10)."""

from __future__ import annotations

from collections.abc import Sequence

from jbm_kafka.core.channel.entries import DeliveryRun

JOINED_MS = 10
"""Messages of one run were given within this time: finer times would cost a run for nearly every message."""
RUNS_MAX = 4_096
"""Kept of a channel at most, which is about half a megabyte, while no checkpoint can record them. What more is given is
not recorded: nobody may conclude anything from a hand-over that is missing."""


class _Run:
    __slots__ = ("at_ms", "attempt", "end", "first", "mode", "session")

    def __init__(self, offset: int, attempt: int, session: str, mode: str, at_ms: int) -> None:
        self.first, self.end = offset, offset + 1
        self.attempt = attempt
        self.session = session
        self.mode = mode
        self.at_ms = at_ms


class DeliveryRuns:
    """The runs of one channel, in the order in which they began as far as one session goes."""

    __slots__ = ("_latest", "_runs")

    def __init__(self, runs: Sequence[_Run] = ()) -> None:
        self._runs = list(runs)
        self._latest: dict[str, _Run] = {}
        """The run that a session's next message may continue, by session."""

    def __bool__(self) -> bool:
        return bool(self._runs)

    def note(self, session: str, mode: str, given: Sequence[tuple[int, int, int]], from_ms: int) -> None:
        """The session's application was given these, in this order: offset, attempt, and when, in ms after `from_ms`.

        Offsets must follow each other to share a run: between others there may be a message that nobody was given.
        """
        run = self._latest.get(session)
        for offset, attempt, after_ms in given:
            at_ms = from_ms + after_ms
            if (
                run is not None
                and run.end == offset
                and run.attempt == attempt
                and run.at_ms <= at_ms < run.at_ms + JOINED_MS
            ):
                run.end += 1
            elif len(self._runs) < RUNS_MAX:
                run = _Run(offset, attempt, session, mode, at_ms)
                self._runs.append(run)
        if run is not None:
            self._latest[session] = run

    def continued(self, later: DeliveryRuns) -> DeliveryRuns:
        """These, which no checkpoint has recorded, with those that came after them."""
        return DeliveryRuns([*self._runs, *later._runs][:RUNS_MAX])

    def as_told(self) -> tuple[DeliveryRun, ...]:
        """As the events tell them."""
        return tuple(
            DeliveryRun(run.first, run.end - run.first, run.attempt, run.session, run.mode, run.at_ms)
            for run in self._runs
        )
