"""Two links of a session, and on paper what each message of their queue is due to: decision 102, copied by hand.

Paper never reads the hand: it has its own lists and its own rules, and each act says what the link must answer. The
worker is that of the queue, one act at a time; what it takes back goes to the channel with all behind it in its unit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from jbm_kafka.core.channel.delivery_count import FIRST_DELIVERY
from jbm_kafka.core.channel.reference import Reference
from jbm_kafka.core.receiving import unacknowledged as places
from jbm_kafka.core.receiving.credit import room
from jbm_kafka.core.receiving.hand import Hand, HandMove
from jbm_kafka.core.receiving.unacknowledged import Unacknowledged
from jbm_kafka.jms.settling.acknowledge import give_back
from jbm_kafka.ports.completion import Completion
from jbm_kafka.ports.deliveries import Delivery, PartitionLease
from jbm_kafka.ports.link import Link, LinkTerms
from jbm_kafka.ports.pre_acknowledged_link import PreAcknowledgedLink
from jbm_kafka.ports.wake_up import Sleepers

PREFETCH = 4
UNITS = (b"joe", b"ann", None, b"joe", b"joe", b"ann", None, b"joe")
ONE_BY_ONE = "one by one"
KINDS = (
    *("plain", "announced", "recorded", "pre", "pre announced", "lazy", "transacted"),
    *(ONE_BY_ONE, f"recorded {ONE_BY_ONE}"),
)
"""Of link; an application that acknowledges as CLIENT has the first three, which the hand does not tell apart. The last
two are the AMQP server's, for a client that has one message of a unit at a time."""


@dataclass(eq=False)
class Channel:
    topic: str = "orders"
    partition: int = 0
    is_closing: bool = False


