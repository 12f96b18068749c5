"""When a sidecar may be used: its first use begins it, and `end` ends it once."""

from __future__ import annotations

import pytest

from jbm_kafka.core.jms_errors import IllegalStateError, JMSError
from jbm_kafka.sidecar.lifetime import Lifetime


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
