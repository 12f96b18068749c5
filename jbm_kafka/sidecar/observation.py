"""A sidecar as people and machines watch it: its counts, its holdings, and how it fares. Any thread asks.

Levels are asked of the owner threads, which alone may look at their channels; the others are numbers that they write.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from jbm_kafka.core.channel.holders import with_receivers
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.statistics import DestinationStatistics, Health, Statistics
from jbm_kafka.ports import Journal
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.channel.owned_channel import EVERY_OFFSET, OwnedChannel
from jbm_kafka.sidecar.channel.slewed_clock import SlewedClock
from jbm_kafka.sidecar.checkpoints.checkpointer import Checkpointer
from jbm_kafka.sidecar.counted_sources import CountedSources, key_of
from jbm_kafka.sidecar.destinations import Destinations
from jbm_kafka.sidecar.lane.group_worker import GroupWorker
from jbm_kafka.sidecar.lane.group_workers import GroupWorkers
from jbm_kafka.sidecar.lane.shutdown import is_answered

ANSWER_S = 1.0
"""How long owner threads have together; of one that is busy for longer the last answer counts."""
GATES_MAX = 50_000
"""Looked at of one channel: some ten milliseconds, in which nobody is served. The rest counts as blocked."""

TURN_MS = 30_000
"""An owner thread turns several times a second; in a rebalance, too."""
CHECKPOINT_MS = 60_000
"""A round that Kafka refuses again and again has ended before that."""


class OldestHeld(NamedTuple):
    """When the oldest messages came into the queue, milliseconds since the epoch; `NEVER_SENT`: there is none."""

    held: int
    deliverable: int
    delayed: int
    blocked: int
    in_hand: int

    def with_those_of(self, other: OldestHeld) -> OldestHeld:
        """The older one of each kind."""
        return OldestHeld(*map(min, self, other))


NEVER_SENT = 1 << 62
"""No time of a message is so late."""
NOTHING_HELD = OldestHeld(*[NEVER_SENT] * 5)


class Levels(NamedTuple):
    """The levels of one group worker now."""

    held: int = 0
    deliverable: int = 0
    delayed: int = 0
    blocked: int = 0
    unacknowledged: int = 0
    memory_bytes: int = 0
    oldest: OldestHeld = NOTHING_HELD

    def plus(self, other: Levels) -> Levels:
        """Both together."""
        return Levels(
            self.held + other.held,
            self.deliverable + other.deliverable,
            self.delayed + other.delayed,
            self.blocked + other.blocked,
            self.unacknowledged + other.unacknowledged,
            self.memory_bytes + other.memory_bytes,
            self.oldest.with_those_of(other.oldest),
        )


class Observation:
    """The view of one sidecar."""

    def __init__(
        self,
        group_workers: GroupWorkers,
        counted: CountedSources,
        checkpointer: Checkpointer,
        destinations: Destinations,
        clock: SlewedClock,
        budget_bytes: int,
        journal: Journal,
        logs: Callable[[], Mapping[str, DestinationStatistics]],
    ) -> None:
        """`logs`: what is kept of each destination's log, by its name."""
        self._group_workers = group_workers
        self._counted = counted
        self._checkpointer = checkpointer
        self._destinations = destinations
        self._clock = clock
        self._budget_bytes = budget_bytes
        self._journal = journal
        self._logs = logs
        self._last: Mapping[GroupWorker, Levels] = {}

    def health(self, timeout_s: float | None) -> Health:
        """How it fares. Kafka has so many seconds to answer; None: the latest question counts, at most 5 s old.

        While Kafka is silent nothing is dead: whatever waits for it may, and a new process would wait, too.
        """
        watch = self._destinations.watch
        is_silent = watch.is_silent or (timeout_s is not None and not is_answered(self._destinations.topics, timeout_s))
        dead = [] if is_silent else list(self._stuck())
        unready = ["Kafka does not answer"] if is_silent else []
        for worker in self._group_workers.all():
            unready += _closed_of(worker)
        if self._journal.trouble:
            unready.append(self._journal.trouble)
        return Health(not dead, not dead and not unready, (*dead, *unready))

    def _stuck(self) -> Iterator[str]:
        now_ms = self._clock.monotonic_ms()
        for worker in self._group_workers.all():
            silent_ms = now_ms - worker.data.turned_ms
            if worker.is_running and worker.is_alive and silent_ms > TURN_MS:
                yield f"{worker.data.group}: its thread has not turned for {silent_ms / 1000:.0f} s"
        if self._checkpointer.has_died:
            yield "the checkpoint thread has ended"
        begun_ms = self._checkpointer.begun_ms
        is_refused = any(worker.data.unrecorded is not None for worker in self._group_workers.all())
        if begun_ms and now_ms - begun_ms > CHECKPOINT_MS and not is_refused:  # a new process would be refused, too
            yield f"a checkpoint has been under way for {(now_ms - begun_ms) / 1000:.0f} s"

    def statistics(self) -> Statistics:
        """All that is known here; it takes ANSWER_S at most."""
        levels, now_ms = self._levels(), self._clock.now_ms()
        rows, reconnects, rebalances = self._counted.look()
        for group_worker, found in levels.items():
            key = key_of(group_worker.data.group)
            row = DestinationStatistics(
                destination=key[0],
                subscription=key[1],
                held=found.held,
                deliverable=found.deliverable,
                delayed=found.delayed,
                blocked=found.blocked,
                unacknowledged=found.unacknowledged,
                **{
                    f"oldest_{kind}_s": max(now_ms - at_ms, 0) / 1_000 for kind, at_ms in found.oldest._asdict().items()
                },
            )
            rows[key] = rows[key] + row
        for name, row in self._logs().items():
            rows[name, ""] = rows[name, ""] + row if (name, "") in rows else row
        return Statistics(
            destinations=tuple(rows[key] for key in sorted(rows)),
            checkpoints=self._checkpointer.checkpoints,
            checkpoint_failures=self._checkpointer.failures,
            reconnects=reconnects,
            rebalances=rebalances,
            memory_used_bytes=sum(found.memory_bytes for found in levels.values()),
            memory_budget_bytes=self._budget_bytes,
            checkpoint_seconds=self._checkpointer.seconds.histogram(),
        )

    def _levels(self) -> Mapping[GroupWorker, Levels]:
        found: dict[GroupWorker, Levels] = {}
        answers: list[Completion] = []
        workers = [worker for worker in self._group_workers.all() if worker.is_alive]
        for worker in workers:
            done = Completion()
            if worker.post(_asking(worker, found, done)):
                answers.append(done)
        deadline_s = time.monotonic() + ANSWER_S
        for done in answers:
            done.wait_done(max(0.0, deadline_s - time.monotonic()))
        before = self._last
        self._last = {worker: found.get(worker) or before.get(worker, Levels()) for worker in workers}
        return self._last


