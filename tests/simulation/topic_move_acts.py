"""Operators take messages out of durable subscriptions of a topic, each for itself (UNIT-14, TOPIC-2)."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.destination import Queue
from tests.simulation.lives import MOVED_OF
from tests.simulation.move_acts import MoveActs
from tests.simulation.paper import Place
from tests.simulation.topic_acts import TopicActs


class TopicMoveActs(MoveActs, TopicActs):
    """Those of both: applications subscribe and unsubscribe, and operators ask meanwhile."""

    def _places(self) -> list[Place]:
        """Of durable subscriptions, for nobody knows the names of others; the queue has a plan of its own."""
        lives = [life for life in self.subscriptions.lives if life.slot.is_durable and not life.is_over]
        return [place for life in lives for place in life.places]

    def _target(self, place: Place) -> Queue:
        subscription = self._world.recorder.subscriptions[place[0]]
        return next(Queue(topic) for topic, name in MOVED_OF.items() if name == subscription)

    def before_end(self, rest: Callable[[], None]) -> None:
        """Who subscribes again has it all: here too the dead are forgotten, and nothing else."""
        TopicActs.before_end(self, rest)
