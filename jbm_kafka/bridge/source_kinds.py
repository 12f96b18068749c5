"""The source side of a lane's pump."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.pumps import PumpSource
from jbm_kafka.bridge.sides import BridgeSource, check_answers
from jbm_kafka.core.jms_errors import JMSError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection

if TYPE_CHECKING:
    from jbm_kafka.bridge.amqp_source import AmqpSource


def check_source(connection: Connection | None, spec: BridgeSpec) -> None:
    """Return when the source answers. Arguments as of `source_of`.

    Raises:
        JMSError: it does not.
    """
    if connection is not None:
        check_answers(connection, spec.source.place)
    else:
        _amqp_source().check_answers(spec)


def source_of(connection: Connection | None, spec: BridgeSpec, mode: AcknowledgeMode, counts: LaneCounts) -> PumpSource:
    """A source that receives: TRANSACTED settles all at once, INDIVIDUAL gives one message of a unit at a time, PRE
    acknowledges first.

    Args:
        connection: to the cluster; None: an AMQP server is the source.
        spec: the bridge.
        mode: one of the three.
        counts: of the lane.

    Raises:
        JMSError: it cannot receive.
    """
    if connection is not None:
        return BridgeSource(connection, spec, mode, spec.in_flight, counts)
    return _amqp_source()(
        spec,
        counts,
        is_one_by_one=mode is AcknowledgeMode.INDIVIDUAL,
        accepts_first=mode is AcknowledgeMode.PRE,
    )


def _amqp_source() -> type[AmqpSource]:
    try:
        from jbm_kafka.bridge.amqp_source import AmqpSource
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] not in ("proton", "cproton", "cffi"):
            raise
        raise JMSError("amqp:// needs qpid-proton, which is built from source: pip install 'jbm-kafka[amqp]'") from None
    return AmqpSource
