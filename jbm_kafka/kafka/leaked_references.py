"""Gives back what confluent-kafka forgets, 2.13 to 2.16 at least: it holds one reference too many to the id of each
topic that it describes, and to the error inside each exception that it raises of a call (its issue 1901).

A hundred bytes each, but malloc gives back no page that one of them lies on: each client that used a durable
subscription and left made the process larger by 120 kB. A reference is given back only where there is one more than the
same objects have when they are made here, so a confluent-kafka without the fault is left alone.

A call that fails while an exception is being handled keeps that one for good, and with it all that its frames hold: a
Kafka client with its threads and connections, whose calls fail together. For Python takes a KafkaError for an exception
by its flags and notes there what was handled, and confluent-kafka never looks there.
"""

import ctypes
import sys
from contextlib import suppress
from types import TracebackType

from confluent_kafka import KafkaError, KafkaException, Uuid
from confluent_kafka.admin import TopicDescription  # type: ignore[attr-defined]  # imported there, not exported

_let_go = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_DecRef", ctypes.pythonapi))

_set_context = ctypes.PYFUNCTYPE(None, ctypes.py_object, ctypes.c_void_p)(("PyException_SetContext", ctypes.pythonapi))
_HAS_CONTEXT = bool(KafkaError.__flags__ & 1 << 30)
"""Py_TPFLAGS_BASE_EXC_SUBCLASS, of a class that is none: without it there is no such place to write to."""


class Unheeded(suppress):
    """A call of a client whose KafkaException means nothing, and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(KafkaException)

    def __exit__(
        self, kind: type[BaseException] | None, raised: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(raised, KafkaException):
            let_handled_go(raised)
        return super().__exit__(kind, raised, trace)


def let_handled_go(raised: KafkaException) -> None:
    """Release the exception that was being handled when a call raised this one."""
    if _HAS_CONTEXT and isinstance(raised.args[0], KafkaError):
        _set_context(raised.args[0], None)


def let_topic_id_go(described: TopicDescription) -> None:
    """Release the topic id of an answer that nobody has asked for it yet."""
    if _of_topic_id(described) == _TOPIC_ID_ALONE + 1:
        _let_go(described.topic_id)


def let_error_go(raised: KafkaException) -> None:
    """Release what an exception holds that a client's call raised itself, not a future, and nobody has looked into."""
    let_handled_go(raised)
    if _of_error(raised) == _ERROR_ALONE + 1:
        _let_go(raised.args[0])


def _of_topic_id(described: TopicDescription) -> int:
    return sys.getrefcount(described.topic_id)


def _of_error(raised: KafkaException) -> int:
    return sys.getrefcount(raised.args[0])


_TOPIC_ID_ALONE = _of_topic_id(TopicDescription("", Uuid(0, 0), False, []))
_ERROR_ALONE = _of_error(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
