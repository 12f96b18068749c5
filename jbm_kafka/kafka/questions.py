"""Questions to the admin client: one deadline each; after passing errors they are repeated, others are translated."""

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from jbm_kafka.kafka.connection_faults import ConnectionFaults
from jbm_kafka.kafka.counted_lines import counted_at
from jbm_kafka.kafka.outage_lines import outage_at
from jbm_kafka.kafka.translated_errors import SILENCE, UNREACHABLE, cause, trouble
from jbm_kafka.ports import KafkaClientError, NobodyAnswers, Unreachable
from jbm_kafka.ports.shielded_call import shielded

_T = TypeVar("_T")
_PAUSE_S = 0.01
_PAUSE_MAX_S = 0.1
_GRACE_S = 1.0
"""librdkafka keeps a request's timeout itself; this is for its thread to say so."""
_ELECTION_S = 20.0
"""How much longer a question may take that waits for one broker while others answer: a cluster takes a broker for dead
9 s after its last word (`broker.session.timeout.ms`), and only then has what it led another leader."""
_AGAIN_S = 5.0
"""For each try then: a request that is on its way to a dead broker does not follow the new leader."""
_FIRST_TRY_S = 1.0
"""A connected broker describes a topic in a millisecond."""


class Deadline:
    """One budget of time, shared by every step of a question."""

    def __init__(self, timeout_s: float, *, grace_s: float = _GRACE_S) -> None:
        self._began = time.monotonic()
        self._at = self._began + timeout_s
        self.grace_s = grace_s

    def remaining_s(self) -> float:
        return max(0.001, self._at - time.monotonic())

    def next_try_s(self) -> float:
        """For a step that is better asked again than waited for: as long as everything before it took."""
        return min(self.remaining_s(), max(_FIRST_TRY_S, time.monotonic() - self._began))

    def is_over(self) -> bool:
        return time.monotonic() >= self._at


def result(future: Future[_T], deadline: Deadline) -> _T:
    """The future's value, or KafkaException."""
    try:
        return future.result(timeout=deadline.remaining_s() + deadline.grace_s)
    except FutureTimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT)) from None


def only(futures: Mapping[Any, Future[Any]]) -> Future[Any]:
    """The one future of a request about one thing."""
    (future,) = futures.values()
    return future


class Questions:
    """Runs questions with the time limit and the address they share."""

    def __init__(
        self,
        *,
        bootstrap: str,
        timeout_s: float,
        faults: ConnectionFaults,
        poll: Callable[[float], object],
        is_answered: Callable[[], bool] = lambda: False,
    ) -> None:
        """`poll` brings what the client has to say of its connections to `faults`; `is_answered` asks, for a moment,
        whether any broker answers."""
        self._bootstrap = bootstrap
        self._outage = outage_at(bootstrap)
        self._counted = counted_at(bootstrap)
        self._timeout_s = timeout_s
        self._faults = faults
        self._poll = poll
        self._is_answered = is_answered

    def ask(
        self,
        about: str,
        question: Callable[[Deadline], _T],
        timeout_s: float | None = None,
        *,
        right: str = "",
        is_of_a_broker: bool = True,
    ) -> _T:
        """Return what `question` returns; it may raise KafkaException and is asked again while that may help.

        Where one broker is silent and others answer, it waits for those to take over what that one led, if
        `is_of_a_broker`.
        A `timeout_s` of the question's own is kept to the moment: somebody's promise depends on it. `right`: what it
        takes, as in `Describe on topic orders`.
        """
        return shielded(lambda: self._ask(about, question, timeout_s, right, is_of_a_broker=is_of_a_broker))

    def _ask(
        self,
        about: str,
        question: Callable[[Deadline], _T],
        timeout_s: float | None,
        right: str,
        *,
        is_of_a_broker: bool,
    ) -> _T:
        deadline = Deadline(self._timeout_s) if timeout_s is None else Deadline(timeout_s, grace_s=0)
        elected_by_s = time.monotonic() + self._timeout_s + _ELECTION_S if timeout_s is None and is_of_a_broker else 0.0
        pause_s = _PAUSE_S
        self._poll(0)  # what is old goes first
        self._faults.forget()
        while True:
            try:
                answer = question(deadline)
            except KafkaException as raised:
                error = cause(raised)
                if error.code() not in UNREACHABLE:
                    raise self._translated(error, about, right) from None
                if deadline.is_over():
                    is_one_silent = error.code() in SILENCE and time.monotonic() < elected_by_s and self._is_answered()
                    if not is_one_silent:
                        raise self._translated(error, about, right) from None
                    deadline = Deadline(_AGAIN_S)
            else:
                self._faults.note_answer()
                self._outage.answered()
                self._counted.tell_due()
                return answer
            time.sleep(min(pause_s, deadline.remaining_s()))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def wait(self, about: str, is_so: Callable[[], bool], otherwise: str) -> None:
        """Return when `is_so` says yes; Unreachable with `otherwise` when the time is up."""
        deadline = Deadline(self._timeout_s)
        pause_s = _PAUSE_S
        while not is_so():
            if deadline.is_over():
                text = f"{about}: {otherwise} after {self._timeout_s:g} s (Kafka at {self._bootstrap})"
                raise Unreachable(text)
            time.sleep(min(pause_s, deadline.remaining_s()))
            pause_s = min(2 * pause_s, _PAUSE_MAX_S)

    def _translated(self, error: KafkaError, about: str, right: str) -> KafkaClientError:
        if error.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            text = f"{about}: a transaction on them is still open after {self._timeout_s:g} s"
            return Unreachable(f"{text} (Kafka at {self._bootstrap})")
        if error.code() in UNREACHABLE:
            if error.code() in SILENCE:
                self._outage.silent()
            self._poll(0)
            fault = self._faults.fault
            if fault is not None and fault.is_refusal:
                return fault.as_error(about)
            if (reason := self._faults.cause_at(self._bootstrap.split(","))) is not None:
                text = f"{about}: no answer from Kafka at {self._bootstrap}: {reason}"
                return NobodyAnswers(text, bootstrap=self._bootstrap)
        return trouble(error, about, self._bootstrap, right=right)
