"""Plays one seed: act after act, everything checked after each, and a calm end in which all must come to its end."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from jbm_kafka.memory.memory_kafka import ProcessCrashed
from jbm_kafka.ports import Outgoing
from tests.simulation import invariants
from tests.simulation.acts import Acts
from tests.simulation.branch_acts import BranchActs
from tests.simulation.hold_acts import HoldActs
from tests.simulation.lease_acts import LeaseActs
from tests.simulation.lives import MOVED_OF
from tests.simulation.move_acts import MoveActs
from tests.simulation.names import DLQ, MOVED, OUT
from tests.simulation.node import Node
from tests.simulation.pause_acts import PauseActs
from tests.simulation.profile import Plan, draw
from tests.simulation.selector_acts import SelectorActs
from tests.simulation.topic_acts import TopicActs
from tests.simulation.topic_move_acts import TopicMoveActs
from tests.simulation.workers import Blocked
from tests.simulation.world import World

DEPTH_MAX = 4
"""How many steps may stand in the middle of each other."""
CALM_ROUNDS = 10_000
CALM_MS = 40
"""Time that passes in each."""
STUCK_ROUNDS = 500
"""With nothing handed over and nothing ended in so many rounds nothing will come any more: 20 s, more than any timeout
here. Checkpoints do not count: an operator's command that has no effect has one, too, and is repeated for ever."""
LINES_SHOWN = 60


ACTS: dict[Plan, type[Acts]] = {
    Plan.TOPICS: TopicActs,
    Plan.SELECTORS: SelectorActs,
    Plan.SHELF: SelectorActs,
    Plan.PAUSES: PauseActs,
    Plan.HOLDS: HoldActs,
    Plan.BRANCHES: BranchActs,
    Plan.MOVES: MoveActs,
    Plan.TOPIC_MOVES: TopicMoveActs,
    Plan.LEASES: LeaseActs,
}


class BrokenPromiseError(AssertionError):
    """A promise was broken; the text has the command that repeats it and the last lines of its history."""


class _Broken(BaseException):
    """Carries a broken promise through the product's code, which must not catch it."""


