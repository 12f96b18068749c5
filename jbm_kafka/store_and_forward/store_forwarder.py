"""Forwards what a store holds: batches in order, each a transaction that leaves its number in Kafka (SAF-2, SAF-3).

Before a transaction begins the store has on its disk which entries it takes and its number. So whoever opens the store
after a crash, of the process, the brokers or the machine, asks Kafka for the number, and knows.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Mapping, Sequence

from jbm_kafka.client.partition_choice import other_count
from jbm_kafka.codec.stored_sends import StoredEntry, StoredSend
from jbm_kafka.core.destination import Destination, parse_destination
from jbm_kafka.core.jms_errors import JMSError, JMSSecurityError
from jbm_kafka.ports.clock import Clock
from jbm_kafka.ports.fenced_sends import NumberedBatches, ProviderOfBatches
from jbm_kafka.ports.kafka import (
    AccessRefused,
    KafkaClientError,
    RecordTooLarge,
    TransactionAborted,
    UnknownTopic,
)
from jbm_kafka.ports.provider import TopicInfo
from jbm_kafka.ports.record_to_send import Outgoing
from jbm_kafka.ports.wake_up import Sleepers, WakeUp
from jbm_kafka.store_and_forward.forwarding_order import ForwardingOrder, Verdict, next_wait_ms, verdict_of
from jbm_kafka.store_and_forward.send_store import SAY_AGAIN_MS, BatchUnderWay, SendStore

log = logging.getLogger("jbm_kafka.store_and_forward")

ENTRIES_MAX = 1_000
BYTES_MAX = 4 << 20
LOOK_S = 1.0
"""How often it looks when nothing is stored."""
MARK_AGAIN_MS = 86_400_000
"""Kafka forgets a number that was committed a week ago; an idle store repeats its own before the next batch."""
IN_DOUBT = (
    "nobody knows whether it was sent: Kafka has no record of the batch that it was in ({why}); look into the "
    "destination, then retry or drop it"
)


class _Ready:
    """The records that one entry becomes in Kafka."""

    __slots__ = ("entry", "number", "records")

    def __init__(self, number: int, entry: StoredEntry, records: list[Outgoing]) -> None:
        self.number = number
        self.entry = entry
        self.records = records


class StoreForwarder:
    """Forwards one store on a thread of its own, from `start` to `stop`."""

    def __init__(self, store: SendStore, connect: Callable[[], ProviderOfBatches], clock: Clock) -> None:
        self._store = store
        self._connect = connect
        self._clock = clock
        self._order = ForwardingOrder(ENTRIES_MAX, BYTES_MAX)
        self.provider: ProviderOfBatches | None = None
        """Kafka's, once it was there."""
        self._batches: NumberedBatches | None = None
        self._unfinished: BatchUnderWay | None = None
        """It is in Kafka, and the store could not be told."""
        self._found: dict[str, tuple[Destination, TopicInfo]] = {}
        """Where messages go, by destination as it is stored."""
        self._written_at_ms = 0
        """By the wall, for other clocks stand still while a machine sleeps."""
        self._silent_until_ms: dict[str, int] = {}
        """Until when no further line tells of dead letters, by destination."""
        self._stop = WakeUp()
        self._through = -1
        """The highest number that was there when all that waits was looked at last; -1: it is being looked at."""
        self._thread = threading.Thread(target=self._run, name="jbm-store-and-forward", daemon=True)
        self._news = Sleepers(threading.RLock())
        self.trouble = ""
        """Why nothing is forwarded now; empty: it is, or nothing waits."""
        self.forwarded = 0
        """Entries, since it was started."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Forward no more, and let Kafka go; what waits stays in the store."""
        self._stop.set()
        self._store.entered.set()
        # Before it is connected it writes nothing, and so it will not, for it finds the store closed.
        self._thread.join(0.0 if self.provider is None else timeout_s)

    def wait_forwarded(self, timeout_s: float) -> bool:
        """Returns True when nothing waits; False if the time is up, Kafka takes nothing for now, or it was stopped."""
        self._news.wait_for(self._has_nothing_to_do, timeout_s)
        return self._is_idle()

    def _has_nothing_to_do(self) -> bool:
        is_done = self._is_idle() or self._through == self._store.number
        return is_done or self.trouble != "" or self._stop.is_set()

    def troubles(self) -> list[str]:
        """Returns a sentence for each thing that hinders it."""
        waiting = self._order.waiting_destinations
        found = [self.trouble] if self.trouble else []
        if waiting:
            found.append(f"{', '.join(waiting)}: what is stored for it is not taken for now, and is tried again")
        return found

    # -- the thread ------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        tries = 0
        while not self._stop.is_set():
            self._through = -1
            self._store.entered.clear()
            number = self._store.number
            try:
                has_more = self.forward()
            except Exception as error:  # whatever it is, what is stored is kept, and tried again
                if self._stop.is_set():
                    break  # its store may be closed by now
                known = isinstance(error, JMSError | KafkaClientError)
                self._hinder(str(error) if known else f"{type(error).__name__}: {error}", is_known=known)
                self._stop.wait(next_wait_ms(tries) / 1_000)  # what is stored meanwhile waits, too
                tries += 1
                continue
            tries = 0
            if not has_more:
                self._through = number
            self._tell("")
            if not has_more:
                self._wait(self._pause_s())
        self._let_go()

    def _pause_s(self) -> float:
        due_at_ms = self._order.due_at_ms()
        return LOOK_S if due_at_ms is None else min(LOOK_S, max(0.01, (due_at_ms - self._now_ms()) / 1_000))

    def _wait(self, seconds: float) -> None:
        if not self._stop.is_set():
            self._store.entered.wait(seconds)

    def _now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def _is_idle(self) -> bool:
        return not self._store.counts().waiting

    def _hinder(self, text: str, *, is_known: bool) -> None:
        if text != self.trouble:
            waiting = self._store.counts().waiting
            say = log.warning if is_known else log.exception
            say("%s: %d entries wait in the store, and are tried again: %s", self._store.path, waiting, text)
        self._tell(text)

    def _tell(self, trouble: str) -> None:
        with self._news.lock:
            if self.trouble and not trouble:
                log.info("%s: what is stored is forwarded again", self._store.path)
            self.trouble = trouble
            self._news.notify_all()

    # -- one batch -------------------------------------------------------------------------------------------------

    def forward(self) -> bool:
        """Forward one batch; returns whether there may be more.

        Raises:
            JMSError, KafkaClientError: nothing can be forwarded for now.
        """
        if self._unfinished is not None:
            self._finish(self._unfinished)
        if self._is_idle() and self._store.batch() is None:
            return False
        try:
            batches = self._taken_over()
            self._order.release_due(self._now_ms())
            rows = self._store.waiting(self._order.position, ENTRIES_MAX, 2 * BYTES_MAX)
            if not rows:
                return False
            ready = self._made_ready(self._order.choose(rows))
            if ready:
                self._write(batches, ready)
        except BaseException:
            self._order.begin_again()  # what was chosen is not sent
            if self._batches is not None:
                self._batches.close()  # who takes over anew asks what became of the last one
            raise
        return True

    def _made_ready(self, chosen: Sequence[tuple[int, StoredEntry]]) -> list[_Ready]:
        """Choose partitions and check; what cannot go is set aside, or ends the batch before it."""
        ready: list[_Ready] = []
        hopeless: dict[int, str] = {}
        is_let_in = False
        for number, entry in chosen:
            at = entry.sends[0]
            try:
                records = []
                for at in entry.sends:
                    records.append(self._record(at))
            except JMSError as error:
                verdict = verdict_of(error)
                if verdict is Verdict.ALL_WAIT:
                    raise
                if verdict is Verdict.DESTINATION_WAITS:
                    self._suspend(at.destination, error)
                    break  # what was chosen behind it is chosen anew, by what waits now
                if isinstance(error, JMSSecurityError) and not is_let_in:
                    assert self._batches is not None
                    self._batches.cluster_id()  # raises if nothing goes, for our credentials are refused
                    is_let_in = True
                hopeless[number] = str(error)
                continue
            ready.append(_Ready(number, entry, records))
        self._set_aside({number: entry for number, entry in chosen if number in hopeless}, hopeless)
        return ready

    def _record(self, send: StoredSend) -> Outgoing:
        """Return the record of a send, made as if it was sent now, with the time when it was."""
        provider = self.provider
        assert provider is not None, send
        found = self._found.get(send.destination)
        if found is None or found[1] is not provider.known_topic(found[0].name):
            destination = parse_destination(send.destination)
            found = self._found[send.destination] = destination, provider.ensure(destination)
        destination, info = found
        provider.check_sendable(destination)
        headers = send.headers
        if info.is_log_append_time and send.timestamp_ms is not None:
            headers = (*headers, ("JMSTimestamp", b"%d" % send.timestamp_ms))
        partition = self._partition(provider, info, send)
        return Outgoing(info.topic, partition, send.key, send.value, headers, send.timestamp_ms, info.max_message_bytes)

    def _partition(self, provider: ProviderOfBatches, info: TopicInfo, send: StoredSend) -> int:
        if send.key is None:
            has_id = any(name == "JBMDuplicateID" for name, _ in send.headers)
            return send.route % (info.unit_partitions if has_id else info.partitions)
        if not info.takes_units:
            raise other_count(info)
        found = info.partition(send.key)
        return provider.place_unit(info.topic, send.key) if found is None else found

    def _write(self, batches: NumberedBatches, ready: Sequence[_Ready]) -> None:
        if abs(self._clock.now_ms() - self._written_at_ms) > MARK_AGAIN_MS:
            batches.write(self._store.batch_number(), [])
        number = self._store.batch_number() + 1
        batch = BatchUnderWay(number, tuple(each.number for each in ready))
        self._store.begin_batch(batch)
        records = [(each.number, record) for each in ready for record in each.records]
        try:
            batches.write(number, records)
        except TransactionAborted as error:
            self._store.end_batch(BatchUnderWay(number - 1, ()))
            self._refused(error, {each.number: each.entry for each in ready})
            return
        except KafkaClientError:
            self._order.shrink(len(ready))  # its offset may have been too late on a slow line
            raise
        self._written_at_ms = self._clock.now_ms()
        self._finish(batch)
        self._order.sent(send.destination for each in ready for send in each.entry.sends)

    def _finish(self, batch: BatchUnderWay) -> None:
        self._unfinished = batch
        self._store.end_batch(batch)
        self._unfinished = None
        self.forwarded += len(batch.entries)

    def _refused(self, error: TransactionAborted, entries: Mapping[int, StoredEntry]) -> None:
        """Set aside what Kafka refuses for good, after a transaction was aborted, and have the rest tried again.

        Raises:
            TransactionAborted: no entry is to blame.
        """
        hopeless = {
            int(token): str(refusal.cause)
            for token, refusal in error.refusals.items()
            if isinstance(token, int) and token in entries and not isinstance(refusal.cause, UnknownTopic)
        }
        if hopeless:
            self._order.begin_again()
            self._set_aside({number: entries[number] for number in hopeless}, hopeless)
            return
        blamed = [entries[token] for token in error.failed if isinstance(token, int) and token in entries]
        refusal = error.refusals.get(None)
        if refusal is not None and not refusal.group and isinstance(refusal.cause, AccessRefused | RecordTooLarge):
            self._order.begin_again()
            if len(entries) > 1:
                self._order.shrink(len(entries))  # Kafka says that one is refused, and not which
                return
            self._set_aside(entries, dict.fromkeys(entries, str(refusal.cause)))
            return
        self._order.shrink(len(entries))  # a slow line may not get so much there in time
        for destination in {send.destination for entry in blamed for send in entry.sends}:
            self._forget(destination)
            self._suspend(destination, error)
        if not blamed:
            raise error

    def _suspend(self, destination: str, error: Exception) -> None:
        """Let the destination wait; one line says so, however often it is tried."""
        if self._order.suspend(destination, self._now_ms()):
            log.warning("%s: what is stored for %s waits: %s", self._store.path, destination, error)

    def _forget(self, destination: str) -> None:
        """Look anew where its messages go: its topic may have been deleted."""
        found = self._found.pop(destination, None)
        if found is not None and self.provider is not None:
            self.provider.send_error(UnknownTopic(destination), found[0])

    def _set_aside(self, entries: Mapping[int, StoredEntry], reasons: Mapping[int, str]) -> None:
        if not entries:
            return
        numbers: dict[str, list[int]] = {}
        for number, entry in entries.items():
            numbers.setdefault(entry.sends[0].destination, []).append(number)
            self._order.set_aside(entry)
        now_ms = self._now_ms()
        for destination, aside in numbers.items():
            if now_ms >= self._silent_until_ms.get(destination, 0):
                self._silent_until_ms[destination] = now_ms + SAY_AGAIN_MS
                log.error(
                    "%s: entries to %s become dead letters of the store, the first is number %d: %s",
                    *(self._store.path, destination, aside[0], reasons[aside[0]]),
                )
        self._store.set_aside(list(entries.items()), lambda number: reasons[number])

    # -- taking over -----------------------------------------------------------------------------------------------

    def _taken_over(self) -> NumberedBatches:
        """Return the batches, when it is known what became of the last one."""
        if self._batches is not None and self._batches.is_taken_over:
            return self._batches
        if self.provider is None:
            self.provider = self._connect()
            if self._stop.is_set():
                raise JMSError("it was stopped while it connected")
        if self._batches is None:
            self._batches = self.provider.numbered_batches(self._store.store_id)
        batches = self._batches
        self._check_cluster(batches.cluster_id())
        found, number, under_way = batches.take_over(), self._store.batch_number(), self._store.batch()
        if under_way is not None and found == number:
            self._finish(under_way)
        elif found > number:
            self._doubt("the folder is an older copy of what has forwarded since")
            number = found
        elif under_way is not None and found == number - 1 and found:
            number = found
        elif under_way is not None:
            self._doubt("it ended longer ago than Kafka keeps such numbers", frozenset(under_way.entries))
        # The first number has no batch: so its absence later says that Kafka has forgotten it, and nothing else.
        number = number or 1
        self._store.begin_batch(BatchUnderWay(number, ()))  # the disk has it, and what is in doubt, before Kafka has
        batches.write(number, [])
        self._written_at_ms = self._clock.now_ms()
        return batches

    def _doubt(self, why: str, numbers: Container[int] | None = None) -> None:
        """Set entries aside of which nobody knows whether they were sent; None: all that wait."""
        begin = 0
        while rows := self._store.waiting(begin, ENTRIES_MAX, BYTES_MAX):
            begin = rows[-1][0] + 1
            taken = {number: entry for number, entry, _ in rows if numbers is None or number in numbers}
            self._set_aside(taken, dict.fromkeys(taken, IN_DOUBT.format(why=why)))

    def _check_cluster(self, cluster_id: str) -> None:
        if not self._store.cluster_id:
            self._store.keep_cluster(cluster_id)
        elif self._store.cluster_id != cluster_id:
            raise JMSError(
                f"store {self._store.path} forwards to cluster {self._store.cluster_id}, and this is {cluster_id}: "
                f"give each cluster its own folder"
            )

    def _let_go(self) -> None:
        for part in (self._batches, self.provider):
            if part is not None:
                part.close()