@dataclass(eq=False)
class Worker:
    """It notes what it is asked; the world does it."""

    is_running: bool = True
    is_alive: bool = True
    has_joined: bool = True
    is_settled: bool = True
    opened: int = 1
    is_passing_on: bool = False
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Links that want to be served alone, with how many."""
    attempts: list[tuple[int, Completion]] = field(default_factory=list)
    """What is to be recorded, not yet durable."""

    def wake(self) -> None: ...

    def watch(self, link_id: str, ends: Mapping[int, int], done: Completion) -> None: ...

    def detach(self, link_id: str) -> None: ...

    def take_back(self, link_id: str) -> None: ...

    def serve_alone(self, link_id: str, count: int) -> None:
        self.asked.append((link_id, count))

    def record_attempt(self, delivery: Delivery, done: Completion) -> None:
        self.attempts.append((delivery.offset, done))


@dataclass
class Page:
    """One link on paper; offsets."""

    ready: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    announced: list[list[int]] = field(default_factory=list)
    credit: int = 0
    is_asking_alone: bool = False
    asked: int | None = None
    is_recorded: bool = False
    is_stopped: bool = False
    is_paused: bool = False
    is_closed: bool = False
    has_left: bool = False
    """It is closed, and its unread messages went back."""

    def coming(self) -> list[int]:
        return [offset for batch in self.announced for offset in batch]

    def awaits_record(self) -> bool:
        return self.asked in self.ready and not self.is_recorded

    def is_asking(self) -> bool:
        return bool(self.credit or self.is_asking_alone or self.coming() or self.awaits_record())


class Row(NamedTuple):
    """What the application has: the offset, the link it came by, and which lease; one of an earlier lease is stale."""

    offset: int
    link: int
    lease: int


@dataclass
class Said:
    """What a session gave back, and nobody has carried out."""

    link: int
    named: list[int]
    offsets: list[int]
    """With what goes back beside those that were named."""
    has_unread: bool
    worker: Worker


class HandWorld:
    """A session with two consumers of one queue, its group worker, and paper."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.is_pre = kind.startswith("pre")
        self.is_announced = kind.endswith("announced")
        self.is_recorded = kind.startswith("recorded")
        self.is_one_by_one = kind.endswith(ONE_BY_ONE)
        self.channel = Channel()
        self.worker = Worker()
        self.lease = self._new_lease()
        lock = threading.RLock()
        filled, hand = Sleepers(lock), Hand(is_one_by_one=self.is_one_by_one)
        self.links = [self._new_link(number, filled, lock, hand) for number in (0, 1)]
        for link, other in (self.links, self.links[::-1]):
            link.become_siblings([other])
            link.group_worker = self.worker
        self.pages = [Page(), Page()]
        self.in_channel = list(range(len(UNITS)))
        self.unacknowledged = Unacknowledged[Delivery, Link]()
        self.seen: list[Row] = []
        """In the order of taking, as are the others."""
        self.lazy: list[Row] = []
        self.in_transaction: list[Row] = []
        self.undecided: list[Row] = []
        self.epoch = 0
        """Of the lease."""
        self.said: list[Said] = []
        self.fenced: set[bytes] = set()
        self.busy: set[bytes] = set()
        """The units of which the application has one, and gets no more before it has said something of that."""
        self.last: Row | None = None
        """What the last act took, which may be put back."""
        self._taken: Delivery | None = None
        self._void: list[Completion] = []
        self._deliveries: dict[tuple[int, int], Delivery] = {}
        """By offset and lease."""
        self._batches: list[list[list[Delivery]]] = [[], []]

    def _new_lease(self) -> PartitionLease:
        return PartitionLease(self.channel, session_id="s", notify=lambda error: None)

    def _new_link(self, number: int, filled: Sleepers, lock: threading.RLock, hand: Hand) -> Link:
        terms = LinkTerms(
            str(number),
            "s",
            prefetch=PREFETCH,
            records_first=self.is_pre and self.is_announced,
            records_attempts=self.is_recorded,
        )
        return (PreAcknowledgedLink if self.is_pre else Link)(terms, filled=filled, lock=lock, hand=hand)

    # -- acts ----------------------------------------------------------------------------------------------------------

    def seldom(self) -> list[Callable[[], None]]:
        """What may happen now, and ends most of what went on."""
        found: list[Callable[[], None]] = [self._die, self._stop]
        if self.seen and self.kind not in ("lazy", "transacted") and not self.is_one_by_one:
            found += [partial(self._give_back, self.seen), partial(self._acknowledge, self.seen[-1])]
        for number in (0, 1):
            if not self.pages[number].is_closed:
                acts = (self._take_back, self._pause, self._begin_close)
                found += [partial(act, number) for act in acts]
            elif not self.pages[number].has_left:
                found.append(partial(self._end_close, number))
        return found

    def acts(self) -> list[Callable[[], None]]:
        """All else that may happen now."""
        found: list[Callable[[], None]] = []
        if any(page.is_stopped for page in self.pages):
            found.append(self._start)
        if self.worker.asked:
            found.append(self._serve_alone)
        if self.worker.attempts:
            found.append(self._record)
        if self.said:
            found.append(self._carry_out)
        if self.last is not None and not self.is_one_by_one:
            found.append(self._put_back)
        if self.is_one_by_one:
            found += [partial(act, row) for row in self.seen[-3:] for act in (self._accept_one, self._return_one)]
        elif self.kind == "lazy":
            found += self._acts_of_lazy()
        elif self.kind == "transacted":
            found += self._acts_of_transacted()
        elif len(self.seen) > 1:  # else it hardly ever has more
            middle = self.seen[len(self.seen) // 2]
            found += [
                partial(self._acknowledge, self.seen[0]),
                *(partial(self._nack, row) for row in (middle, self.seen[0])),
            ]
        for number in (0, 1):
            found += [partial(act, number) for act in self._acts_of(number)]
        return found

    def _acts_of(self, number: int) -> list[Callable[[int], None]]:
        page = self.pages[number]
        found: list[Callable[[int], None]] = []
        if page.credit and self.in_channel and not page.is_paused:
            found += [self._grant, self._grant]
        if page.announced:
            found.append(self._arrive)
        if not page.is_closed:
            found += [self._take, self._take] if self._may_take() else []
            if self.is_pre and page.is_paused:
                found.append(self._pause)
            if not (page.is_stopped or page.is_asking()):
                found += [self._ask, self._ask]
        return found

    def _ask(self, number: int) -> None:
        page = self.pages[number]
        in_hand = self.unacknowledged.count(self.links[number])
        assert in_hand == len([row for row in [*self.seen, *self.lazy, *self.undecided] if row.link == number])
        count = room(PREFETCH, unread=len(page.ready), in_hand=in_hand)
        assert count == max(PREFETCH - len(page.ready) - in_hand, 0)
        self.links[number].request(count)
        if self._has_sibling() and count:
            page.is_asking_alone = True
        else:
            page.credit = count

    def _serve_alone(self) -> None:
        link_id, count = self.worker.asked.pop(0)
        number = int(link_id)
        for sibling in self.links[number].siblings:
            self._take_back(self.links.index(sibling))
        self.links[number].want_now(count)
        page = self.pages[number]
        page.is_asking_alone = False
        if not (page.is_closed or page.is_stopped or page.ready):
            page.credit = count

    def _grant(self, number: int) -> None:
        link, page = self.links[number], self.pages[number]
        offsets = sorted(self.in_channel)[: page.credit]
        deliveries = [self._delivery(offset) for offset in offsets]
        is_overtaking = any(said.has_unread and said.worker is self.worker for said in self.said)
        if not is_overtaking:
            page.credit -= len(offsets)
        if self.is_announced:
            assert link.announce(deliveries) == (not is_overtaking), "ORDER-1"
        else:
            assert link.put(deliveries) == (not is_overtaking and self._arrives(number)), "ORDER-1"
        if is_overtaking or not (self.is_announced or self._arrives(number)):
            return
        self._leave_channel(offsets)
        if self.is_announced:
            page.announced.append(offsets)
            self._batches[number].append(deliveries)
        else:
            page.ready += offsets

    def _arrives(self, number: int) -> bool:
        """What is handed over now has a place."""
        page = self.pages[number]
        keeps = self.is_pre and (page.is_stopped or page.is_paused)
        return keeps if keeps and self.is_announced else not (page.is_closed or page.is_stopped or keeps)

    def _arrive(self, number: int) -> None:
        page = self.pages[number]
        offsets, batch = page.announced.pop(0), self._batches[number].pop(0)
        assert [each.offset for each in batch] == offsets, "what was taken back comes no more"
        is_kept = self.is_pre and (page.is_stopped or page.is_paused)
        assert self.links[number].arrive(batch) == self._arrives(number)
        if not self._arrives(number):
            self._to_channel(offsets)
        elif is_kept:
            page.kept += offsets
        else:
            page.ready += offsets

    def _take(self, number: int) -> None:
        self.last = None  # whoever takes another one has that
        page, link = self.pages[number], self.links[number]
        expected = self._next(page)
        if self.is_recorded and expected is not None and not (page.asked == expected and page.is_recorded):
            if page.asked != expected:
                page.asked, page.is_recorded = expected, False
            expected = None
        with link.lock:
            found = link.pop()
        assert (None if found is None else found.offset) == expected, "UNIT-3"
        if found is None or expected is None:
            return
        page.ready.remove(expected)
        unit = UNITS[expected]
        if self.is_one_by_one and unit is not None:
            assert unit not in self.busy, "UNIT-3: the application has two of a unit"
            self.busy.add(unit)
        self.last, self._taken = Row(expected, number, self.epoch), found
        if not self.is_pre:
            self._check_order(expected)
            self.seen.append(self.last)
            self.unacknowledged.hand_over(found, self.links[number])

    def _next(self, page: Page) -> int | None:
        if not any(said.worker.is_running for said in self.said):
            self.fenced.clear()
        rows = [page.asked] if page.asked is not None and page.asked in page.ready else page.ready
        return next((offset for offset in rows if UNITS[offset] not in self.fenced | self.busy), None)

    def _check_order(self, offset: int) -> None:
        """UNIT-3: what was before it in its unit is settled, or with the application."""
        held = {row.offset for row in self._with_application() if row.lease == self.epoch}
        waiting = {*self.in_channel, *(each for said in self.said for each in said.offsets)}
        for page in self.pages:
            waiting.update(page.ready, page.coming())
        before = {each for each in waiting - held if each < offset and UNITS[each] == UNITS[offset] is not None}
        assert not before, f"UNIT-3: {offset} before {sorted(before)}"

    def _record(self) -> None:
        offset, done = self.worker.attempts.pop(0)
        done.complete()
        for page in self.pages:
            if page.asked == offset and done not in self._void:
                page.is_recorded = True

    def _put_back(self) -> None:
        assert self.last is not None
        (offset, number, _), row, self.last = self.last, self.last, None
        page, other, delivery = self.pages[number], self.pages[1 - number], self._taken
        assert delivery is not None
        if not self.is_pre:
            self.unacknowledged.accept(delivery)
        self.links[number].put_back(delivery)
        if self.is_pre:
            (page.kept if page.is_stopped or page.is_paused else page.ready).insert(0, offset)
            return
        self.seen.remove(row)
        is_alone = not (self._has_sibling() and (other.ready or other.is_asking()))
        if is_alone and not (page.is_stopped or page.is_closed):
            page.ready.insert(0, offset)
        else:
            self._say(number, [offset], has_unread=True)

    def _may_take(self) -> bool:
        """The application waits for the end of a commit and for the decision of a branch; of DUPS_OK it has one."""
        return not (self.in_transaction or self.undecided or (self.kind == "lazy" and self.seen))

    def _acts_of_lazy(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        if self.seen:  # it asks for the next one; or its listener raised
            found += [self._finish, partial(self._give_back, self.seen)]
        if self.lazy:
            found += [partial(self._end, places.ACCEPT_MANY, self.lazy), partial(self._give_back, self.lazy)]
        return found

    def _acts_of_transacted(self) -> list[Callable[[], None]]:
        found: list[Callable[[], None]] = []
        if self.in_transaction:
            found.append(partial(self._give_back, self.in_transaction))
            if all(row.lease == self.epoch for row in self.in_transaction):
                found += [partial(self._end, places.COMMIT, self.in_transaction), self._prepared]
        elif self.undecided:
            found.append(partial(self._give_back, self.undecided))
            found.append(partial(self._end, places.DECIDE, self.undecided))
        elif self.seen:
            found += [self._commit, partial(self._give_back, self.seen)]
        return found

    def _accept_one(self, row: Row) -> None:
        """Also into a transaction: the next of its unit may come."""
        self._let_go(row)
        self._move(places.ACCEPT, [row], self.seen)

    def _return_one(self, row: Row) -> None:
        delivery = self._delivery_of(row)
        self._let_go(row)
        self._move(places.GIVE_BACK, [row], self.seen)
        give_back({delivery: self.links[row.link]})
        if row.lease == self.epoch:
            self._say(row.link, [row.offset], has_unread=False)

    def _let_go(self, row: Row) -> None:
        self.links[row.link].hand.let_go(self._delivery_of(row).unit_place)
        unit = UNITS[row.offset]
        self.busy -= set() if unit is None else {unit}

    def _acknowledge(self, last: Row) -> None:
        """CLIENT's: all up to one."""
        rows = self.seen[: self.seen.index(last) + 1]
        found = self.unacknowledged.through(self._delivery_of(last))
        assert [*found] == [self._delivery_of(row) for row in rows], "ACK-2"
        self._move(places.ACCEPT, rows, self.seen)

    def _nack(self, first: Row) -> None:
        """CLIENT's: one, with all that its session has behind it in its unit."""
        unit = UNITS[first.offset]
        behind = [row for row in self.seen if unit and UNITS[row.offset] == unit and row.offset > first.offset]
        rows = [first, *(row for row in behind if row.lease == first.lease)]
        delivery = self._delivery_of(first)
        found = self.unacknowledged.unit_from(delivery)
        assert [*found] == [self._delivery_of(row) for row in rows], "UNIT-3"
        self._move(places.GIVE_BACK, rows, self.seen)
        give_back({delivery: self.links[first.link]})
        if first.lease == self.epoch:
            self._say(first.link, [first.offset], beside=[row.offset for row in rows[1:]], has_unread=False)

    def _give_back(self, place: list[Row]) -> None:
        """All of a place: `recover`, `rollback`, a listener that raised, a commit that failed."""
        rows = list(place)
        self._move(places.GIVE_BACK, rows, place)
        give_back({self._delivery_of(row): self.links[row.link] for row in rows})
        present = [row for row in rows if row.lease == self.epoch]
        if present:
            self._say(present[0].link, [row.offset for row in present], has_unread=False)

    def _finish(self) -> None:
        self.last, row = None, self.seen.pop()
        self.lazy.append(row)
        self.unacknowledged.accept_lazily(self._delivery_of(row))

    def _commit(self) -> None:
        self._move(places.TAKE_PART, list(self.seen), self.seen, self.in_transaction)

    def _prepared(self) -> None:
        """As a branch: what has an odd offset ends with the session, as of a temporary queue, and waits."""
        ends_with_session = [row for row in self.in_transaction if row.offset % 2]
        self._move(places.AWAIT, ends_with_session, self.in_transaction, self.undecided)
        self._move(places.COMMIT, list(self.in_transaction), self.in_transaction)

    def _end(self, move: HandMove, place: list[Row]) -> None:
        self._move(move, list(place), place)

    def _move(self, move: HandMove, rows: list[Row], begins: list[Row], ends: list[Row] | None = None) -> None:
        """On paper and in the hand. What was said of is put back no more."""
        self.last = None
        begins[:] = [row for row in begins if row not in rows]
        if ends is not None:
            ends += rows
        self.unacknowledged.apply(move, {self._delivery_of(row): self.links[row.link] for row in rows})

    def _with_application(self) -> list[Row]:
        return [*self.seen, *self.lazy, *self.in_transaction, *self.undecided]

    def _delivery_of(self, row: Row) -> Delivery:
        return self._deliveries[row.offset, row.lease]

    def _say(self, number: int, offsets: list[int], *, beside: Sequence[int] = (), has_unread: bool) -> None:
        self.fenced.update(unit for offset in offsets if (unit := UNITS[offset]) is not None)
        self.said.append(Said(number, offsets, [*offsets, *beside], has_unread, self.worker))

    def _carry_out(self) -> None:
        """All that was said, link by link."""
        for number, link in enumerate(self.links):
            mine = [said for said in self.said if said.link == number]
            assert len(link.settlement.dispositions) == len(mine)
            for said in mine:
                disposition = link.settlement.dispositions.popleft()
                rows = [row.offset for lease, row in disposition.returned if not lease.is_revoked]
                assert sorted(rows) == (sorted(said.named) if said.worker is self.worker else [])
                self.said.remove(said)
                self._to_channel(said.offsets if said.worker is self.worker else [])
                link.return_is_done(disposition)

    def _take_back(self, number: int) -> None:
        page = self.pages[number]
        back = [] if self.is_pre else [*page.ready, *page.coming()]
        assert sorted(each.offset for each in self.links[number].take_unread()) == sorted(back)
        page.credit = 0
        self._from_pages(back)
        self._to_channel(back)

    def _stop(self) -> None:
        for number, page in enumerate(self.pages):
            if not page.is_closed:
                page.is_stopped = True
                self._return_unread(number, stop=True)

    def _return_unread(self, number: int, *, stop: bool) -> None:
        page = self.pages[number]
        self.links[number].give_back_unread(stop=stop)
        page.credit = 0
        if not self.is_pre:
            back = [*page.ready, *page.coming()]
            self._from_pages(back)
            if back:
                self._say(number, back, has_unread=True)
        elif stop:
            page.kept, page.ready = [*page.kept, *page.ready], []

    def _start(self) -> None:
        for number, page in enumerate(self.pages):
            page.is_stopped = False
            with self.links[number].lock:
                self.links[number].resume()
            self._show(page)

    def _show(self, page: Page) -> None:
        if not (page.is_stopped or page.is_paused):
            page.ready, page.kept = [*page.kept, *page.ready], []

    def _pause(self, number: int) -> None:
        """The queue is paused, or goes on: of one link only, which is as much as the link sees of it."""
        page, link = self.pages[number], self.links[number]
        if not self.is_pre:
            link.keep_back()
            return
        if page.is_paused:
            link.let_out()
            page.is_paused = False
            page.credit = 0 if page.kept else page.credit
            self._show(page)
        else:
            link.keep_back()
            page.is_paused = True
            page.kept, page.ready = [*page.kept, *page.ready], []

    def _begin_close(self, number: int) -> None:
        """Another thread closes it, and waits for the receive that is under way, which may put back what it took."""
        self.links[number].is_closed = self.pages[number].is_closed = True

    def _end_close(self, number: int) -> None:
        """It has waited, maybe in vain."""
        page, link = self.pages[number], self.links[number]
        self._return_unread(number, stop=False)
        page.has_left = True
        for each in self.links:
            each.become_siblings([])
        if isinstance(link, PreAcknowledgedLink):
            gone = [*page.ready, *page.kept, *page.coming()]
            assert [each.offset for each in link.drop()] == gone
            self._from_pages(gone)

    def _die(self) -> None:
        """The worker ends, with its partition: what is said of its messages is refused, and others have them."""
        for number, (link, page) in enumerate(zip(self.links, self.pages, strict=True)):
            back = [] if self.is_pre else [*page.ready, *page.coming()]
            assert sorted(each.offset for each in link.remove(0, None)) == sorted(back)
            self._from_pages(back)
            self._to_channel(back)
            for batch in self._batches[number]:  # its announcements fail
                batch.clear()
                link.arrive(batch)
            self._batches[number], page.announced = [], []
        self.channel = Channel()
        self.lease.is_revoked, self.lease = True, self._new_lease()
        self.worker.is_running = self.worker.is_alive = False
        self.worker = Worker()
        for link, page in zip(self.links, self.pages, strict=True):
            link.group_worker = self.worker
            page.is_asking_alone = False
        self._enter_channel([row.offset for row in self._with_application() if row.lease == self.epoch])
        self.epoch += 1
        for said in self.said:
            self._enter_channel(said.offsets)
            said.offsets = []
        self.last = None

    # -- paper ---------------------------------------------------------------------------------------------------------

    def _has_sibling(self) -> bool:
        return not any(page.has_left for page in self.pages)

    def _delivery(self, offset: int) -> Delivery:
        made = Delivery(self.lease, Reference(offset, UNITS[offset]), FIRST_DELIVERY)
        self._deliveries[offset, self.epoch] = made
        return made

    def _leave_channel(self, offsets: Sequence[int]) -> None:
        self.in_channel = [offset for offset in self.in_channel if offset not in offsets]

    def _enter_channel(self, offsets: Sequence[int]) -> None:
        """Granted again they are others: what was asked for them before is of no meaning."""
        self.in_channel = sorted({*self.in_channel, *offsets})
        self._void += [done for offset, done in self.worker.attempts if offset in offsets]
        for page in self.pages:
            page.asked = None if page.asked in offsets else page.asked

    def _from_pages(self, offsets: Sequence[int]) -> None:
        for page in self.pages:
            page.ready = [offset for offset in page.ready if offset not in offsets]
            page.kept = [offset for offset in page.kept if offset not in offsets]
            page.announced = [[offset for offset in batch if offset not in offsets] for batch in page.announced]

    def _to_channel(self, offsets: Sequence[int]) -> None:
        """These go back, and with each what the session was granted behind it in its unit; buffers lose that."""
        first: dict[bytes, int] = {}
        for offset in offsets:
            unit = UNITS[offset]
            if unit is not None:
                first[unit] = min(first.get(unit, offset), offset)
        unread = [] if self.is_pre else [each for page in self.pages for each in (*page.ready, *page.coming())]
        later = [each for each in unread if (unit := UNITS[each]) is not None and each > first.get(unit, each)]
        for link in self.links:
            link.remove(0, frozenset([*offsets, *later]))
        self._from_pages(later)
        self._enter_channel([*offsets, *later])

    def _is_answered(self, page: Page) -> bool:
        takeable = [offset for offset in page.ready if UNITS[offset] not in self.busy]
        must_record = self.is_recorded and takeable and not (page.asked in page.ready and page.is_recorded)
        is_first_on_its_way = any(said.has_unread and said.worker is self.worker for said in self.said)
        return not (page.is_asking_alone or page.coming() or must_record or is_first_on_its_way)

    # -- checks --------------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """The links answer what paper says, and paper keeps the promises."""
        has = self.unacknowledged
        for place, rows in zip(
            (has.seen, has.lazy, has.in_transaction, has.undecided),
            (self.seen, self.lazy, self.in_transaction, self.undecided),
            strict=True,
        ):
            assert [*place] == [self._delivery_of(row) for row in rows], "nothing is lost"
        for number, (link, page) in enumerate(zip(self.links, self.pages, strict=True)):
            unread = [] if self.is_pre else [*page.ready, *page.coming()]
            going = [
                offset
                for said in self.said
                if said.link == number and said.has_unread and said.worker is self.worker
                for offset in said.offsets
            ]
            found = [] if any(said.worker is not self.worker for said in self.said) else link.unread(0)
            assert not found or sorted(found) == sorted([*unread, *going])
            assert (len(link.buffer), link.demand.credit) == (len(page.ready), page.credit)
            assert link.is_asking == page.is_asking()
            assert link.is_answered() == self._is_answered(page), "a look that waits for nothing"
            # In PRE one that may be put back yet is no more the session's when it asks.
            assert page.credit + len(page.ready) + len(page.coming()) <= PREFETCH + self.is_pre, "beyond the prefetch"
        busy = [page for page in self.pages if page.credit or page.ready or page.coming()]
        assert len(busy) < 2 or self.is_pre or not self._has_sibling(), "UNIT-3: both of two links have some"
