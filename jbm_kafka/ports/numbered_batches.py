"""Transactions that somebody outside Kafka can tell apart afterwards: each leaves its number there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from jbm_kafka.ports.provider import ServingProvider
from jbm_kafka.ports.record_to_send import Outgoing


class NumberedBatches(Protocol):
    """Transactions of one transactional id. One thread."""

    def cluster_id(self) -> str:
        """Returns the id of the cluster that they are in; KafkaClientError when nobody says."""

    def take_over(self) -> int:
        """Fence whoever wrote by this id before, end what that left open, and return the number committed last.

        0: none was, or the last was so long ago that Kafka has forgotten it.

        Raises:
            KafkaClientError: it cannot be known now.
        """

    def write(self, number: int, records: Sequence[tuple[int, Outgoing]]) -> None:
        """Commit these records, each with a token, and the number with them: all of it or nothing.

        Raises:
            TransactionAborted: nothing was written; `failed` and `refusals` name tokens.
            OutcomeUnknown: `take_over` tells.
            KafkaClientError: nothing was written.
        """

    def close(self) -> None:
        """Let the id go."""


class ProviderOfBatches(ServingProvider, Protocol):
    """A provider whose Kafka can be written to like that."""

    def numbered_batches(self, name: str) -> NumberedBatches:
        """Returns those of this name, which nobody else should use."""
