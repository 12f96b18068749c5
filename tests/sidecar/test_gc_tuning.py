"""The garbage collector's threshold beside a sidecar."""

import gc
from collections.abc import Iterator

import pytest

from jbm_kafka.sidecar.gc_tuning import PYTHON_DEFAULT, YOUNG_OBJECTS, give_messages_time_to_die


@pytest.fixture(autouse=True)
def _thresholds() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.enable()


def test_pythons_own_threshold_is_raised() -> None:
    gc.set_threshold(*PYTHON_DEFAULT)
    give_messages_time_to_die()
    assert gc.get_threshold() == (YOUNG_OBJECTS, 10, 10)


def test_what_the_application_has_set_stays() -> None:
    gc.set_threshold(5_000, 5, 5)
    give_messages_time_to_die()
    assert gc.get_threshold() == (5_000, 5, 5)


def test_a_collector_that_is_off_is_left_alone() -> None:
    gc.set_threshold(*PYTHON_DEFAULT)
    gc.disable()
    give_messages_time_to_die()
    assert gc.get_threshold() == PYTHON_DEFAULT
