"""Operators move, remove, expire and give up messages while all goes on (UNIT-14, decision 40)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from jbm_kafka.admin.messages.batches import Portions
from jbm_kafka.admin.messages.selection import Choice, ChosenMessage, check_whole, choose
from jbm_kafka.codec.command_records import Answer, Command, decode_answer, encode_command
from jbm_kafka.core.channel.operator_removal import Verb
from jbm_kafka.core.channel.states import MessageState
from jbm_kafka.core.destination import Queue
from jbm_kafka.core.jms_errors import OrderError
from jbm_kafka.core.selectors.selector import parse_selector
from jbm_kafka.memory.memory_kafka import ProcessCrashed
from jbm_kafka.ports import Outgoing
from jbm_kafka.ports.provider import Seen
from tests.simulation.acts import Acts
from tests.simulation.names import COMMANDS, MOVED, SELECTORS, colour_of, number_of
from tests.simulation.paper import Message, Place
from tests.simulation.receiver import Mode, Receiver, opening_of_queue
from tests.simulation.taken_out import TakenOut
from tests.simulation.views import LogView
from tests.simulation.workers import Blocked
from tests.simulation.world import World

VERBS = ("move", "move", "move", "move", "remove", "expire", "dead-letter")
ASK_AGAIN_MS = 3_000
GIVE_UP_MS = 20_000
"""Of an operator who hears nothing."""
ATTENTION_MS, ROUND_MS = 1_200, 40
"""Owners look once a second."""
ROUNDS_TO_LEAVE = 1_000
"""40 s, more than any two timeouts here."""


@dataclass(eq=False, slots=True)
class Wish:
    """One operator's, of one partition: portion after portion."""

    verb: str
    place: Place
    portions: Portions
    answers: list[Answer] = field(default_factory=list)
    command: Command | None = None
    asked_at_ms: int = 0
    heard_at_ms: int = 0
    """Of an answer, or when it began."""
    asked: list[int] = field(default_factory=list)
    """The offsets of the portion that is asked for."""


