"""Records of branches: bytes of their first schemas stay readable, and what is written reads back."""

import pytest

from jbm_kafka.codec.branch_records import (
    applied_key,
    branches_in,
    decode_branch,
    decode_sends,
    encode_applied,
    encode_branch,
    encode_sends,
    keys_of_ended,
    state_key,
)
from jbm_kafka.codec.changelog import decode_entry
from jbm_kafka.core.channel.branch import BranchPart, BranchRecord, BranchState, Xid
from jbm_kafka.core.channel.entries import Prepared
from jbm_kafka.core.jms_errors import CorruptRecordError
from jbm_kafka.ports.record_to_send import Outgoing

RECORD = BranchRecord(
    Xid(1, b"t", b"b"),
    BranchState.PREPARED,
    "jbm.f.xa",
    1000,
    "process 1 at h",
    (BranchPart("jbm.queue.in", "in", "id", 0, 3),),
    1,
    1,
)
PREPARED_1 = bytes.fromhex(
    "c3015adb437e93581b9e0400283a3000000100000000000100100000000100050002243a300000010000000000000010000000701100"
)
BRANCH_1 = bytes.fromhex(
    "c3017f322c2b3b84e4c80202740262107072657061726564106a626d2e662e7861d00f001c70726f63657373203120617420"
    "6802186a626d2e71756575652e696e04696e0469640006000202"
)
SENDS_1 = bytes.fromhex("c301c4a3d3489d6017e402066f7574040202750202760202680000020e00")
APPLIED_1 = bytes.fromhex("c30103369dff9b952c30086c6f73740e")


def test_bytes_of_the_first_schemas_are_read() -> None:
    """ACK-10: these bytes are never regenerated."""
    entry = decode_entry(b"jbm.queue.in|prepared|0000000101740f", PREPARED_1)
    assert entry == ("jbm.queue.in", Prepared("0000000101740f", (1, 5, 70_000)))
    assert decode_branch(BRANCH_1) == RECORD
    values = {b"0f|state": BRANCH_1, b"0f|send|0": SENDS_1, b"0f|applied|jbm.queue.in|0": APPLIED_1}
    (found,) = branches_in(values)
    assert found.heuristic == {("jbm.queue.in", 0): "lost"}
    (send,) = decode_sends("0f", RECORD, values)
    assert (send.topic, send.partition, send.key, send.value, list(send.headers), send.timestamp_ms) == (
        *("out", 2, b"u", b"v"),
        [("h", None)],
        7,
    )


def test_what_is_missing_of_the_sends_is_told() -> None:
    """ACK-10: a branch is never committed in part."""
    with pytest.raises(CorruptRecordError, match="is missing"):
        decode_sends("0f", RECORD, {})
    assert encode_sends("0f", []) == {}
    assert len(encode_sends("0f", [Outgoing("out", 0, None, b"x" * 1_200_000)])) == 3


def test_records_go_only_when_a_branch_is_carried_out_everywhere() -> None:
    """ACK-10."""
    decided = BranchRecord(
        *(RECORD.xid, BranchState.COMMITTED, RECORD.decider, 1, "p", RECORD.parts, 0, 0), decided_at_ms=5
    )
    values = {state_key("0f"): encode_branch(decided), state_key("0e"): encode_branch(RECORD)}
    assert keys_of_ended(values, before_ms=9) == []
    values[applied_key("0f", "jbm.queue.in", 0)] = encode_applied(6)
    assert keys_of_ended(values, before_ms=4) == []
    assert keys_of_ended(values, before_ms=9) == [b"0f|state", b"0f|applied|jbm.queue.in|0"]
