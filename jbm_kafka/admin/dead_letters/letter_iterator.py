"""A look at dead letters, which begins anew with each iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from jbm_kafka.admin.dead_letters.letters import DeadLetter
from jbm_kafka.core.destination import Queue
from jbm_kafka.jms.message import Message
from jbm_kafka.jms.one_process import refuse_pickle


class LetterLook(Iterable[tuple[DeadLetter, Message]]):
    """What `Admin.dead_letters` gives. A generator, iterated again, would show nothing in silence. One thread."""

    __reduce__ = refuse_pickle

    def __init__(self, queue: Queue, look: Callable[[], Iterator[tuple[DeadLetter, Message]]]) -> None:
        """`look`: a look from the beginning."""
        self._queue = queue
        self._look = look

    def __iter__(self) -> Iterator[tuple[DeadLetter, Message]]:
        return self._look()

    def __repr__(self) -> str:
        return f"<LetterLook {self._queue}: iterate it for pairs of a DeadLetter and its message>"
