"""Transactions under a fixed name: whoever has the name last writes alone, and finds what was committed under it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from jbm_kafka.ports.provider import ServingProvider
from jbm_kafka.ports.record_to_send import Outgoing


class FencedSends(Protocol):
    """The transactions of one name in one cluster; a provider of Kafka's makes them by `fenced_sends`. Any thread."""

    def holder(self) -> str | None:
        """Return the process that has the name and shows that it lives; None: it is free, or was ours before.

        To be asked again and again: it counts as gone when it shows nothing new for some time.

        Raises:
            KafkaClientError: no answer, or a right is missing.
        """

    def take_over(self) -> Mapping[bytes, bytes]:
        """Be the one that has the name, and end what is open of whoever had it before: what the name's records say.

        Raises:
            FencedOff: somebody else has taken it over meanwhile.
            KafkaClientError: no answer, or a right is missing.
        """

    def commit(self, sends: Sequence[Outgoing], records: Mapping[bytes, bytes | None]) -> None:
        """Write both, or nothing; None deletes a record of the name's.

        Raises:
            FencedOff: somebody else has the name now; nothing was written.
            KafkaClientError: what became of it `take_over` tells, which must be called again.
        """

    def sign(self) -> None:
        """Show others that this process lives; to be called every second while the name is ours. Raises as `commit`."""

    def release(self, records: Mapping[bytes, bytes | None]) -> None:
        """Write the records, and let others have the name at once. Raises as `commit`."""

    def close(self) -> None:
        """Write nothing more. Others have the name when it was released, or has shown nothing for some time."""


class FencedOff(Exception):
    """Another process has taken the name over."""


class NumberedBatches(Protocol):
    """Transactions of one name, of which somebody outside Kafka knows the last by its number. One thread."""

    def cluster_id(self) -> str:
        """Returns the id of the cluster that they are in; KafkaClientError when nobody says."""

    def take_over(self) -> int:
        """Fence whoever wrote by this id before, end what that left open, and return the number committed last.

        0: none was, or the last was so long ago that Kafka has forgotten it.

        Raises:
            KafkaClientError: it cannot be known now.
        """

    @property
    def is_taken_over(self) -> bool:
        """False before `take_over`, and after a failure that only another one mends."""

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
