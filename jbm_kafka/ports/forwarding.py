"""What standalone sidecars that forward to each other ask of a provider, beside what every client asks."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jbm_kafka.core.subscription import Source
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.link_owner import LinkOwner


@runtime_checkable
class ForwardingSidecar(Protocol):
    """Any thread."""

    def publish_address(self, address: str) -> None:
        """Have the other sidecars find this one there. Raises JMSError."""

    def withdraw_address(self) -> None:
        """Nobody is to find it any more."""

    def other_addresses(self) -> frozenset[str]:
        """Those of the other sidecars, maybe also of some that are dead. Raises JMSError."""

    def attach_present(self, source: Source, link: Link) -> LinkOwner | None:
        """Serve the link from what this process owns at the time; None: nobody receives from the source here.

        It makes the process no member of the group, nor keeps it one.
        """
