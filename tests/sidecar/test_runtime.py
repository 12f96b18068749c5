"""When a sidecar may be used, and what it does to the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.sidecar.runtime import PYTHON_DEFAULT, YOUNG_OBJECTS, Lifetime, give_messages_time_to_die


def test_the_first_use_begins_it_and_the_others_find_it_begun() -> None:
    begun: list[str] = []
    lifetime = Lifetime(lambda: begun.append("begun"))
    assert not begun
    lifetime.begin()
    lifetime.begin()
    assert begun == ["begun"]


def test_a_beginning_that_failed_is_tried_again_by_the_next_use() -> None:
    tries: list[str] = []

    def begin() -> None:
        tries.append("try")
        if len(tries) == 1:
            raise JMSError("cannot use the cluster")

    lifetime = Lifetime(begin)
    with pytest.raises(JMSError, match="cannot use the cluster"):
        lifetime.begin()
    lifetime.begin()
    lifetime.begin()
    assert tries == ["try", "try"]


def test_it_ends_once_and_is_refused_from_then_on() -> None:
    lifetime = Lifetime(lambda: None)
    lifetime.check()
    assert lifetime.end()
    assert not lifetime.end()
    with pytest.raises(IllegalStateError, match="the sidecar is closed"):
        lifetime.check()


@pytest.fixture
def thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_pythons_own_threshold_is_raised(thresholds: None) -> None:
    gc.set_threshold(*PYTHON_DEFAULT)
    give_messages_time_to_die()
    assert gc.get_threshold() == (YOUNG_OBJECTS, 10, 10)


def test_what_the_application_has_set_stays(thresholds: None) -> None:
    gc.set_threshold(5_000, 5, 5)
    give_messages_time_to_die()
    assert gc.get_threshold() == (5_000, 5, 5)


def test_a_collector_that_is_off_is_left_alone(thresholds: None) -> None:
    gc.set_threshold(*PYTHON_DEFAULT)
    gc.disable()
    give_messages_time_to_die()
    assert gc.get_threshold() == PYTHON_DEFAULT