class _Alarms(logging.Handler):
    """An error in the product's log is a bug: it is what the sidecar catches to go on living."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.seen: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        self.seen.append(f"{record.getMessage()}: {cause!r}")
        if isinstance(cause, Exception):
            self.cause = cause

    cause: Exception | None = None


class Simulation:
    """One seed. `run` plays it."""

    def __init__(self, seed: int, steps: int, plan: Plan = Plan.QUEUES) -> None:
        self.seed = seed
        self.steps = steps
        self.world = World(seed, draw(random.Random(f"profile {seed}"), plan), self._meanwhile)
        self.plan = plan
        self.acts = ACTS.get(plan, Acts)(self.world)
        self._depth = 0
        self._checked_version = -1
        self.acts_done = 0
        self._alarms = _Alarms()
        weights = self.world.profile.weights
        self._names, self._weights = list(weights), list(weights.values())
        self.world.cluster.faults.refuse = self._refusal

    def run(self) -> None:
        """Play it.

        Raises:
            BrokenPromiseError: a promise was broken.
        """
        with self._listening():
            try:
                while self.acts_done < self.steps:
                    self._act()
                self._end_calmly()
            except _Broken as error:
                raise BrokenPromiseError(self._report(str(error))) from error.__cause__
            finally:
                for node in self.world.nodes:
                    if node.is_alive:
                        node.crash()

    # -- one act ---------------------------------------------------------------------------------------------------

    def _act(self) -> None:
        self.acts_done += 1
        name = self.world.random.choices(self._names, self._weights)[0]
        with self._checked(), suppress(ProcessCrashed, Blocked):  # a process may end in the middle of it
            self.acts.by_name[name]()

    @contextmanager
    def _checked(self) -> Iterator[None]:
        try:
            yield
            self.world.recorder.look()
            for receiver in self.world.receivers:
                receiver.look()
            self._check()
            self.acts.check()
        except AssertionError as error:
            raise _Broken(str(error)) from error
        if self._alarms.seen:
            raise _Broken(self._alarms.seen[0]) from self._alarms.cause

    def _check(self) -> None:
        world, paper = self.world, self.world.recorder.paper
        invariants.replay_equals_live(paper, (channel for node in world.nodes for channel in node.live_channels()))
        journals = [machine.journal for machine in world.machines]
        invariants.journal_follows_the_changelog(paper, journals, world.changelog_end)
        if paper.version != self._checked_version:
            for promise in invariants.ON_PAPER:
                promise(paper)
            invariants.offsets_agree(paper, world.decided_offset)
            invariants.what_is_parked_is_numbered(paper, world.decided_number)
        self._checked_version = paper.version

    def _meanwhile(self, node: Node, seconds: float) -> None:
        """Others act while a node's step pauses; the node may be frozen or dead when it is over."""
        chance, world = self.world.random, self.world
        with self._checked():
            pass  # what this step did so far may be over when others have acted
        world.clock.advance(max(int(seconds * 1000), 1) * chance.choice((1, 1, 4, 20)))
        self._depth += 1
        try:
            if self._depth <= DEPTH_MAX and not world.is_ending:
                for _ in range(chance.randint(1, 4)):
                    self._act()
            for worker in node.workers.ready() if node.can_act else ():
                if chance.random() < 0.5:
                    with self._checked():
                        worker.step()
            if node.is_frozen and node.is_alive:
                self._wait_for_thaw(node)
        finally:
            self._depth -= 1
        world.check_alive(node)

    def _wait_for_thaw(self, node: Node) -> None:
        for _ in range(40):
            if not node.is_alive or not node.is_frozen:
                return
            self._act()
        if node.is_alive and node.is_frozen:
            self.world.note(f"{node.name} goes on")
            node.thaw()

    def _refusal(self, record: Outgoing) -> str | None:
        if record.topic == OUT and (record.value or b"").endswith(b"-bad"):
            return "Broker failed to validate record: it is bad"
        if record.topic in (DLQ, OUT, MOVED, *MOVED_OF) and self.world.refusals:
            self.world.refusals -= 1
            return "Broker failed to validate record: it does not want to"
        return None

    # -- the end ---------------------------------------------------------------------------------------------------

    def _end_calmly(self) -> None:
        """Nothing goes wrong any more; receivers are kind."""
        world = self.world
        world.note("-- from here on nothing goes wrong --")
        world.is_ending = True
        world.refusals = 0
        world.cluster.faults.commits.clear()
        for node in world.nodes:
            if node.is_alive and node.is_frozen:
                node.thaw()
        for machine in world.machines:
            if not any(node.is_alive and node.machine is machine for node in world.nodes):
                world.start_node(machine)
        with self._checked():
            self.acts.before_end(self._calm_round)
            self.acts.open_kind_receivers()
        left = self._unfinished()
        while left:
            self._calm_rounds()
            before, left = left, self._unfinished()
            if left == before:
                break
        with self._checked():
            waiting = [receiver.name for receiver in world.receivers if receiver.commit_under_way]
            invariants.everything_is_finished(world.recorder.paper, waiting)
        with self._checked():
            self.acts.end(self._calm_round)

    def _calm_rounds(self) -> None:
        """As many as it takes, while something changes and as long as one message may take."""
        progress, idle = (-1, -1), 0
        for _ in range(CALM_ROUNDS):
            self._calm_round()
            done = self.world.recorder.paper.hand_overs, self._unfinished()
            progress, idle = done, idle + 1 if done == progress else 0
            if idle > STUCK_ROUNDS or not done[1]:
                break

    def _calm_round(self) -> None:
        world = self.world
        for node in [node for node in world.nodes if node.is_alive]:
            for worker in node.workers.ready():
                with self._checked():
                    worker.step()
            for receiver in [receiver for receiver in world.receivers_at(node) if receiver.can_act]:
                with self._checked():
                    self.acts.receive_at(receiver)
                    if receiver.can_act and receiver.items:
                        self.acts.settle_at(receiver, is_kind=True)
        with self._checked():
            self.acts.calm()
        world.clock.advance(CALM_MS)

    def _unfinished(self) -> int:
        """How many messages and commits have not come to their end."""
        paper = self.world.recorder.paper
        messages = sum(
            not changelog.is_settled(offset)
            for place, changelog in paper.changelogs.items()
            for offset in paper.messages[place]
        )
        return messages + sum(bool(receiver.commit_under_way) for receiver in self.world.receivers)

    # -- telling ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _listening(self) -> Iterator[None]:
        logger = logging.getLogger("jbm_kafka")
        level, propagate = logger.level, logger.propagate
        logger.addHandler(self._alarms)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self._alarms)
            logger.setLevel(level)
            logger.propagate = propagate

    def _report(self, cause: str) -> str:
        told = "" if self.plan is Plan.QUEUES else f" --plan {self.plan.value}"
        lines = "\n".join(list(self.world.history)[-LINES_SHOWN:])
        return (
            f"{cause}\n\nRepeat it with: python -m tests.simulation{told} --seed {self.seed} "
            f"--steps {self.steps}\nIt broke at act {self.acts_done}. {self.world.profile}\n\n{lines}"
        )

    def summary(self) -> str:
        """What happened, in a line."""
        paper, counts = self.world.recorder.paper, self.world.counts
        return (
            f"seed {self.seed}: {self.acts_done} acts, {self.world.messages_sent} messages, "
            f"{paper.hand_overs} hand-overs ({paper.zombie_hand_overs} by zombies), "
            f"{sum(map(len, paper.epochs.values()))} epochs, {sum(map(len, paper.written.values()))} checkpoints, "
            f"{len(paper.commits)} commits, {len(paper.copies[DLQ])} dead letters, {counts.crashes} crashes, "
            f"{counts.expiries} expired sessions, {counts.freezes} freezes, {counts.commits_unknown} unknown outcomes, "
            f"{self.world.cluster.waited_for_marks} waits for marks"
        )
