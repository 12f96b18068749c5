"""Keeps the outcome of each send of one command, so that after a failure nothing is sent twice or left out.

Sends are not waited for one by one: when one fails, those behind it may be under way, and some of them arrive.
"""

from __future__ import annotations

from jbm_kafka.core.jms_errors import SendTimeoutError
from jbm_kafka.jms.messages.message import Message


class Runs:
    """Numbers that only grow, as runs without a gap: a million lines that were sent are one run."""

    def __init__(self) -> None:
        self.runs: list[tuple[int, int]] = []
        """First and last of each."""

    def add(self, first: int, last: int) -> None:
        """Add those from first to last; none where last is less."""
        if last < first:
            return
        if self.runs and self.runs[-1][1] == first - 1:
            self.runs[-1] = (self.runs[-1][0], last)
        else:
            self.runs.append((first, last))

    def text(self, noun: str) -> str:
        """As in "lines 1 to 2 and 4"; "" for none."""
        texts = [f"{first}" if first == last else f"{first} to {last}" for first, last in self.runs]
        is_one = len(texts) == 1 and " " not in texts[0]
        listed = " and ".join([*([", ".join(texts[:-1])] if texts[:-1] else []), *texts[-1:]])
        return f"{noun}{'' if is_one else 's'} {listed}" if texts else ""


class SendProgress:
    """Counts sends from 1, in the order in which they were asked for; a connection reports them in that order."""

    def __init__(self, destination: object, noun: str = "message") -> None:
        """`noun` is what each send is to the user: a line of the file, or a message."""
        self.begun = 0
        """Sends that were asked for."""
        self.sent = 0
        """The number of them that Kafka has confirmed."""
        self.failure: Exception | None = None
        """The failure of the first that failed."""
        self._destination = destination
        self._noun = noun
        self._failed = 0
        """Its number."""
        self._reported = 0
        self._sent = Runs()
        self._unsure = Runs()

    def reported(self, message: Message, error: Exception | None) -> None:
        """The next one is confirmed, or has failed."""
        self._reported += 1
        number = self._reported
        if error is None:
            self.sent += 1
            self._sent.add(number, number)
            return
        if isinstance(error, SendTimeoutError):
            self._unsure.add(number, number)
        self.fail(number, error)

    def fail(self, number: int, error: Exception) -> None:
        """This one failed."""
        if self.failure is None or number < self._failed:
            self.failure, self._failed = error, number

    def refused(self, error: Exception) -> None:
        """The next one could not be begun: it was refused at once, and no report of it comes."""
        if self.failure is None:
            self.fail(self.begun + 1, error)

    def text(self) -> str:
        """How far it came, for a user that goes on from there."""
        if self.failure is None:
            doubtful = self.begun - self.sent
            of_others = f"; of {doubtful} more it is not known" if doubtful else ""
            return f"the first {self.sent} were sent to {self._destination}{of_others}"
        if self._failed == 1 and self.begun <= 1 and self._noun == "message":
            return str(self.failure)  # it was the only one
        self._unsure.add(self._reported + 1, self.begun)
        sent, unsure = self._sent.text(self._noun), self._unsure.text(self._noun)
        verb = "was" if sent and sent.startswith(f"{self._noun} ") else "were"
        done = f"{sent} {verb} sent to {self._destination}, and nothing else" if sent else "nothing was sent"
        if unsure:
            done = f"{done} for certain; of {unsure} it is not known"
        return f"{self._noun} {self._failed}: {self.failure}; {done}"
