"""Asking lanes for their part of a checkpoint. The checkpoint thread's side; the lane's is checkpoint_part.py."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Sequence
from typing import TYPE_CHECKING

from jbm_kafka.sidecar.checkpoint_part import FreezeRequest, FrozenLane
from jbm_kafka.sidecar.steps import Wait
from jbm_kafka.sidecar.transfer import Transfer

if TYPE_CHECKING:
    from jbm_kafka.sidecar.lane import Lane

log = logging.getLogger(__name__)

FREEZE_TIMEOUT_S = 5.0
"""A lane answers within milliseconds, unless its Kafka client blocks; then the checkpoint goes on without it."""


def freeze_lanes(
    lanes: Collection[Lane], transfers: Sequence[Transfer], checkpoint_id: str
) -> Generator[Wait, None, list[FrozenLane]]:
    """Ask all lanes at once, wait for each; one that does not answer in time is left out."""
    requests: list[FreezeRequest] = []
    for lane in lanes:
        request = FreezeRequest(
            checkpoint_id=checkpoint_id, transfers=[transfer for transfer in transfers if lane in transfer.lanes]
        )
        requests.append(request)
        if lane.is_alive:
            lane.post(lambda asked=request, at=lane: at.checkpoint_part.freeze(asked))  # type: ignore[misc]
        else:
            request.answer(FrozenLane(lane, None, (), frozenset(request.transfers)))
    frozen: list[FrozenLane] = []
    for request in requests:
        yield Wait(FREEZE_TIMEOUT_S, request.is_answered)
        reply = request.take_or_withdraw()
        if reply is not None:
            frozen.append(reply)
        else:
            log.warning(
                "a channel group did not answer within %g s; the checkpoint goes on without it", FREEZE_TIMEOUT_S
            )
    return frozen
