"""Within one cluster: receive and send are one transaction (BRIDGE-1)."""

from __future__ import annotations

from jbm_kafka.bridge.bridge_counts import LaneCounts
from jbm_kafka.bridge.bridge_spec import BridgeSpec
from jbm_kafka.bridge.sides import BridgeSource, BridgeTarget, HeldBack, Unsendable
from jbm_kafka.core.jms_errors import JMSError, LargeBodyError, ResourceAllocationError
from jbm_kafka.jms.base.modes import AcknowledgeMode
from jbm_kafka.jms.connection import Connection
from jbm_kafka.jms.messages.message import Message
from jbm_kafka.ports.record_to_send import Outgoing


class OneTransaction:
    """Implements `Pump`. A session's transaction has no bound to its namespace: its sends are records of any topic."""

    def __init__(self, connection: Connection, target: BridgeTarget, spec: BridgeSpec, counts: LaneCounts) -> None:
        """Raises JMSError when it cannot receive, or send."""
        self._most = max(1, spec.in_flight // spec.lanes)
        self._target = target
        self._source = BridgeSource(connection, spec, AcknowledgeMode.TRANSACTED, self._most, counts)
        self._session = self._source.session
        self._outbox = self._session._core.outbox
        self._is_other_namespace = not spec.shares_installation
        self._sends: list[Outgoing] = []
        """The sends of the open transaction."""

    def step(self) -> int:
        """One transaction, of at least one message."""
        taken: list[Message] = []
        held = HeldBack()
        trouble: JMSError | None = None
        try:
            while len(taken) < self._most:
                message = self._source.receive(waits=not taken)
                if message is None:
                    break
                taken.append(message)
                try:
                    if not held.takes(message) and not self._keep(message):
                        break
                except LargeBodyError as error:
                    held.hold(message, error)
                except JMSError as error:
                    self._source.put_back([message])
                    trouble = error
                    break
            self._source.put_back(held.messages)
            sends, self._sends = self._sends, []
            if self._is_other_namespace:  # whose units the source's sidecar does not follow
                self._target.provider.place_all(sends)  # type: ignore[attr-defined]  # a cluster's provider has it
        except BaseException:
            self._source.put_back(taken)
            raise
        self._session.commit()
        trouble = trouble or held.trouble
        if trouble is not None:
            self._source.counts.arrived += len(sends)  # of which the lane does not hear
            raise trouble
        return len(sends)

    def _keep(self, message: Message) -> bool:
        """Have it in the transaction; or it is given up. False: the transaction is full, and it comes again."""
        try:
            record, size = self._target.record(message)
            # One that expires on its way does so at the target, as it does in any queue.
            self._outbox.add(record, size, 0)
            self._sends.append(record)
        except Unsendable as error:
            self._source.refuse(message, str(error))
        except ResourceAllocationError as error:
            if not len(self._outbox):
                self._source.refuse(message, str(error))
            else:
                self._source.put_back([message])
                return False
        return True

    def close(self) -> None:
        """Roll back what is open."""
        self._source.close()
