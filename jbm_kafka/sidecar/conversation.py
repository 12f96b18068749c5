"""A conversation with the owners of partitions, held in `jbm.commands` (decision 34)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

from jbm_kafka.codec.command_records import Answer, Command, decode_answer, encode_command
from jbm_kafka.ports import Kafka, KafkaAdmin, KafkaClientError, Outgoing, Unreachable

POLL_S = 0.2
SEND_TIMEOUT_S = 10.0


class Conversation:
    """Hears the answers that come after it was made. One thread; as a context manager it ends itself."""

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
        """What came, to whomever; waits a moment for the first."""
        found = [decode_answer(record.key(), record.value()) for record in self._reader.poll(1_000, POLL_S)]
        return [answer for answer in found if answer is not None]

    def close(self) -> None:
        """Hear nothing more."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
