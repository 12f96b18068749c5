"""Which selectors this process's consumers of queues have: the same as in every other process (SEL-2, decision 32).

A process that uses any holds the set in the registry. One without any records nothing, looks when partitions come to
it, and takes away what the dead hold: one that was only thought dead sees by this that others may have come without.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from jbm_kafka.codec.registry_records import SelectorSet, decode_selectors, encode_selectors, selectors_key
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.wrong_values import shown
from jbm_kafka.ports import Clock, KafkaAdmin, KafkaClientError
from jbm_kafka.ports.client_errors import raised_as_jms_errors
from jbm_kafka.ports.steps import Workers
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.registry_log import Changes, RegistryLog, Values

log = logging.getLogger(__name__)

LOOK_S = 0.05
LEAVE_MS = 2_000
"""For members whose process receives no more to leave, beside how long they linger."""

NONE = ("",)
"""The set of a process whose consumers have no selectors."""


@dataclass(frozen=True, slots=True)
class SelectorSetParts:
    """The parts of the process that selector sets use."""

    registry: RegistryLog
    holder: ProcessLiveness
    admin: KafkaAdmin
    workers: Workers
    clock: Clock
    namespace: str
    linger_ms: int
    """How long a process is a member of a queue's group when it receives no more."""
    session_timeout_ms: int
    """After it the broker has forgotten a dead member."""
    own_members: Callable[[str], int | None]
    """How many members of a group this process is, none or one; None: it is about to join."""
    stop_group_worker: Callable[[str], None]
    """Ends this process's membership in a group."""
    refuse: Callable[[str, IllegalStateError], None]
    """Ends it with this error for all receivers there."""


