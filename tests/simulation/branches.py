"""What is recorded of branches (ACK-10), folded once more, and what must hold of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jbm_kafka.codec.branch_records import decode_branch, state_key
from jbm_kafka.core.channel.branch import BranchState, Xid
from tests.simulation.names import BRANCHES
from tests.simulation.paper import Commit, Epoch, HandOver
from tests.simulation.views import LogView

if TYPE_CHECKING:
    from tests.simulation.world import World

_STATE = state_key("")


class Branches:
    """By what stands in their topic, and what their sessions had in hand."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._view = LogView(world.cluster.log(BRANCHES, 0))
        self.begun: dict[Xid, Commit] = {}
        """What each would be if it were prepared."""
        self.states: dict[Xid, BranchState] = {}
        """What is recorded of each, also when its records are deleted."""
        self._ids: dict[str, Xid] = {}
        world.recorder.look_at_branches = self.look
        world.recorder.opens = self._opened

    @property
    def waiting(self) -> set[Xid]:
        """Those of which nothing is decided."""
        return {xid for xid, state in self.states.items() if state is BranchState.PREPARED}

    def look(self) -> None:
        """Take down what became visible."""
        for record in self._view.news():
            key, value = record.key() or b"", record.value()
            if key.endswith(_STATE) and value is not None:
                branch, told = key[: -len(_STATE)].decode(), decode_branch(value)
                self._ids[branch] = told.xid
                self._recorded(branch, told.xid, told.state)

    def _recorded(self, branch: str, xid: Xid, state: BranchState) -> None:
        paper, commit, before = self._world.recorder.paper, self.begun[xid], self.states.get(xid)
        self._world.note(f"branch {commit.name} is {state.value}")
        self.states[xid] = state
        paper.version += 1
        if state is BranchState.PREPARED:
            assert before is None, f"one_decision_a_branch: {commit.name} is prepared, and was {before}"
            self._prepared(commit)
            return
        assert before is BranchState.PREPARED, f"one_decision_a_branch: {commit.name} becomes {state}, and is {before}"
        commit.outcome = "committed" if state is BranchState.COMMITTED else "rolled back"
        for hand in commit.hands:
            self._decided(branch, hand, is_committed=state is BranchState.COMMITTED)

    def _prepared(self, commit: Commit) -> None:
        assert commit.outcome in ("pending", "in doubt"), f"told_what_is_recorded: {commit.name} is {commit.outcome}"
        commit.outcome = "prepared"
        for hand in commit.hands:
            hand.session, hand.is_doubted = f"branch {commit.name}", False
            self._world.recorder.paper.prepared[hand.message.place][hand.message.offset] = commit

    def _decided(self, branch: str, hand: HandOver, *, is_committed: bool) -> None:
        paper, (place, offset) = self._world.recorder.paper, (hand.message.place, hand.message.offset)
        paper.prepared[place].pop(offset)
        self._world.recorder.left(hand)
        if is_committed:
            paper.branched[place].add(offset)
            return
        for epoch in {hand.epoch, *paper.epochs[place]}:
            if epoch is hand.epoch or offset in epoch.prepared.get(branch, ()):
                epoch.counted[offset] += 1

    def _opened(self, epoch: Epoch) -> None:
        """It carries out what its predecessors did not, and counts what was rolled back."""
        for branch, offsets in epoch.prepared.items():
            if self.states[self._ids[branch]] is BranchState.ROLLED_BACK:
                epoch.counted.update(offsets)

    # -- what must hold --------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Of what is on the paper now."""
        paper = self._world.recorder.paper
        for place, prepared in paper.prepared.items():
            for offset, commit in prepared.items():
                is_settled = paper.changelog(place).is_settled(offset)
                assert not is_settled, f"prepared_stays: {commit.name} has {place} {offset}, which is settled"
        for (place, offset), commits in paper.committing.items():
            sent = [commit.name for commit in commits if paper.was_sent(commit)] if len(commits) > 1 else []
            assert len(sent) < 2, f"one_output_an_input: {sent} were all sent for {place} {offset}"

    def check_told(self, xid: Xid, told: BranchState) -> None:
        """A manager was told so."""
        self._world.recorder.look()
        state = self.states.get(xid)
        assert state is told, f"told_what_is_recorded: {self.begun[xid].name} is {state}, a manager is told {told}"

    def check_over(self, xid: Xid) -> None:
        """A manager was told that others have ended it."""
        self._world.recorder.look()
        assert xid not in self.waiting, f"told_what_is_recorded: {self.begun[xid].name} waits, and a manager is refused"

    def check_listed(self, before: set[Xid], listed: list[Xid]) -> None:
        """A manager recovers: it gets all that waited all the time, and nothing else. `before`: what waited then."""
        self._world.recorder.look()
        missing = [self.begun[xid].name for xid in before & self.waiting if xid not in listed]
        assert not missing, f"recovery_tells_all: {missing} are prepared, and not listed"
        more = [self.begun[xid].name for xid in listed if self.states.get(xid) is None]
        assert not more, f"recovery_tells_all: {more} are listed, and were never prepared"

    def check_end(self) -> None:
        """Nothing is prepared any more, by anybody's word."""
        left = [self.begun[xid].name for xid in self.waiting]
        assert not left, f"nothing_stays_prepared: {left}"
        for place, changelog in self._world.recorder.paper.changelogs.items():
            assert not changelog.prepared, f"nothing_stays_prepared: the changelog of {place} has {changelog.prepared}"
        log = self._world.cluster.log(BRANCHES, 0)
        latest = {record.key(): record.value() for record in LogView(log).news()}
        there = sorted(key for key, value in latest.items() if key and value is not None)
        assert not there, f"nothing_stays_prepared: {BRANCHES} still has {there}"
