"""Which strategy an acknowledge mode has."""

from __future__ import annotations

from collections.abc import Callable

from jbm_kafka.core.jms_errors import IllegalStateError
from jbm_kafka.jms.base.modes import AcknowledgeMode, not_of_mode
from jbm_kafka.jms.settling.acknowledge import (
    AcknowledgeStrategy,
    AutoAcknowledge,
    ClientAcknowledge,
    IndividualAcknowledge,
)
from jbm_kafka.jms.settling.at_most_once import NoAcknowledge, PreAcknowledge
from jbm_kafka.jms.settling.lazy_acknowledge import LazyAcknowledge, Triggers
from jbm_kafka.jms.settling.transacted_acknowledge import TransactedAcknowledge
from jbm_kafka.jms.shared.session_core import SessionCore


def strategy_for(session: SessionCore) -> AcknowledgeStrategy:
    """The strategy of a session's mode."""
    kinds: dict[AcknowledgeMode, Callable[[SessionCore], AcknowledgeStrategy]] = {
        AcknowledgeMode.AUTO: AutoAcknowledge,
        AcknowledgeMode.CLIENT: ClientAcknowledge,
        AcknowledgeMode.INDIVIDUAL: IndividualAcknowledge,
        AcknowledgeMode.TRANSACTED: TransactedAcknowledge,
        AcknowledgeMode.DUPS_OK: lambda core: LazyAcknowledge(core, Triggers()),
        AcknowledgeMode.PRE: PreAcknowledge,
        AcknowledgeMode.NO: NoAcknowledge,
    }
    return kinds[session.mode](session)


def with_triggers(
    session: SessionCore, strategy: AcknowledgeStrategy, triggers: Triggers, *, is_new: bool
) -> AcknowledgeStrategy:
    """The strategy of a DUPS_OK session from now on: the same with new triggers, or another one.

    Args:
        is_new: the session had no consumer yet.

    Raises:
        IllegalStateError: the session is not DUPS_OK, or it is too late.
        InvalidSettingError: the triggers do not go with a consumer's prefetch.
    """
    if session.mode is not AcknowledgeMode.DUPS_OK:
        raise not_of_mode("set_dups_ok", session.mode, AcknowledgeMode.DUPS_OK)
    if isinstance(strategy, LazyAcknowledge) and not triggers.is_client:
        strategy.set(triggers)
        return strategy
    if not is_new and isinstance(strategy, LazyAcknowledge) == triggers.is_client:
        raise IllegalStateError(
            "messages=0 with milliseconds=0 makes the session a CLIENT one: say so before its first consumer is made, "
            "and nothing else afterwards"
        )
    return ClientAcknowledge(session) if triggers.is_client else LazyAcknowledge(session, triggers)
