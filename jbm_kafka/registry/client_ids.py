"""Client ids: each has one connection in the whole cluster (CONN-2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from jbm_kafka.codec.registry_records import ClientRecord, client_key, decode_client, encode_client
from jbm_kafka.core.jms_errors import InvalidClientIDError
from jbm_kafka.ports import KafkaClientError, Unreachable
from jbm_kafka.ports.client_errors import as_jms_error
from jbm_kafka.registry.process_liveness import ProcessLiveness
from jbm_kafka.registry.registry_log import Changes, RegistryLog

Lost = Callable[[InvalidClientIDError], None]
"""Called, on a thread of the holder's, when a connection has its client id no longer."""


@dataclass(slots=True, eq=False)
class _Held:
    """A client id in use here."""

    connection_id: str
    lost: Lost
    is_claimed: bool = False
    """The registry says so; before that the call of `hold` raises what is wrong."""


Decide = Callable[[Mapping[bytes, bytes], Callable[[str], bool]], Changes]
"""Gives the changes to be made, from what is there and who lives."""


@dataclass(slots=True, eq=False)
class _Asked:
    """A change that somebody waits for."""

    decide: Decide
    is_done: bool = False
    error: Exception | None = None


class ClientIds:
    """The client ids that connections of this process use. Any thread may call it.

    What is asked for while a change is being written is written together next: each takes a fifth of a second, and
    thousands of clients may reconnect at once.
    """

    def __init__(self, registry: RegistryLog, holder: ProcessLiveness) -> None:
        self._registry = registry
        self._holder = holder
        self._held: dict[str, _Held] = {}
        self._lock = threading.Lock()
        self._asked: list[_Asked] = []
        """Not being written yet."""
        self._writing = threading.RLock()
        """Held for as long as a change takes; a thread that waits in one for Kafka may ask for another."""
        holder.when_back(self._look_again)

    def hold(self, client_id: str, connection_id: str, lost: Lost) -> None:
        """Have it, until `release`, the end of this process, or `lost`: others thought it dead, and one took it.

        Raises:
            InvalidClientIDError: another connection has it.
            JMSError: the cluster cannot be asked.
        """
        with self._lock:
            if client_id in self._held:
                raise _taken(client_id, "another connection of this process has it")
            held = self._held[client_id] = _Held(connection_id, lost)
        try:
            self._registry.make()
            mine = ClientRecord(self._holder.ensure(), connection_id)
            self._change(lambda values, lives: _claim(values, lives, client_id, mine))
            held.is_claimed = True
        except BaseException as error:
            with self._lock:
                self._held.pop(client_id, None)
            if isinstance(error, KafkaClientError):
                raise as_jms_error(error, f"client id {client_id!r}", client_id=client_id) from None
            raise

    def release(self, client_id: str, connection_id: str) -> None:
        """Let it go; when Kafka does not answer, as soon as it does."""
        with self._lock:
            self._held.pop(client_id, None)
        mine = ClientRecord(self._holder.name, connection_id)

        def without_mine(values: Mapping[bytes, bytes], lives: Callable[[str], bool]) -> Changes:
            return {client_key(client_id): None} if _has(values, client_id, mine) else {}

        self._holder.let_go(f"client id {client_id!r}", lambda: self._change(without_mine))

    def _change(self, decide: Decide) -> None:
        """Return when what it says is written, together with what others ask for meanwhile.

        Raises:
            InvalidClientIDError, KafkaClientError: as `decide`, and as `RegistryLog.update`.
        """
        mine = _Asked(decide)
        with self._lock:
            self._asked.append(mine)
        with self._writing:
            if not mine.is_done:
                with self._lock:
                    together, self._asked = self._asked, []
                self._write(together)
        if mine.error is not None:
            raise mine.error

    def _write(self, together: Sequence[_Asked]) -> None:
        failure: Exception | None = None
        try:
            self._registry.update(lambda values: self._decide_all(dict(values), together))
        except BaseException as error:  # each of them hears it, also where an interrupt ends this one's wait
            failure = error if isinstance(error, Exception) else Unreachable("the change was interrupted")
            if failure is not error:
                raise
        finally:
            for asked in together:
                asked.is_done = True
                asked.error = asked.error or failure

    def _decide_all(self, values: dict[bytes, bytes], together: Sequence[_Asked]) -> Changes:
        """One after the other, each seeing what those before it change; a refusal costs the others nothing."""
        lives = cache(lambda holder: bool(self._holder.living([holder])))
        changes: dict[bytes, bytes | None] = {}
        for asked in together:
            asked.error = None
            try:
                wanted = asked.decide(values, lives)
            except InvalidClientIDError as error:
                asked.error = error
                continue
            changes.update(wanted)
            for key, value in wanted.items():
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
        return changes

    def _look_again(self) -> None:
        """Have each again that others may have thought free, or tell its connection that it is another's now."""
        with self._lock:
            all_held = [(client_id, held) for client_id, held in self._held.items() if held.is_claimed]
        for client_id, held in all_held:
            try:
                self._change(partial(self._claim_again, client_id, held))
            except InvalidClientIDError as error:
                with self._lock:
                    if self._held.get(client_id) is not held:
                        continue
                    del self._held[client_id]
                held.lost(error)

    def _claim_again(
        self, client_id: str, held: _Held, values: Mapping[bytes, bytes], lives: Callable[[str], bool]
    ) -> Changes:
        if self._held.get(client_id) is not held:  # let go meanwhile
            return {}
        try:
            return _claim(values, lives, client_id, ClientRecord(self._holder.name, held.connection_id))
        except InvalidClientIDError as error:
            raise InvalidClientIDError(
                f"client id {client_id!r} is lost: nobody heard of this process for its session timeout, and meanwhile "
                f"a connection of another process took the id. Close this connection, and make a new one when that one "
                f"is closed",
                client_id=client_id,
            ) from error


def _claim(values: Mapping[bytes, bytes], lives: Callable[[str], bool], client_id: str, mine: ClientRecord) -> Changes:
    value = values.get(client_key(client_id))
    if value is not None:
        found = decode_client(value)
        if found == mine:
            return {}
        if found.holder != mine.holder and lives(found.holder):
            raise _taken(client_id, f"a connection of another process has it (group {found.holder})")
    return {client_key(client_id): encode_client(mine)}


def _has(values: Mapping[bytes, bytes], client_id: str, mine: ClientRecord) -> bool:
    value = values.get(client_key(client_id))
    return value is not None and decode_client(value) == mine


def _taken(client_id: str, cause: str) -> InvalidClientIDError:
    return InvalidClientIDError(
        f"client id {client_id!r} is in use: {cause}. Close that connection, or use another client_id; of a process "
        f"that was killed it is free after its session timeout",
        client_id=client_id,
    )
