"""What is out of attempts stays, with its unit, until an administrator releases it (UNIT-16)."""

from __future__ import annotations

from jbm_kafka.codec.command_records import Command, encode_command
from jbm_kafka.ports import Outgoing
from tests.simulation.acts import Acts
from tests.simulation.names import COMMANDS, DLQ
from tests.simulation.paper import Place
from tests.simulation.world import World

ROUNDS_BETWEEN = 50
"""In the calm end: 2 s."""


class HoldActs(Acts):
    """The acts of a simulation in which administrators release what is kept."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.cluster.create_topic(COMMANDS, 1, {})
        self._asked: set[tuple[Place, int]] = set()
        """What somebody released, whatever became of that."""
        self._commands = 0
        self._rounds = 0

    def _release(self) -> None:
        chance, paper = self._chance, self._world.recorder.paper
        place = chance.choice(list(paper.changelogs))
        left = [offset for offset in paper.messages[place] if not paper.changelogs[place].is_settled(offset)]
        kept = [offset for offset in left if self._may_be_kept(place, offset)]
        named = chance.sample(kept, min(len(kept), chance.randint(1, 2)))
        if left and chance.random() < 0.2:
            named.append(chance.choice(left))  # of which there is nothing to release
        if named:
            self._ask(place, named)

    def _may_be_kept(self, place: Place, offset: int) -> bool:
        paper = self._world.recorder.paper
        return paper.handed[place][offset] >= paper.profile.max_attempts

    def _ask(self, place: Place, offsets: list[int]) -> None:
        """As `Admin.release` does, which asks again when it hears no answer."""
        self._asked.update((place, offset) for offset in offsets)
        self._commands += 1
        name = self._world.recorder.paper.names[place]
        command = Command(f"a{self._commands}", name.group, name.partition, "release", {"offsets": offsets})
        key, value = encode_command(command)
        self._world.note(f"an operator releases {offsets} of {place}")
        with self._world.cluster.changed:
            for _ in range(self._chance.choice((1, 1, 2))):
                self._world.cluster.append(Outgoing(COMMANDS, 0, key, value), None)

    def calm(self) -> None:
        self._rounds += 1
        paper = self._world.recorder.paper
        for place, changelog in paper.changelogs.items() if self._rounds % ROUNDS_BETWEEN == 0 else ():
            left = [offset for offset in paper.messages[place] if not changelog.is_settled(offset)]
            if left:
                self._ask(place, left)

    def check(self) -> None:
        """UNIT-16: nothing that is kept leaves before somebody says so."""
        paper = self._world.recorder.paper
        for name in paper.copies[DLQ]:
            message = paper.by_name[name]
            assert (message.place, message.offset) in self._asked, f"only_what_was_released_is_dead: {message}"
