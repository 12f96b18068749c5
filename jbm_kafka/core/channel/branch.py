"""Branches of transactions of several systems: their names, and what is known of a prepared one. Pure values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.wrong_values import no_utf8, wrong_type, wrong_value

PART_BYTES_MAX = 64
ACROSS = 2**31
"""The format id of branches that sidecars prepare for each other's clients; no manager's may be so."""
NONCE_HEX = 16
"""A branch's id ends in so many hex digits of chance: who removes one never harms a later one of the same name."""


class Xid(NamedTuple):
    """The name of a branch, as its manager gave it."""

    format_id: int
    """The manager's own."""
    gtrid: bytes
    """The id of the whole transaction (gtrid)."""
    bqual: bytes
    """The id of this branch (bqual)."""

    @property
    def hex(self) -> str:
        """Format id, length of the gtrid, gtrid and bqual."""
        head = self.format_id.to_bytes(4, "big") + bytes([len(self.gtrid)])
        return (head + self.gtrid + self.bqual).hex()

    def __str__(self) -> str:
        return f"{self.format_id}:{_shown(self.gtrid)}:{_shown(self.bqual)}"


def checked_xid(format_id: object, gtrid: object, bqual: object) -> Xid:
    """The name, if it can be one.

    Raises:
        InvalidSettingError: a part is too long or empty, or the format id negative; of a wrong type InvalidTypeError.
    """
    if not isinstance(format_id, int) or isinstance(format_id, bool):
        raise wrong_type("format_id", format_id, "it is an int")
    if not 0 <= format_id < 2**31:
        raise wrong_value("format_id", format_id, "it is from 0 to 2147483647")
    return Xid(format_id, _part("gtrid", gtrid, least=1), _part("bqual", bqual, least=0))


def xid_of(branch_id: str) -> Xid:
    """The name that a branch's id begins with."""
    raw = bytes.fromhex(branch_id[:-NONCE_HEX])
    begin, end = 5, 5 + raw[4]
    return Xid(int.from_bytes(raw[:4], "big"), raw[begin:end], raw[end:])


def name_of(branch_id: str) -> str:
    """The name for people; of an id of another form the id."""
    try:
        return str(xid_of(branch_id))
    except (ValueError, IndexError):
        return branch_id


def _part(name: str, given: object, *, least: int) -> bytes:
    if not isinstance(given, str | bytes):
        raise wrong_type(name, given, "it is a str or bytes")
    try:
        part = given.encode() if isinstance(given, str) else given
    except UnicodeEncodeError as fault:
        raise wrong_value(name, given, no_utf8(fault, ", or give bytes")) from None
    if not least <= len(part) <= PART_BYTES_MAX:
        raise wrong_value(name, given, f"it has {least} to {PART_BYTES_MAX} bytes, and this has {len(part)}")
    return part


def _shown(part: bytes) -> str:
    text = part.decode(errors="replace")
    return text if text.isprintable() and "\ufffd" not in text else f"0x{part.hex()}"


class BranchState(Enum):
    """The recorded state of a branch; the value is what the record says."""

    PREPARED = "prepared"
    """It waits for its manager."""
    COMMITTED = "committed"
    """Its sends are visible; what it received is settled as soon as an owner of its partition looks."""
    ROLLED_BACK = "rolled-back"
    """It sends nothing; what it received comes again, counted as an attempt."""


class BranchPart(NamedTuple):
    """The messages of one partition that a branch received."""

    group: str
    topic: str
    topic_id: str
    partition: int
    messages: int
    """How many."""


@dataclass(frozen=True, slots=True)
class BranchRecord:
    """The record of one branch."""

    xid: Xid
    state: BranchState
    decider: str
    """The transactional id by which what becomes of it is written."""
    prepared_at_ms: int
    process: str
    """Who prepared it, for people."""
    parts: tuple[BranchPart, ...]
    sends: int
    """How many messages it sends."""
    pieces: int
    """How many records hold them."""
    decided_at_ms: int = 0


@dataclass(frozen=True, slots=True)
class PreparedBranch:
    """A branch that waits for its manager, or of which nobody has heard of the decision everywhere yet."""

    branch: str
    """Its id."""
    record: BranchRecord
    heuristic: dict[tuple[str, int], str] = field(default_factory=dict)
    """The fate of messages without a decision, by group and partition."""

    @property
    def xid(self) -> Xid:
        """Its name."""
        return self.record.xid


class Branch(NamedTuple):
    """One that a session is about to prepare."""

    branch: str
    xid: Xid
    decider: str = ""
    """Another process's, which decides at once, and before the session's next; "": a transaction manager decides."""


def is_across(branch_id: str) -> bool:
    """Another sidecar decides it at once, and no manager."""
    return branch_id.startswith(f"{ACROSS:08x}")


def branch_across(transaction: bytes, number: int, decider: str) -> Branch:
    """The branch of one of a transaction's sidecars; `transaction` is chance, and only its sidecars know it."""
    xid = Xid(ACROSS, transaction, str(number).encode())
    return Branch(xid.hex + "0" * NONCE_HEX, xid, decider)


def heuristic_error(found: PreparedBranch) -> IllegalStateError:
    """The error of a decision that would not be carried out whole."""
    why = "; ".join(f"{group}[{partition}]: {text}" for (group, partition), text in sorted(found.heuristic.items()))
    return IllegalStateError(
        f"branch {found.xid} cannot be decided by its manager any more ({why}): look at what became of its messages, "
        f"and end it with jbm-kafka prepared resolve or Admin.resolve",
        branch=found.branch,
    )