def _closed_of(worker: GroupWorker) -> Iterator[str]:
    """Why not everything can be received there."""
    if worker.failure is not None:
        if worker.data.links:  # else nobody wants to
            yield f"{worker.data.group}: {worker.failure}"
    elif worker.is_running:
        if not worker.is_settled:
            yield f"{worker.data.group}: its partitions are not open yet"
        yield from map(str, list(worker.assignment.closed.values()))
        if worker.turn.flow.trouble:
            yield worker.turn.flow.trouble
        if (unrecorded := worker.data.unrecorded) is not None:
            yield f"{worker.data.group}: {unrecorded}"


def _asking(worker: GroupWorker, found: dict[GroupWorker, Levels], done: Completion) -> Callable[[], None]:
    def ask() -> None:
        worker.settle.take_all()  # what sessions have said before somebody asked
        found[worker] = levels_of(worker)
        done.complete()

    return ask


def levels_of(worker: GroupWorker) -> Levels:
    """On the worker's own thread."""
    data = worker.data
    ends = {} if data.consumer is None else data.consumer.known_ends()
    now_ms = data.clock.now_ms()
    levels = Levels()
    for channel in data.channels.values():
        levels = levels.plus(_levels_of(channel, ends.get(channel.partition, 0), now_ms))
    return levels


def _levels_of(channel: OwnedChannel, log_end: int, now_ms: int) -> Levels:
    state = channel.state
    gates = state.gates
    unread = max(0, log_end - max(state.end_position, state.read_position))
    read = len(state.unsettled)
    behind = [each.offset for each in islice(state.arrivals, GATES_MAX) if each.unit in gates.by_key]
    deliverable = min(read, len(state.arrivals) - len(behind) + gates.free_for(gates.present))
    delayed = sum(
        gate.due_at_ms > now_ms and not gate.is_unchosen for gate in islice(gates.by_key.values(), GATES_MAX)
    ) + sum(
        len(standing) for place, standing in state.shelf.places.items() if place.back_at_ms and not place.is_unchosen
    )
    in_hand = sum(len(hand) for _, hand in with_receivers(state.in_hand))
    leaving = len(state.in_hand.get(DEPARTING, ()))
    return Levels(
        held=read + unread,
        deliverable=deliverable + unread,
        delayed=delayed,
        blocked=max(0, read - deliverable - delayed - in_hand - leaving),
        unacknowledged=in_hand,
        memory_bytes=channel.memory.waiting_bytes + len(state.arrivals) * channel.memory.message_bytes,
        oldest=_oldest_of(channel, behind, now_ms),
    )


def _oldest_of(channel: OwnedChannel, behind: Sequence[int], now_ms: int) -> OldestHeld:
    """As far as messages stand in memory; `behind`: the arrivals whose unit has earlier ones."""
    state, gates = channel.state, channel.state.gates
    free = [-key[1] for heads in (gates.free, *gates.some.values()) for key in islice(heads, GATES_MAX)]
    first_free = (each.offset for each in islice(state.arrivals, GATES_MAX) if each.unit not in gates.by_key)
    delayed, blocked, listed = [EVERY_OFFSET], [EVERY_OFFSET, *behind[:1]], set(free)
    for gate in islice(gates.by_key.values(), GATES_MAX):
        waiting = [each.offset for each in islice(gate.waiting, 2)] or [gate.known_head]
        if gate.due_at_ms > now_ms and not gate.is_unchosen:
            delayed.append(waiting.pop(0))
        elif waiting[0] in listed:
            waiting.pop(0)
        blocked += [each for each in waiting if each >= 0]
    for place, standing in state.shelf.places.items():
        (blocked if place.is_unchosen or not place.back_at_ms else delayed).append(standing.first(EVERY_OFFSET))
    in_hand = [min(hand) for _, hand in with_receivers(state.in_hand) if hand]
    return OldestHeld(
        held=_sent_at_ms(channel, channel.held_from),
        deliverable=_sent_at_ms(channel, min(free, default=EVERY_OFFSET), next(first_free, EVERY_OFFSET)),
        delayed=_sent_at_ms(channel, *delayed),
        blocked=_sent_at_ms(channel, *blocked),
        in_hand=_sent_at_ms(channel, *in_hand),
    )


def _sent_at_ms(channel: OwnedChannel, *offsets: int) -> int:
    first = min(offsets, default=EVERY_OFFSET)
    at_ms = None if first >= channel.state.end_position else channel.sent_times.of(first)
    return NEVER_SENT if at_ms is None else at_ms
