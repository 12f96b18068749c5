"""Brokers that give no answer for a while."""

from __future__ import annotations

from jbm_kafka.memory.memory_kafka import MemoryCluster
from jbm_kafka.ports import OutcomeUnknown, Unreachable


class Brokers:
    """Answer no checkpoint and no commit of a session, and nobody who asks what became of it, for a while."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._faults = cluster.faults

    def __enter__(self) -> None:
        self._faults.step = self._step

    def __exit__(self, *_: object) -> None:
        self._faults.step = None

    @staticmethod
    def _step(name: str, step: str) -> None:
        if name.endswith("jbm.registry"):
            return
        if step == "commit":
            raise OutcomeUnknown(f"{name}: no answer")
        if step == "initialise":
            raise Unreachable(f"{name}: no answer")
