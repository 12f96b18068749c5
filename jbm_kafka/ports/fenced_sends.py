"""Transactions under a fixed name, with records of the name's own: what whoever has the name last may write alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from jbm_kafka.ports.record_to_send import Outgoing


class FencedSends(Protocol):
    """The transactions of one name in one cluster; a provider of Kafka's makes them by `fenced_sends`. One thread."""

    def take_over(self) -> Mapping[bytes, bytes]:
        """Be the one that has the name, and end what is open of whoever had it before: what the name's records say.

        Raises:
            KafkaClientError: no answer, or a right is missing.
        """

    def commit(self, sends: Sequence[Outgoing], records: Mapping[bytes, bytes | None]) -> None:
        """Write both, or nothing; None deletes a record of the name's.

        Raises:
            FencedOff: somebody else has the name now; nothing was written.
            KafkaClientError: what became of it `take_over` tells, which must be called again.
        """

    def close(self) -> None:
        """Let go of the name."""


class FencedOff(Exception):
    """Another process has taken the name over."""
