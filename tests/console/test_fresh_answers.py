"""Answers that several browsers share for a moment."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from jbm_kafka.console.frame import fresh_answers
from jbm_kafka.console.frame.fresh_answers import FreshAnswers

LONG_S = 1_000.0


def test_fifty_that_ask_at_once_are_one_question() -> None:
    answers, asked, go_on = FreshAnswers(), [], threading.Event()

    def ask() -> str:
        asked.append(1)
        assert go_on.wait(30)
        return "a"

    with ThreadPoolExecutor(50) as pool:
        found = [pool.submit(answers.get, "key", LONG_S, ask) for _ in range(50)]
        go_on.set()
        assert {each.result() for each in found} == {"a"}
    assert len(asked) == 1


def test_what_failed_is_asked_again_and_what_was_changed_too() -> None:
    answers = FreshAnswers()

    def fail() -> str:
        raise KeyError

    with pytest.raises(KeyError):
        answers.get("key", LONG_S, fail)
    assert answers.get("key", LONG_S, lambda: "a") == "a"
    assert answers.get("key", LONG_S, lambda: "b") == "a"
    assert answers.get("key", 0, lambda: "b") == "b"
    answers.forget()
    assert answers.get("key", LONG_S, lambda: "c") == "c"


def test_old_answers_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = FreshAnswers()
    answers.get("old", LONG_S, lambda: "a")
    monkeypatch.setattr(fresh_answers, "KEPT_S", -1.0)
    answers.get("new", LONG_S, lambda: "b")
    assert not answers._known
    assert not answers._asking
