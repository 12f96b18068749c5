"""What must hold of messages that operators took out, told by what they asked for and by what stands in the logs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from jbm_kafka.codec.command_records import Answer
from jbm_kafka.core.murmur2 import partition_for
from tests.simulation.names import DLQ, EXPIRED, MOVED
from tests.simulation.paper import Message, Place
from tests.simulation.world import World

TARGETS = {"move": MOVED, "expire": EXPIRED, "dead-letter": DLQ}
FATES = ("done", "in_hand", "behind", "too_large", "gone")


class TakenOut:
    """The model of one simulation."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._paper = world.recorder.paper
        self._split: set[tuple[Place, int]] = set()
        """Parts of units that somebody asked to move, and gave up their order."""
        self._may_leave: Counter[tuple[Place, int]] = Counter()
        """How often somebody asked that it leaves otherwise than by a move, and was not told that it stays."""
        self._done: dict[tuple[Place, int], str] = {}
        """By which verb an owner said that it was done."""
        self._checked = 0

    def are_split(self, place: Place, offsets: Sequence[int]) -> bool:
        """Some of a unit are among these, and others are left."""
        changelog, messages = self._paper.changelogs[place], self._paper.messages[place]
        end = self._world.recorder.log_of(place).stable_end
        left = {
            each.unit for o, each in messages.items() if o not in offsets and not changelog.is_settled(o) and o < end
        }
        units = {messages[offset].unit for offset in offsets} - {None}
        return not units.isdisjoint(left)

    def wished(self, verb: str, place: Place, offsets: Collection[int], *, is_split: bool) -> None:
        """An operator asks for that."""
        for offset in offsets:
            self._paper.wished[place][offset].add(verb)
            self._may_leave[place, offset] += verb != "move"
            if is_split:
                self._split.add((place, offset))

    def answered(self, verb: str, place: Place, asked: Sequence[int], answer: Answer) -> None:
        """An owner says what became of it."""
        has_address = verb != "dead-letter" or self._paper.profile.has_dead_letter_address
        assert answer.error or has_address, f"refused_without_address: {answer}"
        if answer.error:
            return
        told = [offset for fate in FATES for offset in answer.result[fate]]
        assert sorted(told) == sorted(asked), f"each_is_answered: {answer} to {asked}"
        for offset in answer.result["done"]:
            self._done[place, offset] = verb
        for offset in answer.result["in_hand"] if verb != "move" else ():
            self._may_leave[place, offset] -= 1

    def check(self) -> None:
        """All of it."""
        if self._checked == self._paper.version + len(self._done):
            return
        self._checked = self._paper.version + len(self._done)
        self.answered_is_done()
        self.one_copy_of_each()
        self.units_move_in_order()

    def answered_is_done(self) -> None:
        """What an owner answered is durable: it is gone for good, and its copy is there."""
        for (place, offset), verb in self._done.items():
            if place in self._paper.ended:
                continue  # nothing is owed to a subscription that is over
            message, changelog = self._paper.messages[place][offset], self._paper.changelogs[place]
            assert changelog.is_settled(offset), f"answered_is_done: {verb} of {message}, which is in its queue"
            target = TARGETS.get(verb)
            is_there = target is None or self._paper.copies[target][message.copy] == 1
            assert is_there, f"answered_is_done: {verb} of {message}, which is not in {target}"

    def one_copy_of_each(self) -> None:
        """It is in one place at most, and of what is only removed there is no copy."""
        places: dict[str, str] = {}
        for topic in (DLQ, EXPIRED, MOVED):
            for name in self._paper.copies[topic]:
                assert name not in places, f"one_copy_of_each: {name} is in {places[name]} and in {topic}"
                places[name] = topic
        for (place, offset), verb in self._done.items():
            message = self._paper.messages[place][offset]
            found = places.get(message.copy)
            assert found == TARGETS.get(verb), f"one_copy_of_each: {verb} of {message} is in {found}"

    def units_move_in_order(self) -> None:
        """UNIT-14, UNIT-15: in their order, each as it was, and none past an earlier one that stays."""
        partitions = self._world.cluster.partition_count(MOVED)
        for partition in range(partitions):
            last: dict[tuple[Place, bytes], Message] = {}
            for copy in sorted(self._paper.copied[MOVED, partition], key=lambda each: each.offset):
                message = self._paper.by_name[copy.name]
                assert self._paper.is_wished(message, "move"), f"moved_when_asked: nobody asked to move {message}"
                assert copy.unit == message.unit, f"units_stay: {message} is of unit {copy.unit!r} in {MOVED}"
                if message.unit is None or (message.place, message.offset) in self._split:
                    continue
                place = partition_for(message.unit, partitions)
                assert partition == place, f"units_stay: {message} is in partition {partition}"
                before = last.get((message.place, message.unit))
                assert before is None or before.offset < message.offset, (
                    f"units_move_in_order: {message} after {before}"
                )
                last[message.place, message.unit] = message
            for message in last.values():
                if message.place not in self._paper.ended:
                    self._none_is_passed(message)

    def _none_is_passed(self, latest: Message) -> None:
        changelog = self._paper.changelogs[latest.place]
        for earlier in self._paper.messages[latest.place].values():
            if (
                earlier.unit == latest.unit
                and earlier.offset < latest.offset
                and not changelog.is_settled(earlier.offset)
            ):
                is_leaving = self._is_leaving(earlier)
                assert is_leaving, f"units_move_whole: {latest} is moved past {earlier}"

    def _is_leaving(self, message: Message) -> bool:
        """It may be on its way to where nobody asked it to be moved to."""
        profile, offset = self._paper.profile, message.offset
        if message.expiration_ms or self._may_leave[message.place, offset] > 0:
            return True
        known = max(
            (e.attempts_before.get(offset, 0) + e.counted[offset] for e in self._paper.epochs[message.place]), default=0
        )
        return 0 <= profile.max_attempts <= known
