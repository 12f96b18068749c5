"""A transaction that has messages of other sidecars: each prepares a branch, and this one decides them all at once.

decision 80.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

from jbm_kafka.amqp.part_protocols import Client
from jbm_kafka.amqp_wire.loop_mailbox import answer
from jbm_kafka.core.channel.branch import Branch, BranchState, branch_across
from jbm_kafka.core.jms_errors import JMSError, TransactionRolledBackError
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.forwarding import ForwardingSidecar
from jbm_kafka.ports.kafka import Outgoing

PREPARE: Final = "jbm:prepare"
"""The address by which one sidecar tells another: [transaction, number of the branch, its decider]."""
DECIDED: Final = "jbm:decided"
"""[transaction, number of the branch, whether it is committed]."""
DISCHARGE: Final = "amqp:discharge:list"
CARRY_OUT_S: Final = 5.0
"""An owner that has not carried out a decision after so long is not asked any more: it reads that."""


class ForwardedMessage(Protocol):
    """One of another sidecar's."""

    def fence(self) -> None:
        """Drop what comes of its unit until its owner has it back."""

    def unfence(self) -> None:
        """It has."""


class Owner(Protocol):
    """The connection to another sidecar."""

    def ask(self, what: str, fields: list[Any], answered: Callable[[], None]) -> asyncio.Future[bytes]:
        """Have it do something, after all that was said before."""

    def abort(self) -> None:
        """End it without a word."""


class AcrossSidecars:
    """The part that one transaction has of other sidecars' messages; on the event loop."""

    def __init__(self, peer: Client, name: bytes) -> None:
        """`name`: of the transaction, which its owners know it by."""
        self._peer = peer
        self._name = name
        self._messages: dict[Owner, list[ForwardedMessage]] = {}

    @property
    def is_used(self) -> bool:
        """It has any."""
        return bool(self._messages)

    def take(self, owner: Owner, message: ForwardedMessage) -> None:
        """One more."""
        self._messages.setdefault(owner, []).append(message)

    async def commit(self, sends: Sequence[Outgoing], prepare_own: Callable[[Branch], Awaitable[bytes]] | None) -> None:
        """Commit all of it. `prepare_own` prepares what it received of this sidecar.

        Raises:
            TransactionRolledBackError: nothing is prepared, and what was received waits to be rolled back.
            JMSError: it is rolled back, or nobody knows.
        """
        provider: Any = self._peer.provider
        assert isinstance(provider, ForwardingSidecar), provider
        owners, decider = list(self._messages), provider.decider
        numbers = range(len(owners) + (prepare_own is not None))
        branches = [branch_across(self._name, number, decider) for number in numbers]
        asked: list[Awaitable[bytes]] = [
            owner.ask(PREPARE, [self._name, number, decider], _nothing) for number, owner in enumerate(owners)
        ]
        if prepare_own is not None:
            asked.append(prepare_own(branches[-1]))
        answers = await asyncio.gather(*asked, return_exceptions=True)
        failure = next((each for each in answers if isinstance(each, BaseException)), None)
        prepared = {number: each for number, each in enumerate(answers) if isinstance(each, bytes)}
        if failure is not None and not prepared:
            raise TransactionRolledBackError(f"rolled back: {failure}")
        ours = [branches[number] for number in prepared]
        for number, record in prepared.items():
            if number < len(owners):
                provider.note_prepared(branches[number].branch, record)
        wanted = BranchState.COMMITTED if failure is None else BranchState.ROLLED_BACK
        try:
            state = await self._peer.call(lambda: provider.decide_across(ours, wanted, sends))
        except TransactionRolledBackError as error:
            raise JMSError(str(error)) from None  # what is prepared is not ours to roll back any more
        is_committed = state is BranchState.COMMITTED
        told = [self._tell(owner, number, is_committed, number in prepared) for number, owner in enumerate(owners)]
        if prepare_own is not None and len(owners) in prepared:
            told.append(self._carry_out(provider, branches[-1], state))
        await asyncio.gather(*told)
        if not is_committed:
            raise JMSError(f"rolled back: {failure or 'another sidecar waited too long for this one'}")

    async def _tell(self, owner: Owner, number: int, is_committed: bool, is_prepared: bool) -> None:
        what, rest = (DECIDED, [number, is_committed]) if is_prepared else (DISCHARGE, [True])
        try:
            await asyncio.wait_for(owner.ask(what, [self._name, *rest], _nothing), CARRY_OUT_S)
        except TimeoutError:
            owner.abort()
        except JMSError:
            pass  # it reads the decision, or its heir does

    async def _carry_out(self, provider: ForwardingSidecar, branch: Branch, state: BranchState) -> None:
        await carried_out(self._peer, provider, branch, state)

    async def roll_back(self) -> None:
        """Return when the owners have its messages back, or are gone."""
        messages, self._messages = self._messages, {}
        asked: list[asyncio.Future[bytes]] = []
        for owner, mine in messages.items():
            for each in mine:
                each.fence()
            asked.append(owner.ask(DISCHARGE, [self._name, True], lambda mine=mine: _unfence(mine)))  # type: ignore[misc]
        await asyncio.gather(*asked, return_exceptions=True)


async def carried_out(peer: Client, provider: ForwardingSidecar, branch: Branch, state: BranchState) -> None:
    """Have a decision carried out in the channels of this process, and return when it is."""
    ended = peer.server.loop.create_future()
    done = Completion(lambda _: peer.mailbox.post(lambda: answer(ended, None)))
    await peer.call(lambda: provider.note_decided(branch.branch, state, done))
    await asyncio.wait([ended], timeout=CARRY_OUT_S)


def _unfence(messages: Sequence[ForwardedMessage]) -> None:
    for each in messages:
        each.unfence()


def _nothing() -> None:
    """Nothing waits for the answer but the future."""
