"""Carries out in channels what was decided of prepared branches. Owner thread only."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.channel.branch import BranchState
from jbm_kafka.core.channel.changes import BranchEnded
from jbm_kafka.core.channel.holders import branch_holder
from jbm_kafka.core.channel.settlement import Modified
from jbm_kafka.sidecar.channel.group_data import GroupData
from jbm_kafka.sidecar.channel.owned_channel import OwnedChannel
from jbm_kafka.sidecar.stages.settle import Settle

StateOf = Callable[[str], BranchState | None]
"""Gives what is known here of a branch, by its id; None: nothing yet. Any thread may ask."""


class PreparedMessages:
    """The messages that branches have of one group worker's channels."""

    def __init__(self, data: GroupData, settle: Settle, state_of: StateOf) -> None:
        self._data = data
        self._settle = settle
        self._state_of = state_of

    def look(self) -> None:
        """End the branches that are decided, but for what was not read yet since a recovery."""
        for channel in self._data.channels.values():
            if not channel.state.durable.prepared or channel.is_closing:
                continue
            unread = set(channel.state.aside.values())
            for branch in list(channel.state.durable.prepared):
                state = self._state_of(branch)  # asked of each: so it is looked for
                if state is not None and state is not BranchState.PREPARED and branch not in unread:
                    self._end(channel, branch, state)

    def _end(self, channel: OwnedChannel, branch: str, state: BranchState) -> None:
        holder = branch_holder(branch)
        offsets = list(channel.state.in_hand.get(holder, ()))
        if offsets and state is BranchState.COMMITTED:
            self._settle.acknowledge(channel, holder, offsets)
        elif offsets:
            if not self._settle.return_behind(channel, holder):
                return
            self._settle.give_back(channel, holder, [Modified(offset, counted=True) for offset in offsets])
        channel.state.apply(BranchEnded(branch))
        channel.checkpoints.note_applied(branch)
