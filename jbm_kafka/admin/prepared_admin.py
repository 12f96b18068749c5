"""Prepared branches of transactions of several systems: which wait for a decision, and the decision of an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from jbm_kafka.admin.cluster.admin_core import AdminCore
from jbm_kafka.codec.branch_records import branches_in
from jbm_kafka.core.channel.branch import BranchState, PreparedBranch, Xid
from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.core.wrong_values import wrong_type, wrong_value
from jbm_kafka.registry.own_topics import branches_topic
from jbm_kafka.registry.registry_log import RegistryLog

_WANTED = {"commit": BranchState.COMMITTED, "rollback": BranchState.ROLLED_BACK}


@dataclass(frozen=True, slots=True)
class PreparedTransaction:
    """A prepared branch that waits for its transaction manager."""

    xid: Xid
    """Its name."""
    prepared_at_ms: int
    """When it was prepared."""
    process: str
    """Who prepared it."""
    received: Mapping[str, int]
    """How many messages it has, by consumer group."""
    sends: int
    """How many messages it sends when it is committed."""
    heuristic: Mapping[str, str]
    """The fate of received messages without a decision, by consumer group and partition; empty: nothing."""


class PreparedAdmin:
    """Looks up prepared branches, and decides them. Any thread."""

    def __init__(self, core: AdminCore) -> None:
        self._core = core

    def prepared(self) -> list[PreparedTransaction]:
        """All of the namespace, the oldest first."""
        with self._core.asking("list prepared transactions"):
            found = sorted(self._branches(), key=lambda each: each.record.prepared_at_ms)
        return [_shown(each) for each in found]

    def resolve(self, xid: Xid | str, decision: Literal["commit", "rollback"]) -> PreparedTransaction:
        """Decide it; what it was."""
        if not isinstance(xid, Xid | str):
            raise wrong_type("xid", xid, "it is an Xid, or text as jbm-kafka prepared list shows it")
        if decision not in _WANTED:
            raise wrong_value("decision", decision, "it is 'commit' or 'rollback'")
        with self._core.asking(f"resolve {xid}"):
            found = [each for each in self._branches() if str(each.xid) == str(xid)]
            if not found:
                known = ", ".join(sorted(str(each.xid) for each in self._branches())) or "none"
                raise IllegalStateError(f"no branch {str(xid)!r} is prepared; there are: {known}")
            with self._core.connections.provider() as provider:
                for each in found:
                    state = provider.decide(each.branch, _WANTED[decision], is_forced=True)
                    if state is not _WANTED[decision]:
                        raise IllegalStateError(f"branch {xid} is {state.value}: it was decided before")
        return _shown(found[0])

    def check_free(self, about: str, groups: Collection[str]) -> None:
        """Return when no prepared branch has messages of these consumer groups.

        Raises:
            IllegalStateError: one has.
        """
        for each in self._branches():
            if any(part.group in groups for part in each.record.parts):
                raise IllegalStateError(
                    f"{about}: the prepared branch {each.xid} has received from it; its transaction manager ends it, "
                    f"or jbm-kafka prepared resolve"
                )

    def _branches(self) -> list[PreparedBranch]:
        core = self._core
        log = RegistryLog(core.kafka, core.admin, branches_topic(core.namespace), clock=core.cluster.clock)
        try:
            log.refresh_marked()
            return [each for each in branches_in(log.values()) if each.record.state is BranchState.PREPARED]
        finally:
            log.close()


def _shown(found: PreparedBranch) -> PreparedTransaction:
    received: Counter[str] = Counter()
    for part in found.record.parts:
        received[part.group] += part.messages
    heuristic = {f"{group}[{partition}]": why for (group, partition), why in found.heuristic.items()}
    record = found.record
    return PreparedTransaction(
        record.xid, record.prepared_at_ms, record.process, dict(received), record.sends, heuristic
    )
