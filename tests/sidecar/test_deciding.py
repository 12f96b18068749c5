"""What is decided of prepared branches, and carried out, by the parts alone (ACK-10)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from jbm_kafka.codec.branch_records import encode_branch, encode_sends, state_key
from jbm_kafka.core.channel.branch import Branch, BranchPart, BranchRecord, BranchState, Xid
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.memory.memory_kafka import MemoryCluster, MemoryKafka
from jbm_kafka.ports import Outgoing
from jbm_kafka.registry.registry_log import RegistryLog
from jbm_kafka.sidecar.branches.branches import Branches
from jbm_kafka.sidecar.branches.decider import Decider
from jbm_kafka.sidecar.branches.decisions import Decisions
from jbm_kafka.sidecar.branches.entry_kinds import EntryKinds
from jbm_kafka.sidecar.stages.prepared import PreparedMessages
from tests.core.channel_parts import Channel, message, recovered
from tests.sidecar.parts import channel_of, group_worker_of
from tests.simulation.workers import SteppedWorkers
from tests.support.manual_clock import ManualClock

COMMITTED, ROLLED_BACK = BranchState.COMMITTED, BranchState.ROLLED_BACK
BRANCHES = "jbm.branches"
NONCE = "0" * 16


class DecidingProcess:
    """One process over the cluster that prepares and decides, without group workers."""

    def __init__(self, cluster: MemoryCluster, own_id: str) -> None:
        self._kafka = MemoryKafka(cluster)
        self._clock = cluster.clock
        self.own_id = own_id
        self.records = RegistryLog(self._kafka, self._kafka.admin(), BRANCHES, clock=cluster.clock)
        self.records.make()
        self.decider = Decider(
            self._kafka, self.records, cluster.clock, own_id=own_id, route=self._route, pause=lambda _: None
        )

    def _route(self, sends: Sequence[Outgoing]) -> None:
        """All units have moved to partition 1."""
        for each in sends:
            each.partition = 1

    def prepare(self, name: str, *sends: Outgoing) -> str:
        """A branch of this process, recorded as prepared."""
        xid = Xid(1, name.encode(), b"")
        branch = xid.hex + NONCE
        pieces = encode_sends(branch, sends)
        record = BranchRecord(xid, BranchState.PREPARED, self.own_id, 0, "one", (), len(sends), len(pieces))
        self.decider.note_prepared(branch, record, sends)
        self.records.write({**pieces, state_key(branch): encode_branch(record)})
        return branch


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(ManualClock())


def test_what_a_branch_sends_goes_where_its_unit_is_when_it_is_decided(cluster: MemoryCluster) -> None:
    """Of UNIT-11: it was routed when it was sent, and a manager may take its time."""
    cluster.create_topic("out", 2, {})
    one = DecidingProcess(cluster, "jbm.one.xa")
    branch = one.prepare("t", Outgoing("out", 0, b"joe", b"late"))
    assert one.decider.decide(branch, COMMITTED) is COMMITTED
    assert [cluster.log("out", partition).end for partition in (0, 1)] == [0, 2]  # the record and its mark


def test_who_lost_its_decider_reads_again_what_became_of_its_branches(cluster: MemoryCluster) -> None:
    """ACK-10: another rolled the branch back meanwhile; what was remembered of it would have committed it, too."""
    one, two = DecidingProcess(cluster, "jbm.one.xa"), DecidingProcess(cluster, "jbm.two.xa")
    first, second, third = (one.prepare(name) for name in "abc")
    assert one.decider.decide(first, COMMITTED) is COMMITTED
    assert two.decider.decide(second, ROLLED_BACK) is ROLLED_BACK
    assert one.decider.decide(third, COMMITTED) is COMMITTED  # found itself fenced, and began anew
    assert one.decider.decide(second, COMMITTED) is ROLLED_BACK


def test_nothing_is_prepared_beside_an_older_process_that_could_not_read_it(
    cluster: MemoryCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of ACK-10, decision 76: it would close the partition."""
    monkeypatch.setattr(EntryKinds, "members_without", lambda *asked: ["process 4711 at worker-3"])
    kafka, clock = MemoryKafka(cluster), cluster.clock
    records = RegistryLog(kafka, kafka.admin(), BRANCHES, clock=clock)
    branches = Branches(
        kafka,
        records,
        Decisions(),
        clock,
        workers=SteppedWorkers(ManualClock(), lambda _: None),
        decider_id="jbm.one.xa",
        entry_kinds=EntryKinds(kafka.admin(), clock),
        route=lambda _: None,
        decided=lambda: None,
    )
    part = BranchPart("jbm.queue.orders", "orders", "t", 0, 1)
    with pytest.raises(IllegalStateError, match="process 4711 at worker-3 with an older jbm-kafka"):
        branches.records_of(Branch("b", Xid(1, b"t", b"")), [part], ())


def test_a_branch_is_not_ended_before_all_that_it_has_was_read_again() -> None:
    """ACK-10: a new owner has read one of its two messages; the other would have come as if no branch had it."""
    before = Channel(message(0), message(1))
    assert before.got("a") == [0, 1]
    channel = recovered(*before.prepare("x", {"a": (0, 1)}))
    group_worker = group_worker_of(channel_of(channel.state))
    prepared = PreparedMessages(group_worker.data, group_worker.settle, lambda _: COMMITTED)
    channel.fetch(message(0))
    prepared.look()
    assert channel.state.durable.prepared == {"x": frozenset([0, 1])}
    channel.fetch(message(1))
    prepared.look()
    assert not channel.state.durable.prepared
    assert channel.got("b") == []
