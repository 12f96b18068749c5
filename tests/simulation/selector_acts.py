"""Consumers with selectors that come and go on one queue; at the end some of them only, then everybody."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.acts import Acts
from tests.simulation.names import SELECTORS, colour_of, number_of
from tests.simulation.receiver import Mode, opening_of_queue

ROUNDS_WITHOUT_NEWS = 300
"""12 s, more than any delay here."""


class SelectorActs(Acts):
    """The acts of a simulation with selectors."""

    def before_end(self, rest: Callable[[], None]) -> None:
        """With some selectors only all comes that they choose, and what stands behind the rest of its unit waits."""
        world = self._world
        while any(receiver.commit_under_way for receiver in world.receivers):
            rest()
        for receiver in list(world.receivers):
            receiver.close()
            world.receivers.remove(receiver)
        some = [selector for selector in SELECTORS if selector is not None]
        present = self._chance.sample(some, self._chance.randint(1, 2))
        for node in world.nodes:
            for selector in present if node.is_alive else ():
                self._sessions += 1
                openings = [opening_of_queue(queue, selector) for queue in world.queues]
                self.open_receiver(node, self._chance.choice((Mode.CLIENT, Mode.INDIVIDUAL)), openings)
        paper, idle, version = world.recorder.paper, 0, -1
        while idle < ROUNDS_WITHOUT_NEWS:
            rest()
            idle, version = (idle + 1 if paper.version == version else 0), paper.version
        world.note(f"-- only {present} were there --")
        self._chosen_ones_come(frozenset[str]().union(*(SELECTORS[selector] for selector in present)))

    def _chosen_ones_come(self, colours: frozenset[str]) -> None:
        """SEL-1, UNIT-6: nothing that somebody chooses waits, but behind what nobody chooses of its unit."""
        paper = self._world.recorder.paper
        for place, changelog in paper.changelogs.items():
            held: set[bytes] = set()
            for offset, message in sorted(paper.messages[place].items()):
                if changelog.is_settled(offset) or message.unit in held:
                    continue
                if colour_of(number_of(message.name)) not in colours:
                    held.update(() if message.unit is None else (message.unit,))
                    continue
                raise AssertionError(f"chosen_ones_come: {message} is chosen and waits for nothing")
