"""Scripted receivers: what a session does to its links, act by act, with nothing that waits.

They keep the rules of `jms/`: a hand in the order received, verdicts only about what is in it, nothing after a commit
until its end is told.
"""

from __future__ import annotations

import threading
from enum import Enum
from typing import TYPE_CHECKING

from jbm_kafka.core.destination import Queue
from jbm_kafka.core.errors import JMSError, TransactionRolledBackError
from jbm_kafka.core.redelivery import is_expired
from jbm_kafka.core.settlement import GivenBack
from jbm_kafka.jms.unacknowledged import Unacknowledged, UnacknowledgedMessages
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.fence import Fence, Verdict
from jbm_kafka.ports.grants import Tap
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.unit_of_work import Received, UnitOfWork
from jbm_kafka.sidecar.lane import transfer_of
from tests.simulation import at_hand_over
from tests.simulation.paper import Commit, HandOver

if TYPE_CHECKING:
    from tests.simulation.node import Node
    from tests.simulation.recorder import Recorder


SIBLING_TURN_MS = 500


class Mode(Enum):
    """How it settles."""

    AUTO = "AUTO"
    CLIENT = "CLIENT"
    INDIVIDUAL = "INDIVIDUAL"
    TRANSACTED = "TRANSACTED"


class Receiver:
    """One session with a consumer for each of its queues."""

    def __init__(
        self, node: Node, name: str, mode: Mode, queues: list[str], *, prefetch: int, recorder: Recorder
    ) -> None:
        self.node = node
        self.name = name
        self.mode = mode
        self.prefetch = prefetch
        self._recorder = recorder
        self.hand = UnacknowledgedMessages()
        self.items: list[Unacknowledged] = []
        """The same, to choose from."""
        self.noted: dict[Unacknowledged, HandOver] = {}
        """What is written down of each."""
        self.commit_under_way: Commit | None = None
        self.told: set[tuple[object, object, int]] = set()
        """(topic, partition, offset) of what it was told to hold in vain."""
        self.is_closed = False
        self._turn: tuple[Link | None, int] = (None, 0)
        """Which consumer asked last, and until when the others leave it what it gets."""
        lock = threading.Lock()
        filled = threading.Condition(lock)
        self.links: list[tuple[str, Link]] = []
        """(queue, link) of each consumer."""
        for number, queue in enumerate(queues):
            link = Link(
                link_id=f"{name}/{number}",
                session_id=name,
                prefetch=prefetch,
                filled=filled,
                lock=lock,
                one_per_unit=mode is Mode.INDIVIDUAL,
            )
            link.on_trouble = self._told
            self.links.append((queue, link))
        fences = {queue: Fence() for queue in queues}
        for queue, link in self.links:
            link.fence = fences[queue]
            link.become_siblings([other for at, other in self.links if at == queue and other is not link])

    @property
    def can_act(self) -> bool:
        """A session in the middle of a commit cannot."""
        return not self.is_closed and self.commit_under_way is None

    def attach(self) -> None:
        """Be served, also after a lane ended; not by a sidecar that closes."""
        for queue, link in self.links:
            if self.is_closed or self.node.is_stopping:
                return
            link.failure = None
            if not link.is_attached or not link.lane.is_running:
                link.lane = self.node.sidecar.attach(Queue(queue), link)
                link.is_attached = True

    # -- receiving -------------------------------------------------------------------------------------------------

    def want(self, link: Link, count: int) -> None:
        """Ask for messages, within the prefetch."""
        with link.lock:
            room = self.prefetch - len(link.buffer) - self.hand.count(link)
            if not link.is_asking and self._is_turn_of(link):
                link.want(min(1 if link.siblings else count, room))

    def _is_turn_of(self, link: Link) -> bool:
        """One consumer after the other: what one asked for is not taken from it before it can have come."""
        now_ms = self.node.clock.monotonic_ms()
        if link.siblings and link is not self._turn[0] and now_ms < self._turn[1]:
            return False
        self._turn = (link, now_ms + SIBLING_TURN_MS)
        return True

    def receive(self, queue: str, link: Link) -> Unacknowledged | None:
        """The next message, if one is here."""
        if self.mode is Mode.AUTO:
            self.acknowledge_all()
        with link.lock:
            granted = link.pop()
        if granted is None:
            return None
        if is_expired(granted.reference.expiration_ms, self.node.clock.now_ms()):
            link.give_back([(granted, GivenBack(granted.offset, counted=False))])
            return None
        item = Unacknowledged(granted, link)
        self.noted[item] = self._recorder.handed_over(self, queue, granted)
        self.hand.add(item)
        self.items.append(item)
        return item

    # -- settling --------------------------------------------------------------------------------------------------

    def acknowledge(self, item: Unacknowledged) -> None:
        """As the mode says; of what is not in hand any more: nothing."""
        if self.mode is Mode.CLIENT:
            self._record(self._without(self.hand.take_through(item)))
        elif self.hand.take(item):
            self._record(self._without([item]))

    def acknowledge_all(self) -> None:
        """Everything in hand."""
        self._record(self._without(self.hand.take_all()))

    def acknowledge_blocking(self, item: Unacknowledged) -> Completion | None:
        """With `block_on_acknowledge`: what tells that it is durable."""
        items = self.hand.take_through(item) if self.mode is Mode.CLIENT else [item] * self.hand.take(item)
        live = [each for each in self._without(items) if not each.granted.tap.is_lost]
        if not live:
            return None
        self._recorder.acknowledged([self.noted[each] for each in live])
        noted = [self.noted[each] for each in live]
        done = Completion(lambda error: self._recorder.told_durable(noted) if error is None else None)
        by_link: dict[Link, list[tuple[Tap, int]]] = {}
        for each in live:
            by_link.setdefault(each.link, []).append((each.granted.tap, each.granted.offset))
        for index, (link, rows) in enumerate(by_link.items()):
            link.verdicts.append(Verdict(acknowledged=rows, done=done if index + 1 == len(by_link) == 1 else None))
        return done

    def nack(self, item: Unacknowledged, delay_ms: int | None) -> None:
        """Give one back; in CLIENT the later ones of its unit go with it, uncounted."""
        taken = self.hand.take_unit_from(item) if self.mode is Mode.CLIENT else [item] * self.hand.take(item)
        self._without(taken)
        self._recorder.returned([self.noted[each] for each in taken if each is not item], counted=False, delay_ms=None)
        self._give_back([each for each in taken if each is item], delay_ms)

    def give_back_all(self, delay_ms: int | None = None) -> None:
        """recover, rollback, close."""
        self._give_back(self._without(self.hand.take_all()), delay_ms)

    def commit(self, commit: Commit, sends: list[Outgoing]) -> None:
        """Everything in hand, with these sends."""
        items = self._without(self.hand.take_all())
        commit.hands = [self.noted[item] for item in items]
        if any(item.granted.tap.is_lost for item in items):
            commit.outcome = "rolled back"
            self._give_back(items, None)
            return
        work = UnitOfWork(
            about=f"commit {commit.name}",
            sends=sends,
            received=_received(items),
            done=Completion(lambda error: self._committed(commit, items, error)),
        )
        self.commit_under_way = commit
        self._recorder.committing(commit)
        try:
            self.node.sidecar.submit(transfer_of(work))
        except JMSError as error:
            work.done.complete(TransactionRolledBackError(str(error)))

    def close(self) -> None:
        """End the session (UNIT-7)."""
        if self.mode is Mode.AUTO:
            self.acknowledge_all()
        self.give_back_all(delay_ms=0)
        self.is_closed = True
        for _, link in self.links:
            link.become_siblings([])
            link.is_closed = True
            if link.is_attached:
                link.is_attached = False
                link.lane.detach(link.link_id)

    def _committed(self, commit: Commit, items: list[Unacknowledged], error: Exception | None) -> None:
        self.commit_under_way = None
        self._recorder.commit_ended(commit, error)
        if isinstance(error, TransactionRolledBackError):
            self._give_back(items, None)
        elif isinstance(error, JMSError):
            self.close()

    def _told(self, error: Exception) -> None:
        values = error.values if isinstance(error, JMSError) else {}
        offsets = values.get("offsets")
        for offset in offsets if isinstance(offsets, tuple) else ():
            self.told.add((values["topic"], values["partition"], offset))

    def _record(self, items: list[Unacknowledged]) -> None:
        for item in items:
            at_hand_over.told_when_taken(item.granted.tap, item.granted.offset, self.told)
        live = [item for item in items if not item.granted.tap.is_lost]
        self._recorder.acknowledged([self.noted[item] for item in live])
        self._recorder.refused([self.noted[item] for item in items if item not in live])
        for item in live:
            item.granted.tap.acknowledge(item.granted.offset)

    def _give_back(self, items: list[Unacknowledged], delay_ms: int | None) -> None:
        live = [item for item in items if not item.granted.tap.is_lost]
        self._recorder.refused([self.noted[item] for item in items if item not in live])
        self._recorder.returned([self.noted[item] for item in live], counted=True, delay_ms=delay_ms)
        by_link: dict[Link, list[Unacknowledged]] = {}
        for item in live:
            by_link.setdefault(item.link, []).append(item)
        for link, mine in by_link.items():
            link.give_back([(item.granted, GivenBack(item.granted.offset, True, delay_ms)) for item in mine])

    def _without(self, items: list[Unacknowledged]) -> list[Unacknowledged]:
        self.items = [item for item in self.items if item not in items]
        return items


def _received(items: list[Unacknowledged]) -> list[Received]:
    by_tap: dict[tuple[Link, Tap], list[int]] = {}
    for item in items:
        by_tap.setdefault((item.link, item.granted.tap), []).append(item.granted.offset)
    return [Received(link, tap, offsets) for (link, tap), offsets in by_tap.items()]
