"""Records of `jbm.branches`: `<branch>|state`, `<branch>|send|<number>`, `<branch>|applied|<group>|<partition>`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jbm_kafka.codec.schemas import codec
from jbm_kafka.core.channel.branch import BranchPart, BranchRecord, BranchState, PreparedBranch, Xid
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports.record_to_send import Outgoing

PIECE_BYTES = 512 * 1024
"""A record of sends has at most so many: its topic takes the broker's default."""
_STATE = "|state"
NOTHING = b"|nothing"
"""The key of a record without a value, which says nothing: its transaction ends what another left open."""


def state_key(branch: str) -> bytes:
    """Return the key of the record that says what is decided."""
    return f"{branch}{_STATE}".encode()


def applied_key(branch: str, group: str, partition: int) -> bytes:
    """Return the key of the record that says a part is carried out."""
    return f"{branch}|applied|{group}|{partition}".encode()


def encode_branch(record: BranchRecord) -> bytes:
    """The value."""
    return codec("Branch").encode(
        {
            "format_id": record.xid.format_id,
            "global_id": record.xid.gtrid,
            "qualifier": record.xid.bqual,
            "state": record.state.value,
            "decider": record.decider,
            "prepared_at_ms": record.prepared_at_ms,
            "decided_at_ms": record.decided_at_ms,
            "process": record.process,
            "parts": [part._asdict() for part in record.parts],
            "sends": record.sends,
            "pieces": record.pieces,
        }
    )


def decode_branch(value: bytes) -> BranchRecord:
    """Return what the value says.

    Raises:
        CorruptRecordError: it is damaged, or only a newer version understands it.
    """
    fields = codec("Branch").decode(value)
    try:
        state = BranchState(fields["state"])
    except ValueError:
        raise CorruptRecordError(f"Branch: a state {fields['state']!r} is not known") from None
    return BranchRecord(
        xid=Xid(fields["format_id"], fields["global_id"], fields["qualifier"]),
        state=state,
        decider=fields["decider"],
        prepared_at_ms=fields["prepared_at_ms"],
        process=fields["process"],
        parts=tuple(BranchPart(**part) for part in fields["parts"]),
        sends=fields["sends"],
        pieces=fields["pieces"],
        decided_at_ms=fields["decided_at_ms"],
    )


def encode_applied(at_ms: int, heuristic: str = "") -> bytes:
    """The value."""
    return codec("BranchApplied").encode({"heuristic": heuristic, "at_ms": at_ms})


def encode_sends(branch: str, records: Sequence[Outgoing]) -> Mapping[bytes, bytes]:
    """The records that hold what a branch sends, each small enough for the topic."""
    if not records:
        return {}
    rows: list[dict[str, Any]] = [
        {
            "topic": record.topic,
            "partition": record.partition,
            "key": record.key,
            "value": record.value,
            "headers": [{"name": name, "value": value} for name, value in record.headers],
            "timestamp_ms": record.timestamp_ms,
        }
        for record in records
    ]
    whole = codec("BranchSends").encode({"records": rows})
    pieces = [whole[begin : begin + PIECE_BYTES] for begin in range(0, len(whole), PIECE_BYTES)]
    return {f"{branch}|send|{number}".encode(): piece for number, piece in enumerate(pieces)}


def decode_sends(branch: str, record: BranchRecord, values: Mapping[bytes, bytes]) -> list[Outgoing]:
    """Return what the branch sends, as it was routed when it was sent.

    Raises:
        CorruptRecordError: some of it is missing or damaged.
    """
    if not record.pieces:
        return []
    keys = [f"{branch}|send|{number}".encode() for number in range(record.pieces)]
    missing = [key.decode() for key in keys if key not in values]
    if missing:
        raise CorruptRecordError(f"branch {record.xid}: the record {missing[0]} of its sends is missing")
    return [
        Outgoing(
            row["topic"],
            row["partition"],
            row["key"],
            row["value"],
            [(header["name"], header["value"]) for header in row["headers"]],
            row["timestamp_ms"],
        )
        for row in codec("BranchSends").decode(b"".join(values[key] for key in keys))["records"]
    ]


def branches_in(values: Mapping[bytes, bytes]) -> Iterator[PreparedBranch]:
    """Every branch that is recorded and can be read here, with what became of its parts without a decision."""
    applied: dict[str, dict[tuple[str, int], str]] = {}
    for key, value in values.items():
        branch, kind, rest = [*key.decode(errors="replace").split("|", 2), "", ""][:3]
        if kind == "applied":
            group, _, partition = rest.rpartition("|")
            heuristic = str(codec("BranchApplied").decode(value)["heuristic"])
            applied.setdefault(branch, {})[group, int(partition)] = heuristic
    for key, value in values.items():
        name = key.decode(errors="replace")
        if name.endswith(_STATE):
            branch = name[: -len(_STATE)]
            yield PreparedBranch(branch, decode_branch(value), _heuristic(applied.get(branch, {})))


def _heuristic(parts: Mapping[tuple[str, int], str]) -> dict[tuple[str, int], str]:
    return {place: text for place, text in parts.items() if text}


def keys_of_ended(values: Mapping[bytes, bytes], *, before_ms: int) -> list[bytes]:
    """All records of branches that were decided before then and are carried out everywhere."""
    ended: list[bytes] = []
    for found in branches_in(values):
        record = found.record
        if record.state is BranchState.PREPARED or record.decided_at_ms > before_ms:
            continue
        parts = [applied_key(found.branch, part.group, part.partition) for part in record.parts]
        if all(key in values for key in parts):
            begin = f"{found.branch}|".encode()
            ended += [key for key in values if key.startswith(begin)]
    return ended
