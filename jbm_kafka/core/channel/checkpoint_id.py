"""The name of a checkpoint: `<transactional id>:<number>`.

It stands in the channel's `position` entry and in the metadata of the offset committed with it. An offset whose
metadata is no such name was set by an operator. Names must never come twice, also over restarts: after an unknown
outcome a sidecar compares them to learn whether its checkpoint was committed. So the numbers of a run begin at its
wall clock, far above those of earlier runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

NUMBERS_PER_MS = 1000
"""Room between two runs: a run would have to make this many checkpoints a millisecond to meet the next one."""

_FORM = re.compile(r"(?P<transactional_id>(?:[A-Za-z0-9._-]+\.)?jbm\.[A-Za-z0-9._-]+):(?P<number>0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class CheckpointId:
    """Which checkpoint; `str()` is what is written."""

    transactional_id: str
    """The id of the producer that wrote it."""
    number: int
    """Grows with every checkpoint of one transactional id."""

    def __post_init__(self) -> None:
        assert _FORM.fullmatch(str(self)), f"not a checkpoint id: {self}"

    def __str__(self) -> str:
        return f"{self.transactional_id}:{self.number}"

    def following(self) -> Self:
        """The next one of the same producer."""
        return type(self)(self.transactional_id, self.number + 1)


def first_checkpoint_id(transactional_id: str, *, now_ms: int) -> CheckpointId:
    """Where a run that starts now begins to count."""
    return CheckpointId(transactional_id, now_ms * NUMBERS_PER_MS)


def parse_checkpoint_id(text: str) -> CheckpointId | None:
    """None when the text was not written by a checkpoint of ours."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    return CheckpointId(match["transactional_id"], int(match["number"]))


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """A consumer group's committed offset for one partition."""

    position: int
    metadata: str
    """Our checkpoint id, or anything an operator's tool wrote (usually empty)."""
