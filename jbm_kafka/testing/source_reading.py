"""The contents of a handler's queue or subscription at one moment, as its owner thread sees them.

The counts of `connection.statistics()` will not do: of a busy thread those are the last ones that it told.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import NamedTuple

from jbm_kafka.core.channel.redelivery import FOREVER_MS
from jbm_kafka.core.channel.reference import DEPARTING
from jbm_kafka.core.channel.settlement import HELD_FOR_OPERATOR
from jbm_kafka.memory.memory_cluster import MemoryCluster
from jbm_kafka.ports.completion import Completion
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.lane.group_worker import GroupWorker


class Reading(NamedTuple):
    """One source. Two equal readings: nothing was handed over between them."""

    group_id: str
    name: str
    """The name of the queue or topic, for people."""
    is_open: bool
    """All its partitions are open, and read."""
    handed_over: int
    """How many messages receivers got here so far."""
    in_hand: int
    """How many handlers have, or are on their way out."""
    deliverable: int
    """How many a handler may get now; of those that were not read yet one of each partition counts."""
    delayed: int
    """How many units, or messages without one, wait for a time."""
    due_at_ms: int
    """When the first of these may be handed over, or more exactly be looked at; FOREVER_MS: none waits."""
    on_hold: int
    """How many wait for an operator."""
    unchosen: int
    """How many units, or messages without one, wait because no handler's selector chooses them."""
    pause: str
    """Why nothing is handed over, if it is paused."""

    @property
    def is_at_rest(self) -> bool:
        """No handler has anything to do."""
        return self.is_open and not self.in_hand and not self.deliverable

    @property
    def is_paused(self) -> bool:
        """There is something to do, and nobody may do it."""
        return bool(self.pause) and self.is_open and not self.in_hand and self.deliverable > 0

    @property
    def stays(self) -> str:
        """Return what no handler gets, however much time passes, and why; nothing: there is nothing of that kind."""
        parts = [f"{self.deliverable} wait: {self.pause}"] if self.is_paused else []
        if self.on_hold:
            parts.append(f"{self.on_hold} on hold, until an operator lets them go")
        if self.unchosen:
            parts.append(f"{self.unchosen} that no handler's selector chooses")
        return f"{self.name}: {', '.join(parts)}" if parts else ""


class _Channel(NamedTuple):
    in_hand: int
    deliverable: int
    delayed: int
    due_at_ms: int
    on_hold: int
    unchosen: int


def readings(
    group_workers: Collection[GroupWorker], sessions: Collection[str], cluster: MemoryCluster, timeout_s: float
) -> list[Reading] | None:
    """Return what each of them says after a whole turn; None: one did not in time. `sessions`: those of the
    handlers."""
    found: list[Reading] = []
    answers = [Completion() for _ in group_workers]
    for worker, done in zip(group_workers, answers, strict=True):
        answer = _answering(worker, sessions, cluster, found, done)
        worker.post(partial(worker.post, answer))
    if not all(done.wait_done(timeout_s) for done in answers) or len(found) < len(answers):
        return None
    return sorted(found)


def _answering(
    worker: GroupWorker, sessions: Collection[str], cluster: MemoryCluster, found: list[Reading], done: Completion
) -> Callable[[], None]:
    def answer() -> None:
        worker.settle.take_all()  # what handlers have said before
        found.append(_reading(worker, sessions, cluster))
        done.complete()

    return answer


def _reading(worker: GroupWorker, sessions: Collection[str], cluster: MemoryCluster) -> Reading:
    """On the worker's own thread."""
    data = worker.data
    bits = 0
    for link in data.links.values():
        if link.terms.session_id in sessions:
            bits |= data.selections.bit_of(link)
    now_ms = data.clock.now_ms()
    rows = [_of_channel(each, sessions, bits, cluster, now_ms) for each in data.channels.values()]
    destination = data.group.destination
    pausing = worker._parts.pausing
    return Reading(
        group_id=data.group.group_id,
        name=str(destination),
        is_open=worker.is_settled and not worker.assignment.closed,
        handed_over=data.counters.handed_over,
        in_hand=sum(row.in_hand for row in rows),
        deliverable=sum(row.deliverable for row in rows),
        delayed=sum(row.delayed for row in rows),
        due_at_ms=min((row.due_at_ms for row in rows), default=FOREVER_MS),
        on_hold=sum(row.on_hold for row in rows),
        unchosen=sum(row.unchosen for row in rows),
        pause=pausing.why_nothing_comes(destination.name) if pausing.is_paused(destination.name) else "",
    )


def _of_channel(
    channel: OwnedChannel, sessions: Collection[str], bits: int, cluster: MemoryCluster, now_ms: int
) -> _Channel:
    state = channel.state
    gates, shelf = state.gates, state.shelf
    timed = [gate.due_at_ms for gate in gates.by_key.values() if gate.due_at_ms and not gate.is_unchosen]
    timed += [place.back_at_ms for place in shelf.places if place.back_at_ms and not place.is_unchosen]
    delayed = [due_at_ms for due_at_ms in timed if now_ms < due_at_ms < FOREVER_MS]
    unchosen = [len(standing) for place, standing in shelf.places.items() if place.is_unchosen]
    return _Channel(
        in_hand=sum(len(state.in_hand.get(holder, ())) for holder in (*sessions, DEPARTING)),
        deliverable=_has_unread(channel, cluster)
        + len(state.arrivals)
        + gates.free_for(bits)
        + sum(len(gates.own.get(session, ())) for session in sessions)
        + sum(due_at_ms <= now_ms for due_at_ms in timed)
        + channel.is_awaiting_store,
        delayed=len(delayed),
        due_at_ms=min(delayed, default=FOREVER_MS),
        on_hold=sum(each.reason == HELD_FOR_OPERATOR for _, each in state.redeliveries.items()),
        unchosen=sum(gate.is_unchosen for gate in gates.by_key.values()) + sum(unchosen),
    )


def _has_unread(channel: OwnedChannel, cluster: MemoryCluster) -> bool:
    """A message is in the log that the channel has not read. A mark of a transaction alone is none."""
    with cluster.changed:
        if channel.partition >= cluster.partition_count(channel.topic):
            return False
        log = cluster.log(channel.topic, channel.partition)
        position = min(max(channel.state.read_position, log.begin), log.end)
        return bool(log.read(position, 1, committed_only=True)[0])
