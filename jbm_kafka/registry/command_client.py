"""Sends commands to the owners of partitions through `jbm.commands`, and reads their answers (decision 34)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from jbm_kafka.codec.command_records import Answer, Command, decode_answer, encode_command
from jbm_kafka.core.closed_at_end import ClosedAtEnd
from jbm_kafka.ports import GroupMember, Kafka, KafkaAdmin, KafkaClientError, Outgoing, Unreachable

ASK_AGAIN_S = 2.0
"""Owners look every second; one that says nothing for so long may have gone before it answered: it is asked again,
and the user sees that it is waited for."""
POLL_S = 0.2
SEND_TIMEOUT_S = 10.0


class CommandClient(ClosedAtEnd):
    """Sends commands and gets the answers that come from then on. One thread; a context manager, which closes it."""

    def __init__(self, kafka: Kafka, admin: KafkaAdmin, topic: str) -> None:
        """Raises KafkaClientError: the topic is not there, or cannot be read."""
        self._kafka = kafka
        self._topic = topic
        end = admin.end_positions(topic, [0], stable=True)[0]
        self._reader = kafka.tail_reader()
        self._reader.assign(topic, {0: end})

    def send(self, commands: Iterable[Command]) -> None:
        """Ask; again with the same commands where nobody answered.

        Raises:
            KafkaClientError: they are not written: no answer of a broker, or no right to write there.
        """
        refused: list[KafkaClientError] = []

        def report(error: KafkaClientError | None) -> None:
            if error is not None:
                refused.append(error)

        sender = self._kafka.sender()
        try:
            for command in commands:
                key, value = encode_command(command)
                sender.send(Outgoing(self._topic, 0, key, value), report)
            if not sender.flush(SEND_TIMEOUT_S):
                raise Unreachable(f"topic {self._topic}: not written within {SEND_TIMEOUT_S:g} s")
        finally:
            sender.close(SEND_TIMEOUT_S)
        if refused:
            raise refused[0]

    def answers(self) -> Sequence[Answer]:
        """Return what came, to whomever; waits a moment for the first."""
        found = [decode_answer(record.key(), record.value()) for record in self._reader.poll(1_000, POLL_S)]
        return [answer for answer in found if answer is not None]

    def ask(
        self,
        commands: Iterable[Command],
        *,
        patience_s: Callable[[Collection[Command]], float],
        answered: Callable[[Command, Answer], None],
        late: Callable[[Collection[Command], float], None],
    ) -> None:
        """Ask, again where nobody says anything, until each has its answer or the time is up.

        Args:
            patience_s: how long in all, by what is still open.
            late: is called once where something is open when it is asked again, with that and with the seconds that it
                is waited for at most from then on.

        Raises:
            KafkaClientError: as of `send`.
        """
        began_s = time.monotonic()
        open_ = {command.id: command for command in commands}
        rounds = 0
        while open_:
            now_s, deadline_s = time.monotonic(), began_s + patience_s(open_.values())
            if now_s >= deadline_s:
                return
            rounds += 1
            if rounds == 2:
                late(open_.values(), deadline_s - now_s)
            self.send(open_.values())
            again_at_s = min(time.monotonic() + ASK_AGAIN_S, deadline_s)
            while open_ and time.monotonic() < again_at_s:
                for answer in self.answers():
                    command = open_.pop(answer.id, None)
                    if command is not None:
                        answered(command, answer)

    def close(self) -> None:
        """Hear nothing more."""
        self._reader.close()


def waited_for(members: Iterable[GroupMember], partitions: Collection[int], seconds: float) -> str:
    """The line for a user that waits for these partitions' members, `seconds` more at most."""
    names = sorted({member.name for member in members})
    place = places_text(partitions)
    awaited = f"{' and '.join(names)}, which {'has' if len(names) == 1 else 'have'} {place} and did not answer yet"
    if not names:
        awaited = f"whoever may still have {place}, which the group is giving to others"
    return f"waits for {awaited}; {math.ceil(seconds)} s more at most"


def places_text(partitions: Collection[int]) -> str:
    """`partition 3`, `partitions 3, 5`."""
    return f"partition{'' if len(partitions) == 1 else 's'} {', '.join(map(str, sorted(partitions)))}"
