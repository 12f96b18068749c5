"""What was decided of branches lately, also of those of which nothing is recorded any more.

The records of a branch are deleted when it is carried out everywhere. A session or a manager that was slow then asks
for what others have decided; so it is remembered here, of all that was read.
"""

from __future__ import annotations

from typing import Final, TypeVar

from jbm_kafka.codec.branch_records import decode_branch, state_key
from jbm_kafka.core.channel.branch import BranchState, Xid
from jbm_kafka.core.jms_errors import CorruptRecordError

KEPT: Final = 10_000
_STATE: Final = state_key("")
K = TypeVar("K")


class Decisions:
    """Any thread may ask; one thread at a time takes notes."""

    def __init__(self) -> None:
        self._by_branch: dict[str, BranchState] = {}
        self._by_name: dict[Xid, BranchState] = {}

    def note(self, key: bytes, value: bytes) -> bool:
        """A record that was read; always true, for each is taken."""
        if key.endswith(_STATE):
            try:
                record = decode_branch(value)
            except CorruptRecordError:
                return True
            self._by_name.pop(record.xid, None)
            if record.state is not BranchState.PREPARED:
                _keep(self._by_branch, key[: -len(_STATE)].decode(), record.state)
                _keep(self._by_name, record.xid, record.state)
        return True

    def of(self, branch: str) -> BranchState | None:
        """Return the state of the branch with this id; None: nothing is known."""
        return self._by_branch.get(branch)

    def of_name(self, xid: Xid) -> BranchState | None:
        """Return the state of the last branch of this name; None: nothing is known."""
        return self._by_name.get(xid)


def _keep(known: dict[K, BranchState], key: K, state: BranchState) -> None:
    known[key] = state
    if len(known) > KEPT:
        del known[next(iter(known))]
