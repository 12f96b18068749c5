"""Reads the commands of administrators from `jbm.commands`, and writes this process's answers there (decision 34)."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import closing

from jbm_kafka.codec.command_records import Answer, Command, decode_command, encode_answer
from jbm_kafka.ports import AccessRefused, Kafka, KafkaAdmin, KafkaClientError, Outgoing, UnknownTopic
from jbm_kafka.ports.patience import Patience
from jbm_kafka.ports.steps import Steps, StepWorker, Wait, Workers
from jbm_kafka.ports.wake_up import WakeUp

log = logging.getLogger(__name__)

READ_TIMEOUT_S = 5.0
LOOKS_LEFT_OUT = 10
SEND_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 10.0


class CommandServer:
    """Serves commands from `start` to `stop`. Any thread may call it."""

    def __init__(
        self,
        *,
        kafka: Kafka,
        admin: KafkaAdmin,
        topic: str,
        look_ms: int,
        carry_out: Callable[[Command, Callable[[Answer], None]], None],
    ) -> None:
        """`carry_out` is given every command that comes, and answers, on any thread, those that are this process's."""
        self._kafka = kafka
        self._admin = admin
        self._topic = topic
        self._look_s = look_ms / 1_000
        self._carry_out = carry_out
        self._position: int | None = None
        """Commands before it were heard, or came before this process."""
        self._is_there = False
        """The topic is."""
        self._is_refused = False
        """It was logged that nothing may be heard or answered."""
        self._looks_left_out = 0
        """More, while the topic is not there: each answer that says so leaves some bytes in the client."""
        self._answers: deque[Answer] = deque()
        self._wake = WakeUp()
        self._is_stopping = False
        self._worker: StepWorker | None = None

    def start(self, workers: Workers) -> None:
        """Listen from now on; again: nothing happens."""
        if self._worker is None:
            self._worker = workers.start("jbm-commands", self._run())

    def stop(self, patience: Patience) -> None:
        """Write the last answers, and end."""
        self._is_stopping = True
        self._wake.set()
        if self._worker is not None:
            patience.wait(self._worker.wait_end, STOP_TIMEOUT_S)

    def answer(self, answer: Answer) -> None:
        """Write an answer soon."""
        self._answers.append(answer)
        self._wake.set()

    def _run(self) -> Steps:
        while not self._is_stopping:
            self._try(self._look)
            yield Wait(self._look_s, self._wake)
            self._wake.clear()
            self._try(self._send_answers)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except UnknownTopic:
            self._is_there, self._looks_left_out = False, LOOKS_LEFT_OUT
            self._position = 0  # when it is made, all of it is new
        except AccessRefused as error:  # whoever asks only sees that nobody answers
            level = logging.DEBUG if self._is_refused else logging.WARNING
            self._is_refused = True
            log.log(level, "administrators' commands cannot be heard or answered here, until this is mended: %s", error)
        except KafkaClientError as error:
            # The asking process asks again.
            log.debug("commands of administrators cannot be heard or answered now: %s", error)

    def _look(self) -> None:
        if self._looks_left_out:
            self._looks_left_out -= 1
            return
        if not self._is_there:
            if not self._admin.describe([self._topic]):
                raise UnknownTopic(self._topic)
            self._is_there = True
        end = self._admin.end_positions(self._topic, [0], stable=True)[0]
        begin = self._position
        if begin is None or begin == end:
            self._position = end
            return
        if begin > end:
            begin = 0  # it was made anew
        with closing(self._kafka.log_reader()) as reader:
            records = reader.read(self._topic, {0: (begin, end)}, timeout_s=READ_TIMEOUT_S)
        self._position, self._is_refused = end, False
        for record in records:
            command = decode_command(record.key(), record.value())
            if command is not None:
                # Of all queues, in each process: the one that carries it out logs what became of the messages.
                log.debug("%s of partition %d of group %s is asked for", command.verb, command.partition, command.group)
                self._carry_out(command, self.answer)

    def _send_answers(self) -> None:
        if not self._answers:
            return
        sender = self._kafka.sender()
        try:
            while self._answers:
                key, value = encode_answer(self._answers.popleft())
                sender.send(Outgoing(self._topic, 0, key, value), None)
            sender.flush(SEND_TIMEOUT_S)
        finally:
            sender.close(SEND_TIMEOUT_S)
