"""The questions that standalone sidecars which forward to each other ask of a provider, beside what every client
asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from jbm_kafka.core.channel.branch import Branch, BranchState
from jbm_kafka.core.subscription import Source
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.kafka import Outgoing
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.link_owner import LinkOwner
from jbm_kafka.ports.unit_of_work import UnitOfWork


@runtime_checkable
class ForwardingSidecar(Protocol):
    """Any thread."""

    def publish_address(self, address: str) -> None:
        """Have the other sidecars find this one there. Raises JMSError."""

    def withdraw_address(self) -> None:
        """Nobody is to find it any more."""

    def other_addresses(self) -> frozenset[str]:
        """Return those of the other sidecars, maybe also of some that are dead. Raises JMSError."""

    def attach_present(self, source: Source, link: Link) -> LinkOwner | None:
        """Serve the link from what this process owns at the time; None: nobody receives from the source here.

        It makes the process no member of the group, nor keeps it one.
        """

    @property
    def decider(self) -> str:
        """Return what branches name that this process decides; see core/channel/branch.py."""

    def prepare(self, work: UnitOfWork) -> bytes:
        """Prepare its branch, for its decider; returns what that is to note. Raises JMSError."""

    def note_prepared(self, branch: str, record: bytes) -> None:
        """A branch that this process decides is prepared by another."""

    def decide_across(self, branches: Sequence[Branch], wanted: BranchState, sends: Sequence[Outgoing]) -> BranchState:
        """Decide branches that are prepared, all alike, and send with that; returns what is decided.

        Raises:
            TransactionInDoubtError: nobody knows.
            JMSError: it cannot be.
        """

    def note_decided(self, branch: str, state: BranchState, done: Completion) -> None:
        """Its decider says so. Completes when what is here of it is carried out, but for its record."""
