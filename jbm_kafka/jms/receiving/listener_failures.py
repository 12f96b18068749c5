"""The words of the log for the fate of a message whose listener raised (ACK-11)."""

from __future__ import annotations

from jbm_kafka.core.channel.redelivery import UNLIMITED_ATTEMPTS, is_exhausted
from jbm_kafka.core.settings.address_settings import ResolvedSettings
from jbm_kafka.jms.base.modes import AcknowledgeMode

_STAYS = {
    AcknowledgeMode.CLIENT: "it stays unacknowledged: session.recover(), called in the listener, has it come again",
    AcknowledgeMode.TRANSACTED: (
        "it stays in the transaction, which the next message joins: session.rollback(), called in the listener, has it "
        "come again"
    ),
    AcknowledgeMode.PRE: "it had been acknowledged before, and does not come again",
    AcknowledgeMode.NO: "it had been acknowledged before, and does not come again",
}


def what_follows(mode: AcknowledgeMode, settings: ResolvedSettings, attempts: int) -> str:
    """`attempts` with this one."""
    if mode in _STAYS:
        return _STAYS[mode]
    most = settings.max_delivery_attempts
    if not is_exhausted(attempts, most):
        return f"attempt {attempts}{'' if most == UNLIMITED_ATTEMPTS else f' of {most}'}, it comes again"
    return f"attempt {attempts} of {most}, {_end(settings)}"


def after_close(mode: AcknowledgeMode, *, is_taken: bool) -> str:
    """Return the fate of a message whose listener runs on when its session has closed; `is_taken`: the session had lost
    it before."""
    if mode in (AcknowledgeMode.PRE, AcknowledgeMode.NO):
        return _STAYS[mode]
    return "its partition had moved before, and what becomes of it is decided there" if is_taken else "it comes again"


def _end(settings: ResolvedSettings) -> str:
    if settings.on_dead_letter == "hold":
        return "it is on hold with its unit, as on_dead_letter='hold' asks"
    if settings.dead_letter_address is None:
        return "it is removed, for there is no dead-letter address"
    return f"it goes to {settings.dead_letter_address}"
