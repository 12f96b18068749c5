"""The findings of an audit, for people and programs."""

from collections.abc import Mapping
from dataclasses import dataclass

from jbm_spark.jobs.job import ManyQueues

FAULTS = (
    "lost",
    "duplicated",
    "reordered",
    "early redelivery",
    "too many attempts",
    "delivery after acknowledgement",
    "dead letter twice",
    "dead letter missing",
)
"""The faults that an audit looks for; docs/spark-audit.md says when each is found."""
SHOWN = 20
"""So many findings the text has."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One message to which something happened that must not."""

    fault: str
    """One of `FAULTS`."""
    topic_id: str
    """The id of the topic it was in, as events have it."""
    partition: int
    offset: int
    message_id: str | None
    unit_of_order: str | None
    what: str
    """The evidence, in a line."""
    command: str
    """The command that shows it."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The audited messages and the findings."""

    destination: str
    messages: int
    """So many were looked at: those that the topic, or the archive, still has."""
    fates: int
    """So many things that became of them are known."""
    faults: Mapping[str, int]
    """How many messages have each of `FAULTS`."""
    findings: tuple[Finding, ...]
    """The first of them by fault, partition and offset."""
    unproven: Mapping[str, int]
    """The number of messages of which something could not be told, by the thing: neither a fault nor a proof."""

    @property
    def has_violations(self) -> bool:
        """Return True if anything was found."""
        return any(self.faults.values())

    def text(self) -> str:
        """A few lines for people."""
        count = sum(self.faults.values())
        verdict = f"{count} found" if count else "nothing found"
        lines = [f"{self.destination}: {self.messages} messages, {self.fates} fates; {verdict}"]
        lines += [f"  {fault}: {number}" for fault, number in self.faults.items() if number]
        for each in self.findings[:SHOWN]:
            unit = "" if each.unit_of_order is None else f", unit {each.unit_of_order!r}"
            lines += [f"{each.fault}: {each.partition}:{each.offset} {each.message_id}{unit}: {each.what}",
                      f"  {each.command}"]  # fmt: skip
        if len(self.findings) > SHOWN or len(self.findings) < count:
            lines.append("--json and --html have more of them")
        told = [f"  {number} {what}" for what, number in self.unproven.items() if number]
        return "\n".join([*lines, *(["unproven:", *told] if told else [])])


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedQueues(ManyQueues):
    """The findings in the queues of a pattern."""

    queues: Mapping[str, AuditResult]
    """The result of each queue that was audited, by name."""

    @property
    def has_violations(self) -> bool:
        """Return True if anything was found, in any of them."""
        return any(each.has_violations for each in self.queues.values())

    def text(self) -> str:
        """For people: those in which something was found, those that failed, and how many there were."""
        found = [each for each in self.queues.values() if each.has_violations]
        messages, unproven = sum(each.messages for each in self.queues.values()), self.unproven()
        noun = "queue" if len(self.queues) == 1 else "queues"
        verdict = f"something found in {len(found)}" if found else "nothing found"
        lines = [f"{self.pattern}: {len(self.queues)} {noun}, {messages} messages; {verdict}", *self.failure_lines()]
        lines += [each.text() for each in found]
        told = [f"  {number} {what}" for what, number in unproven.items() if number]
        return "\n".join([*lines, *(["unproven in all:", *told] if told else [])])

    def unproven(self) -> Mapping[str, int]:
        """Return what could not be told, and of how many messages of all queues."""
        total: dict[str, int] = {}
        for each in self.queues.values():
            for what, number in each.unproven.items():
                total[what] = total.get(what, 0) + number
        return total
