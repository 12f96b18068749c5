"""The end of a block closes what was given to it."""

from __future__ import annotations

from contextlib import suppress

from jbm_kafka.core.closed_at_end import ClosedAtEnd


class Door(ClosedAtEnd):
    """A thing to be closed."""

    is_open = True

    def close(self) -> None:
        self.is_open = False


def test_a_block_closes_what_it_was_given_also_when_it_fails() -> None:
    door = Door()
    with suppress(KeyError), door as given:
        assert given is door
        assert door.is_open
        raise KeyError
    assert not door.is_open
