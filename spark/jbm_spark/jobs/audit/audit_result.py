"""What an audit found, for people and programs."""

from collections.abc import Mapping
from dataclasses import dataclass

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
"""What an audit looks for; docs/spark-audit.md says when each is found."""
SHOWN = 20
"""So many findings the text has."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One message to which something happened that must not."""

    fault: str
    """One of `FAULTS`."""
    topic_id: str
    """Of the topic it was in, as events have it."""
    partition: int
    offset: int
    message_id: str | None
    unit_of_order: str | None
    what: str
    """The evidence, in a line."""
    command: str
    """What shows it."""


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What was audited, and what was found."""

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
    """What could not be told, and of how many messages: neither a fault nor a proof."""

    @property
    def has_violations(self) -> bool:
        """Whether anything was found."""
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