class MoveActs(Acts):
    """The acts of a simulation in which operators take messages out."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        world.cluster.create_topic(COMMANDS, 1, {})
        self._talk = LogView(world.cluster.log(COMMANDS, 0))
        self._model = TakenOut(world)
        self._wishes: list[Wish] = []
        self._commands = 0
        self._idle: list[Receiver] = []
        """Who has partitions, and receives nothing."""

    # -- asking ----------------------------------------------------------------------------------------------------

    def _take_out(self) -> None:
        chance = self._chance
        places = self._places()
        if not places:
            return
        place = chance.choice(places)
        if sum(wish.place == place for wish in self._wishes) >= chance.choice((1, 2, 2)):
            return
        choice = self._some_messages(place)
        worked_on = self._worked_on()
        if worked_on and chance.random() < 0.6:
            place, unit = chance.choice(worked_on)
            choice = Choice(unit=unit)
        count = None if chance.random() < 0.85 else chance.randint(1, 4)
        self._wish(chance.choice(VERBS), place, choice, count=count, splits_units=chance.random() < 0.15)
        if chance.random() < 0.5:
            self._attend()  # before workers go on

    def _places(self) -> list[Place]:
        """Of which operators may take messages out."""
        return list(self._world.recorder.paper.changelogs)

    def _target(self, place: Place) -> Queue:
        """Where they move what is there to."""
        return Queue(MOVED)

    def _waiting(self, place: Place) -> list[Message]:
        """What the queue shows: all that is not settled, in the order of the log, before what is undecided."""
        paper, end = self._world.recorder.paper, self._world.recorder.log_of(place).stable_end
        messages = [message for offset, message in sorted(paper.messages[place].items()) if offset < end]
        return [message for message in messages if not paper.changelogs[place].is_settled(message.offset)]

    def _seen(self, place: Place) -> list[Seen]:
        log = self._world.recorder.log_of(place)
        records = [log.entry(message.offset)[0] for message in self._waiting(place)]
        return [Seen(record, MessageState.NEW, 0, 0, True) for record in records if record is not None]

    def _some_messages(self, place: Place) -> Choice:
        chance, waiting = self._chance, self._waiting(place)
        kind = chance.choices(("unit", "ids", "selector", "everything"), (8, 3, 2, 1))[0]
        if kind == "unit":
            return Choice(unit=f"u{chance.randrange(self._world.profile.units)}")
        if kind == "ids":
            known = choose(self._seen(place), Choice(), order="log", count=None).messages
            ids = chance.sample([message.message_id for message in known], min(len(waiting), chance.randint(1, 3)))
            return Choice(ids=frozenset(ids))
        if kind == "selector":
            return Choice(selector=parse_selector(chance.choice([each for each in SELECTORS if each is not None])))
        return Choice()

    def _worked_on(self) -> list[tuple[Place, str]]:
        """Units of which somebody has some in hand."""
        paper = self._world.recorder.paper
        epochs = (paper.current(place) for place in self._places())
        hands = [hand.message for epoch in epochs if epoch is not None for hand in epoch.hand.values()]
        return [(message.place, message.unit.decode()) for message in hands if message.unit is not None]

    def _wish(self, verb: str, place: Place, choice: Choice, *, count: int | None, splits_units: bool) -> None:
        seen = self._seen(place)
        chosen = choose(seen, choice, order=self._chance.choice(("log", "sent")), count=count)
        self._is_what_was_meant(place, choice, count, chosen.messages)
        messages = chosen.messages
        offsets = [message.offset for message in messages]
        try:
            check_whole(chosen, splits_units=splits_units or verb != "move")
        except OrderError:
            assert self._model.are_split(place, offsets), f"refused_when_split: {offsets} of {place}"
            return
        is_split = verb == "move" and self._model.are_split(place, offsets)
        assert splits_units or not is_split, f"refused_when_split: {offsets} of {place} are moved"
        if not offsets:
            return
        size = 1_000 if self._world.is_ending else self._chance.choice((1, 2, 1_000))
        split = [messages[begin : begin + size] for begin in range(0, len(messages), size)]
        portions = Portions(Verb(verb), self._target(place) if verb == "move" else None, splits_units, split)
        wish = Wish(verb, place, portions, heard_at_ms=self._world.clock.monotonic_ms())
        self._model.wished(verb, place, offsets, is_split=is_split)
        self._wishes.append(wish)
        self._ask(wish)

    def _is_what_was_meant(
        self, place: Place, choice: Choice, count: int | None, chosen: Sequence[ChosenMessage]
    ) -> None:
        """SEL-1, in a few words of their own; the ids are what is asked for."""
        colours = None if choice.selector is None else SELECTORS[choice.selector.text]
        meant = {
            message.offset
            for message in self._waiting(place)
            if (choice.unit is None or (message.unit or b"").decode() == choice.unit)
            and (colours is None or colour_of(number_of(message.name)) in colours)
        }
        found = {message.offset for message in chosen}
        is_right = found <= meant if choice.ids is not None or count is not None else found == meant
        assert is_right, f"what_was_meant: {sorted(found)} of {sorted(meant)} in {place}"

    def _ask(self, wish: Wish) -> None:
        """As `Owners.ask_in_turn` does."""
        if wish.command is None:
            arguments = wish.portions.arguments(wish.answers)
            if arguments is None or (wish.answers and wish.answers[-1].error):
                self._wishes.remove(wish)
                return
            self._commands += 1
            wish.asked = arguments["offsets"]
            name = self._world.recorder.paper.names[wish.place]
            wish.command = Command(f"a{self._commands}", name.group, name.partition, wish.verb, arguments)
        wish.asked_at_ms = self._world.clock.monotonic_ms()
        key, value = encode_command(wish.command)
        self._world.note(f"an operator asks {wish.command.id}: {wish.verb} {wish.asked} of {wish.place}")
        with self._world.cluster.changed:
            self._world.cluster.append(Outgoing(COMMANDS, 0, key, value), None)

    # -- hearing ---------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """What was answered, and what must hold of what was taken out."""
        super().check()
        answers = (decode_answer(record.key(), record.value()) for record in self._talk.news())
        for answer in answers:
            if answer is not None:
                self._hear(answer)
        now_ms = self._world.clock.monotonic_ms()
        for wish in list(self._wishes):
            if now_ms - wish.heard_at_ms > GIVE_UP_MS:
                self._wishes.remove(wish)
            elif now_ms - wish.asked_at_ms > ASK_AGAIN_MS:
                self._ask(wish)
        self._model.check()

    def _hear(self, answer: Answer) -> None:
        self._world.note(f"an owner answers {answer.id}: {answer.error or dict(answer.result)}")
        found = [wish for wish in self._wishes if wish.command is not None and wish.command.id == answer.id]
        for wish in found:
            self._model.answered(wish.verb, wish.place, wish.asked, answer)
            wish.answers.append(answer)
            wish.command, wish.heard_at_ms = None, self._world.clock.monotonic_ms()
            self._ask(wish)

    def _attend(self) -> None:
        """So much time passes as owners take to hear of it; each does what it is ready to."""
        for _ in range(ATTENTION_MS // ROUND_MS if self._wishes else 0):
            for node in self._nodes():
                for worker in node.workers.ready():
                    with suppress(ProcessCrashed, Blocked):
                        worker.step()
            self._world.recorder.look()
            self._world.clock.advance(ROUND_MS)

    # -- the end ---------------------------------------------------------------------------------------------------

    def before_end(self, rest: Callable[[], None]) -> None:
        """Now and then nobody works any more, and an operator moves all that is left."""
        if self._chance.random() < 0.5:
            return
        world = self._world
        while any(receiver.commit_under_way for receiver in world.receivers):
            rest()
        for receiver in list(world.receivers):
            receiver.close()
            world.receivers.remove(receiver)
        for node in world.nodes:
            if node.is_alive:
                self._sessions += 1
                openings = [opening_of_queue(queue) for queue in world.queues]
                self._idle.append(self.open_receiver(node, Mode.CLIENT, openings))
                world.receivers.remove(self._idle[-1])
        self._wishes.clear()  # who asked goes, whatever becomes of it
        for _ in range(ROUNDS_TO_LEAVE):
            for place in world.recorder.paper.changelogs:
                if not any(wish.place == place for wish in self._wishes):
                    self._wish("move", place, Choice(), count=None, splits_units=False)
            if not any(self._waiting(place) for place in world.recorder.paper.changelogs):
                break
            rest()
        left = [str(message) for place in world.recorder.paper.changelogs for message in self._waiting(place)]
        assert not left, f"all_is_moved: nobody works, and {left} stay"
        for receiver in self._idle:
            receiver.close()
