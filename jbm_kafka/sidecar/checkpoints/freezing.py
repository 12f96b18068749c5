"""Asking participants for their part of a checkpoint: the checkpoint thread's side. Theirs is checkpoint_part.py."""

from __future__ import annotations

import logging
from collections.abc import Collection, Generator, Sequence

from jbm_kafka.ports.steps import Wait
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import FreezeRequest, FrozenGroup, Participant, Transfer

log = logging.getLogger(__name__)

FREEZE_TIMEOUT_S = 5.0
"""A participant answers within milliseconds, unless its Kafka client blocks; then the checkpoint goes on without it."""


def freeze_all(
    participants: Collection[Participant], transfers: Sequence[Transfer], checkpoint_id: str
) -> Generator[Wait, None, list[FrozenGroup]]:
    """Ask all participants at once, wait for each; one that does not answer in time is left out."""
    requests: list[FreezeRequest] = []
    for participant in participants:
        request = FreezeRequest(
            checkpoint_id=checkpoint_id,
            transfers=[transfer for transfer in transfers if participant in transfer.participants],
        )
        requests.append(request)
        if participant.is_alive:
            participant.ask(request)
        else:
            request.answer(FrozenGroup(participant, None, (), frozenset(request.transfers)))
    frozen: list[FrozenGroup] = []
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