class SelectorSets:
    """The selectors that this process uses, by queue. Any thread may call it."""

    def __init__(self, parts: SelectorSetParts) -> None:
        self._parts = parts
        self._uses: defaultdict[Queue, Counter[str]] = defaultdict(Counter)
        """Consumers by selector, in normal form; those of stopped connections included."""
        self._held: dict[Queue, tuple[str, ...]] = {}
        """The selectors that are recorded with this process as a holder."""
        self._came_back: dict[Queue, int] = {}
        """Where it was a holder no longer, and is again: until when, monotonic ms, it looks for newcomers."""
        self._lock = threading.RLock()
        parts.holder.when_back(self._look_again)

    def use(self, queue: Queue, selector: str) -> None:
        """One consumer more; nobody else hears of it before `claim`."""
        with self._lock:
            self._uses[queue][selector] += 1

    def claim(self, queue: Queue, *, is_joining: bool) -> None:
        """Have the selectors that are used here; before this process receives from the queue for another of them.

        `is_joining`: it is about to become a member of the queue's group. Where the queue is without selectors it looks
        nevertheless; `check` finds those that come between.

        Raises:
            IllegalStateError: other processes receive from it with others.
            JMSError: the cluster cannot be asked.
        """
        with self._lock:
            mine = self._used(queue)
            with raised_as_jms_errors(str(queue)):
                if self._held.get(queue, NONE) != mine:
                    self._take(queue, mine)
                elif is_joining:
                    self._look(queue)

    def _look(self, queue: Queue) -> None:
        try:
            self.check(queue)
        except KafkaClientError as error:  # as in an outage, in which nothing is received; `check` comes before that is
            log.debug("%s: nobody says now what selectors others have: %s", queue, error)

    def check(self, queue: Queue) -> None:
        """Raise unless the claims still hold; to be asked when partitions were assigned, and before anything is
        received.

        Raises:
            IllegalStateError: other processes receive from it with other selectors.
            KafkaClientError: no answer.
        """
        registry = self._parts.registry
        mine = self._held.get(queue)
        if mine is not None:  # a process that was thought dead is a holder no longer
            self._hold_again(queue, mine)
            return
        registry.refresh()
        if registry.get(selectors_key(queue.name)) is not None:
            registry.update(lambda values: self._without_the_dead(values, queue))

    def end_use(self, queue: Queue, selector: str) -> None:
        """One consumer less, and nothing of it is unacknowledged. Others know so as soon as Kafka answers."""
        with self._lock:
            uses = self._uses[queue]
            uses[selector] -= 1
            if uses[selector] > 0:
                return
            del uses[selector]
            if not uses:
                del self._uses[queue]
            held = self._held.get(queue)
            if held is None or (uses and selector not in held):
                return
            if not uses:
                # First, for without the record it would be a member with unknown selectors.
                self._parts.stop_group_worker(queue.group_id(self._parts.namespace))
            self._parts.holder.let_go(f"{queue}: its selectors", lambda: self._give_back(queue))

    # -- each a step -----------------------------------------------------------------------------------------------

    def _look_again(self) -> None:
        """Others may have thought this process dead, and taken a queue with other selectors.

        It has to find out without being given a partition, or a receiver here would wait in silence; and a process that
        was forgotten as a holder binds nobody, while it receives.
        """
        unanswered: KafkaClientError | None = None
        for queue, mine in list(self._held.items()):
            try:
                self._hold_again(queue, mine)
            except IllegalStateError as error:
                self._parts.refuse(queue.group_id(self._parts.namespace), error)
            except KafkaClientError as error:
                unanswered = error
        if unanswered is None and self._came_back.keys() & self._held.keys():
            unanswered = KafkaClientError("who came while this process was thought dead is looked for a while longer")
        if unanswered is not None:
            raise unanswered

    def _hold_again(self, queue: Queue, mine: tuple[str, ...]) -> None:
        """Be a holder, unless the set was given up or changed meanwhile; when refused, this process has it no longer.

        Raises:
            IllegalStateError: others receive with another set.
            KafkaClientError: no answer, or not yet one of all.
        """

        def claimed(values: Values) -> Changes:
            return self._claimed(values, queue, mine) if self._held.get(queue) == mine else {}

        try:
            self._parts.registry.update(claimed)
        except IllegalStateError:
            self._held.pop(queue, None)
            self._came_back.pop(queue, None)
            raise
        until_ms = self._came_back.get(queue)
        if until_ms is not None:
            self._check_newcomers(queue, mine, until_ms)

    def _check_newcomers(self, queue: Queue, mine: tuple[str, ...], until_ms: int) -> None:
        """A process without selectors looked while nobody held any, and does not look again.

        Nobody seems to be there as long as this process takes the other's member for its own, which the broker may have
        forgotten: that is not heard at once, so it is looked again until then.

        Raises:
            IllegalStateError: one has come, and stays.
            KafkaClientError: there is one; it may be dead, and the broker does not know yet.
        """
        parts = self._parts
        others, members = self._others_and_members(queue, mine)
        is_over = parts.clock.monotonic_ms() > until_ms
        if members is not None and members <= len(others):
            if is_over:
                self._came_back.pop(queue, None)
            return
        if is_over:
            self._withdraw(queue)
            raise _unlike(queue, mine, NONE)
        raise KafkaClientError(f"{queue}: a member of its group holds no selectors, or is dead and not forgotten yet")

    def _used(self, queue: Queue) -> tuple[str, ...]:
        return tuple(sorted(self._uses.get(queue, ()))) or NONE

    def _take(self, queue: Queue, mine: tuple[str, ...]) -> None:
        parts = self._parts
        deadline_ms = parts.clock.monotonic_ms() + parts.linger_ms + LEAVE_MS
        self._wait_for_members_without(queue, mine, deadline_ms)
        before = self._held.get(queue)
        parts.holder.ensure()
        parts.registry.update(lambda values: self._claimed(values, queue, mine))
        self._held[queue] = mine
        if before is None:
            try:
                # Again: one that joined meanwhile either is seen now or sees the record.
                self._wait_for_members_without(queue, mine, deadline_ms)
            except BaseException:
                self._withdraw(queue)
                raise

    def _claimed(self, values: Values, queue: Queue, mine: tuple[str, ...]) -> Changes:
        parts = self._parts
        wanted = SelectorSet(mine, tuple(sorted((*self._others(values, queue, mine), parts.holder.name))))
        if queue in self._held and mine != NONE and parts.holder.name not in _holders(values, queue):
            # Others thought it dead, and forgot it. Whatever it claims now, they may have come meanwhile.
            wait_ms = parts.session_timeout_ms + LEAVE_MS
            self._came_back.setdefault(queue, parts.clock.monotonic_ms() + wait_ms)
        value = values.get(selectors_key(queue.name))
        if value is not None and decode_selectors(value) == wanted:
            return {}
        return {selectors_key(queue.name): encode_selectors(wanted)}

    def _others(self, values: Values, queue: Queue, mine: tuple[str, ...]) -> frozenset[str]:
        """Holders beside this process, all with the same set.

        Raises:
            IllegalStateError: they have another.
        """
        value = values.get(selectors_key(queue.name))
        if value is None:
            return frozenset()
        found = decode_selectors(value)
        others = self._parts.holder.living(each for each in found.holders if each != self._parts.holder.name)
        if others and found.selectors != mine:
            raise _unlike(queue, mine, found.selectors)
        return others

    def _without_the_dead(self, values: Values, queue: Queue) -> Changes:
        """Return what this process changes that has no selectors; nothing while it claims some, or any holder is alive.

        Raises:
            IllegalStateError: living holders have another set.
        """
        holders, others = _holders(values, queue), self._others(values, queue, NONE)
        is_free = not others and self._parts.holder.name not in holders
        return {selectors_key(queue.name): None} if holders and is_free else {}

    def _wait_for_members_without(self, queue: Queue, mine: tuple[str, ...], deadline_ms: int) -> None:
        """Return when every other member of the queue's group is a holder.

        Raises:
            IllegalStateError: a member is not a holder, and stays.
        """
        parts = self._parts
        while True:
            others, members = self._others_and_members(queue, mine)
            if members is not None and members <= len(others):
                return
            if parts.clock.monotonic_ms() > deadline_ms:
                raise _unlike(queue, mine, NONE)
            parts.workers.pause(LOOK_S)

    def _others_and_members(self, queue: Queue, mine: tuple[str, ...]) -> tuple[frozenset[str], int | None]:
        """Holders beside this process, and how many members beside it the queue's group has; None: it is joining.

        Raises:
            IllegalStateError: the holders have another set.
            KafkaClientError: no answer.
        """
        parts, group = self._parts, queue.group_id(self._parts.namespace)
        parts.registry.refresh()
        others = self._others(parts.registry.values(), queue, mine)
        own = parts.own_members(group)
        return others, None if own is None else parts.admin.group_members(group) - own

    def _give_back(self, queue: Queue) -> None:
        """Give back what is not used here any more, or was not claimed again since."""
        with self._lock:
            if queue in self._held and self._uses.get(queue):
                self._lessen(queue, self._used(queue))
            else:
                self._withdraw(queue)

    def _lessen(self, queue: Queue, rest: tuple[str, ...]) -> None:
        """Fewer selectors are used here than before."""
        registry, key = self._parts.registry, selectors_key(queue.name)
        registry.refresh()
        try:
            registry.update(lambda values: self._claimed(values, queue, rest))
        except IllegalStateError:
            found = registry.get(key)
            theirs = NONE if found is None else decode_selectors(found).selectors
            log.warning(
                "%s: this process receives with %s only, others with %s; what they select waits in its partitions "
                "until it closes the others of its consumers too",
                queue, _named(rest), _named(theirs),
            )  # fmt: skip
            return
        self._held[queue] = rest

    def _withdraw(self, queue: Queue) -> None:
        """Hold nothing of the queue any more."""
        self._held.pop(queue, None)
        self._came_back.pop(queue, None)
        key, me = selectors_key(queue.name), self._parts.holder.name

        def without_me(values: Values) -> Changes:
            value = values.get(key)
            found = None if value is None else decode_selectors(value)
            if found is None or me not in found.holders:
                return {}
            rest = tuple(each for each in found.holders if each != me)
            return {key: encode_selectors(SelectorSet(found.selectors, rest)) if rest else None}

        self._parts.registry.update(without_me)


def _holders(values: Values, queue: Queue) -> tuple[str, ...]:
    value = values.get(selectors_key(queue.name))
    return () if value is None else decode_selectors(value).holders


def _unlike(queue: Queue, mine: tuple[str, ...], theirs: tuple[str, ...]) -> IllegalStateError:
    return IllegalStateError(
        f"{queue}: this process would receive with {_named(mine)}, and other processes receive with {_named(theirs)}. "
        f"A message waits in the process that has its partition, so all processes must select alike: use the same "
        f"selectors in each, made before connection.start(), or a queue for each selector, or standalone "
        f"sidecars, which forward to each other (jbm-kafka docs amqp). A process that was killed counts until its "
        f"session timeout",
        destination=queue.name,
        selectors=mine,
        others=theirs,
    )


def _named(selectors: Iterable[str]) -> str:
    texts = [f"the selector {shown(each)}" if each else "no selector" for each in selectors]
    return " and ".join(texts)
