"""How a session settles what its application received: one class per acknowledge mode (see settling_in_hand.py too).

A settling is asked at each receive, told of each message handed over, and carries out acknowledge, nack, recover,
commit, rollback and close as its mode says.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jbm_kafka.core.destination import Destination
from jbm_kafka.core.errors import IllegalStateError, JMSError
from jbm_kafka.jms.inbox import InHand, give_back
from jbm_kafka.jms.messages import Message, Settler
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.fence import Fence, Verdict
from jbm_kafka.ports.grants import Granted, Tap
from jbm_kafka.ports.link import Link
from jbm_kafka.ports.refusals import refusal

if TYPE_CHECKING:
    from jbm_kafka.jms.consumer import MessageConsumer
    from jbm_kafka.jms.session import Session

log = logging.getLogger(__name__)

DURABLE_TIMEOUT_S = 60.0
"""How long a blocking acknowledgement or a commit waits for its checkpoint."""


class Settling:
    """What all modes share; on its own the settler of messages whose mode ignores `acknowledge`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.fences: defaultdict[Destination, Fence] = defaultdict(Fence)
        """By queue; here, because they outlive the consumers that gave back."""

    def before_receive(self) -> None:
        """The application asks for the next message, on the session's thread."""

    def settle_at_once(self) -> bool:
        """What `before_receive` does, if that is done in a moment: this may be called under the session's lock.

        Returns False when it did nothing; then `before_receive` must be called, without the lock.
        """
        return True

    def handed_over(self, consumer: MessageConsumer, granted: Granted) -> Settler:
        """The application gets a message; returns what its `acknowledge` and `nack` go to."""
        raise NotImplementedError

    def not_handed_over(self, granted: Granted) -> None:
        """Undo `handed_over`, if that was done: the application did not get it after all."""

    def in_hand(self, link: Link) -> int:
        """How many messages of the link the application holds."""
        return 0

    def acknowledge_all(self) -> None:
        """`session.acknowledge()`."""

    def recover(self) -> None:
        """`session.recover()`."""

    def commit(self) -> None:
        """`session.commit()`."""
        raise self._not_transacted("commit")

    def rollback(self) -> None:
        """`session.rollback()`."""
        raise self._not_transacted("rollback")

    def abandon(self) -> None:
        """The application leaves by an exception: what it holds was not processed."""

    def consumer_closes(self, consumer: MessageConsumer) -> None:
        """A consumer closes, the session goes on."""

    def listener_raised(self, message: Message) -> None:
        """The listener of the message raised (ACK-11)."""

    def listener_returned(self) -> None:
        """The listener of the last message returned."""

    def close(self) -> None:
        """The session closes."""

    def acknowledge(self, message: Message) -> None:
        """`message.acknowledge()`: ignored in AUTO and TRANSACTED."""
        self._session.check_open()

    def nack(self, message: Message, delay_ms: int | None) -> None:
        """`message.nack()`: only CLIENT and INDIVIDUAL have one."""
        self._session.check_open()
        raise IllegalStateError(
            f"nack() is for CLIENT and INDIVIDUAL sessions, this one is {self._session.acknowledge_mode.name}"
        )

    def _not_transacted(self, call: str) -> IllegalStateError:
        mode = self._session.acknowledge_mode.name
        return IllegalStateError(f"{call}() is for TRANSACTED sessions, this one is {mode}")

    def _record(self, rows: Sequence[InHand]) -> None:
        """Acknowledge; waits until it is durable when the connection says so."""
        blocks = self._session.connection.block_on_acknowledge
        lost: list[tuple[Tap, int]] = []
        by_link: dict[Link, list[tuple[Tap, int]]] = defaultdict(list)
        for row in rows:
            tap, offset = row.granted.tap, row.reference.offset
            if not blocks:
                lost += [(tap, late) for late in tap.acknowledge(offset)]
            elif tap.is_lost:
                lost.append((tap, offset))
            else:
                by_link[row.link].append((tap, offset))
        waits: list[Completion] = []
        for link, acknowledged in by_link.items():
            waits.append(Completion())
            link.verdicts.append(Verdict(acknowledged=acknowledged, done=waits[-1]))
        for wait in waits:
            wait.wait(DURABLE_TIMEOUT_S, about="acknowledge")
        if lost:
            raise refusal(lost[0][0].channel, [offset for _, offset in lost])


class AutoSettling(Settling):
    """The message before is settled when the next is asked for (ACK-1)."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._previous: Granted | None = None
        """What the application has in hand."""
        self._link: Link | None = None
        """Where it came from. Beside it, for an object that holds both would be one more for each message."""
        self._is_blocking = session.connection.block_on_acknowledge

    def before_receive(self) -> None:
        if self.settle_at_once():
            return
        previous = self._take_previous()
        assert previous is not None, self._session.session_id
        tap = previous.granted.tap
        if tap.is_lost:
            self._session.connection.tell(refusal(tap.channel, [previous.reference.offset]))
        else:
            self._record([previous])

    def settle_at_once(self) -> bool:
        previous = self._previous
        if previous is None:
            return True
        tap = previous.tap
        if tap.is_lost or self._is_blocking:
            return False
        self._previous = None
        late = tap.acknowledge(previous.reference.offset)
        if late:  # lost since the look above
            self._session.connection.tell(refusal(tap.channel, late))
        return True

    def handed_over(self, consumer: MessageConsumer, granted: Granted) -> Settling:
        self._previous = granted
        self._link = consumer.link
        return self

    def not_handed_over(self, granted: Granted) -> None:
        if self._previous is granted:
            self._previous = None

    def in_hand(self, link: Link) -> int:
        return 1 if self._previous is not None and self._link is link else 0

    def _take_previous(self) -> InHand | None:
        """What the application has in hand, which it has no more."""
        previous, self._previous = self._previous, None
        return None if previous is None or self._link is None else InHand(previous, self._link)

    def recover(self) -> None:
        self.before_receive()

    def abandon(self) -> None:
        previous = self._take_previous()
        if previous is not None and not previous.granted.tap.is_lost:
            give_back([previous], counted=True)

    def listener_raised(self, message: Message) -> None:
        self.abandon()

    def listener_returned(self) -> None:
        self.before_receive()

    def consumer_closes(self, consumer: MessageConsumer) -> None:
        if self._link is consumer.link:
            self.before_receive()

    def close(self) -> None:
        try:
            self.before_receive()
        except JMSError as error:
            self._session.connection.tell(error)
