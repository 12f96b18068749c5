"""One budget of silence for all steps of closing."""

import threading

from jbm_kafka.ports.patience import ASK_S, SILENCE_S, SLICE_S, Patience


class Steps:
    """Waits that end after so many tries, over a Kafka that is there or not; counts the seconds."""

    def __init__(self, *answers: bool, tries: int = 1_000_000) -> None:
        self._answers = list(answers)
        self._tries = tries
        self.waited_s = 0.0

    def is_there(self, seconds: float) -> bool:
        is_there = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        self.waited_s += 0.0 if is_there else seconds
        return is_there

    def wait(self, seconds: float) -> bool:
        self.waited_s += seconds
        self._tries -= 1
        return self._tries <= 0


def test_the_seconds_that_one_step_has_waited_in_vain_the_next_has_no_more() -> None:
    steps = Steps(False)
    patience = Patience(steps.is_there)
    assert not patience.wait(steps.wait, 20)
    assert not patience.wait(steps.wait, 20)
    assert patience.is_over
    assert SILENCE_S <= steps.waited_s < SILENCE_S + SLICE_S + ASK_S


def test_a_step_has_its_time_while_kafka_answers() -> None:
    steps = Steps(True)
    patience = Patience(steps.is_there)
    assert not patience.wait(steps.wait, 20)
    assert not patience.is_over
    assert steps.waited_s == 20


def test_kafka_that_comes_back_is_waited_for_anew() -> None:
    steps = Steps(False, False, False, True, tries=8)
    patience = Patience(steps.is_there)
    assert patience.wait(steps.wait, 20)
    assert not patience.is_over


def test_what_ends_at_once_asks_nobody() -> None:
    steps = Steps(False, tries=1)
    assert Patience(steps.is_there).wait(steps.wait, 20)
    assert steps.waited_s == SLICE_S


def test_a_call_that_waits_for_kafka_itself_is_left_alone() -> None:
    never, begun = threading.Event(), threading.Event()

    def call() -> None:
        begun.set()
        never.wait()

    patience = Patience(lambda seconds: False)
    assert not patience.run(call, 20)
    assert begun.is_set()
    assert patience.is_over
    never.set()
