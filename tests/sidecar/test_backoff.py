"""For how long checkpoints go on without a participant."""

from typing import cast

from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Participant
from jbm_kafka.sidecar.checkpoints.checkpointer import FENCED_PAUSE_MS, REFUSED_PAUSE_MAX_MS, REFUSED_PAUSE_MS, Backoff
from tests.support.manual_clock import ManualClock


class SomeParticipant:
    """All that is asked of one."""

    is_alive = True


def pause_ms(backoff: Backoff, clock: ManualClock) -> int:
    """How long whoever is left out now stays so."""
    waited = 0
    while backoff.now():
        clock.advance(FENCED_PAUSE_MS)
        waited += FENCED_PAUSE_MS
    return waited


def test_each_refusal_leaves_a_participant_out_for_longer_until_it_takes_part_again() -> None:
    clock = ManualClock()
    backoff, participant = Backoff(clock), cast(Participant, SomeParticipant())
    pauses = []
    for _ in range(7):
        backoff.refused([participant])
        assert backoff.now() == {participant}
        pauses.append(pause_ms(backoff, clock))
    assert pauses == [1_000, 2_000, 4_000, 8_000, 16_000, REFUSED_PAUSE_MAX_MS, REFUSED_PAUSE_MAX_MS]
    backoff.took_part([participant])
    backoff.refused([participant])
    assert pause_ms(backoff, clock) == REFUSED_PAUSE_MS


def test_a_fenced_participant_is_back_soon_and_a_dead_one_is_forgotten() -> None:
    clock = ManualClock()
    backoff, participant = Backoff(clock), SomeParticipant()
    backoff.fenced([cast(Participant, participant)])
    assert pause_ms(backoff, clock) == FENCED_PAUSE_MS
    backoff.refused([cast(Participant, participant)])
    participant.is_alive = False
    pause_ms(backoff, clock)
    backoff.refused([cast(Participant, participant)])
    assert pause_ms(backoff, clock) == REFUSED_PAUSE_MS


def test_how_often_a_participant_was_refused_is_told_until_it_takes_part() -> None:
    """By it a group worker without a changelog waits until that is made again, and not for ever."""
    clock = ManualClock()
    backoff, participant = Backoff(clock), cast(Participant, SomeParticipant())
    told = [backoff.pause_ms(participant)]
    for _ in range(3):
        backoff.refused([participant])
        told.append(backoff.pause_ms(participant))
    backoff.took_part([participant])
    assert [*told, backoff.pause_ms(participant)] == [0, 1_000, 2_000, 4_000, 0]
