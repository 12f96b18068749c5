"""Bridges and brokers are killed with SIGKILL while messages cross."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from jbm_kafka.devbroker import LocalBroker
from tests.bridge.killed_bridge import BridgeProcess, play
from tests.support.hanging_transactions import wait_readable

COUNT = int(os.environ.get("JBM_BRIDGED_MESSAGES", "100000"))
TURNS = int(os.environ.get("JBM_BRIDGE_KILLS", "100"))


def killed(bridge: BridgeProcess) -> None:
    bridge.kill()


def restarted(broker: LocalBroker) -> Callable[[BridgeProcess], None]:
    def kill(_: BridgeProcess) -> None:
        broker.kill()
        broker.start()
        wait_readable(broker.bootstrap, _Told())

    return kill


class _Told:
    """What `wait_readable` says of a broker that has lost the end of a transaction, which is Kafka's own fault."""

    def explain(self, about: str, /) -> str:
        return about


@pytest.mark.thorough
def test_a_bridge_that_is_killed_loses_nothing_and_repeats_nothing(
    bootstrap: str, dedicated_broker: Callable[[], LocalBroker], tmp_path: Path
) -> None:
    """BRIDGE-2, BRIDGE-5."""
    target = dedicated_broker().bootstrap
    play(bootstrap, target, tmp_path / "bridge", count=3_000, kills=[killed], turns=3)


@pytest.mark.thorough
def test_a_bridge_within_a_cluster_that_is_killed_loses_nothing_and_repeats_nothing(
    dedicated_broker: Callable[[], LocalBroker], tmp_path: Path
) -> None:
    """BRIDGE-1, BRIDGE-5."""
    here = dedicated_broker().bootstrap
    play(here, here, tmp_path / "bridge", count=3_000, kills=[killed], turns=3)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_every_party_is_killed_for_minutes(dedicated_broker: Callable[[], LocalBroker], tmp_path: Path) -> None:
    """BRIDGE-2, BRIDGE-5: `make kills-bridge`."""
    source, target = dedicated_broker(), dedicated_broker()
    kills = [killed, restarted(source), killed, restarted(target)]
    play(source.bootstrap, target.bootstrap, tmp_path / "bridge", count=COUNT, kills=kills, turns=TURNS)
