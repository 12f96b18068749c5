"""Decides what waits for a checkpoint, when the next one is due, and how much of it that takes.

It says when and what; `checkpointer.py` carries it out. Time is an argument.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from itertools import islice

from jbm_kafka.ports.steps import Wait
from jbm_kafka.ports.wake_up import WakeUp
from jbm_kafka.sidecar.checkpoints.checkpoint_parts import Participant, Transfer

GATHER_MS_MAX = 10
"""How long a checkpoint waits at most for the sessions that were in the last one."""
GROUPS_MAX = 16
"""Dirty groups of one checkpoint; as many more may come with its transfers (decision 45)."""


class Pace:
    """How soon after the last checkpoint the next one begins."""

    def __init__(self, interval_ms: int) -> None:
        self._interval_ms = interval_ms
        self._began_ms = 0
        """When the last one did."""
        self._expected = 1
        """How many transfers the last round committed: their sessions are likely to come again soon."""
        self._gather_until_ms = 0

    def begin(self, now_ms: int, transfers: int) -> None:
        """One begins, with so many transfers."""
        self._began_ms = now_ms
        self._expected = transfers or self._expected

    def end(self, now_ms: int) -> None:
        """It has been carried out."""
        self._gather_until_ms = now_ms + min(now_ms - self._began_ms, GATHER_MS_MAX)

    def is_enough(self, transfers: int) -> bool:
        """So many wait for no others."""
        return transfers >= self._expected

    def gather_ms(self, now_ms: int) -> int:
        """How long to wait for others where there are not enough; 0 or less: no longer."""
        return self._gather_until_ms - now_ms

    def wait_ms(self, now_ms: int) -> int:
        """How long what nobody waits for has to wait; 0 or less: no longer."""
        return self._began_ms + self._interval_ms - now_ms


class CheckpointSchedule:
    """The work that waits for the next checkpoint. Any thread notes and submits; only the checkpoint thread takes."""

    def __init__(self, interval_ms: int) -> None:
        self.wake = WakeUp()
        """Set after every change that may be work; the checkpoint thread clears it before it looks for some."""
        self._lock = threading.Lock()
        self._dirty: dict[Participant, None] = {}
        """In the order of the calls, so that one history always comes to the same end."""
        self._is_awaited = False
        """Somebody waits for what is dirty."""
        self._due: dict[Participant, None] = {}
        """The participants that were dirty when the interval was over; what one checkpoint leaves of them the next
        takes, at once."""
        self._groups_max = GROUPS_MAX
        """Fewer after a checkpoint that was cut off."""
        self._transfers: deque[Transfer] = deque()
        self._under_way: list[Transfer] = []
        """The transfers of the latest round."""
        self._pace = Pace(interval_ms)
        self._silent_since_ms: int | None = None
        """Kafka is back, and was silent since then; None: it was not, or that was taken."""
        self.is_ending = False
        """Submitted work is taken still, and no more is accepted."""

    # -- any thread ----------------------------------------------------------------------------------------------

    def note_dirty(self, group_worker: Participant, is_awaited: bool) -> None:
        """A group worker has something to record; `is_awaited`: somebody waits for it."""
        if group_worker in self._dirty and (self._is_awaited or not is_awaited):
            return
        with self._lock:
            self._dirty[group_worker] = None
            self._is_awaited = self._is_awaited or is_awaited
        self.wake.set()

    def submit(self, transfer: Transfer) -> bool:
        """Have it in the next checkpoint; False: no checkpoint comes any more."""
        with self._lock:
            if self.is_ending:
                return False
            # Not for each of many that gather: its thread would run between them, and hold them up. And before it is
            # added: one that is there relies on its own waking, which Ctrl-C could keep from being done.
            if not self._transfers or self._pace.is_enough(len(self._transfers) + 1):
                self.wake.set()
            self._transfers.append(transfer)
            return True

    def note_back(self, silent_since_ms: int) -> None:
        """Kafka answers again, and did not since then, monotonic ms."""
        self._silent_since_ms = silent_since_ms
        self.wake.set()

    def end(self) -> None:
        """Take no more transfers; what was submitted is due now."""
        with self._lock:
            self.is_ending = True
        self.wake.set()

    def unfinished(self) -> Sequence[Transfer]:
        """The transfers of the latest round, and those that wait behind it."""
        with self._lock:
            return [*self._under_way, *self._transfers]

    # -- the checkpoint thread -----------------------------------------------------------------------------------

    def wait_for_work(self, now_ms: int) -> Wait | None:
        """None when there is some: at once when somebody waits, else when the interval is over.

        Of many sessions that commit all the time the first to come back would have a round for itself, and all others
        wait for the next one. It waits for them: for as many as the last round had, and as long as that took at most.
        """
        with self._lock:
            gather_ms = self._pace.gather_ms(now_ms)
            is_alone = len(self._transfers) > 0 and not self._pace.is_enough(len(self._transfers))
            if is_alone and gather_ms > 0 and not self.is_ending:
                return Wait(gather_ms / 1000, self.wake)
            wait_ms = self._pace.wait_ms(now_ms)
            if self._transfers or self._due or (self._dirty and (self._is_awaited or wait_ms <= 0)):
                return None
            return Wait(wait_ms / 1000 if self._dirty else None, self.wake)

    def take_silence(self) -> int | None:
        """Since when Kafka was silent that is back; once."""
        silent_since_ms, self._silent_since_ms = self._silent_since_ms, None
        return silent_since_ms

    def take_work(self, now_ms: int) -> tuple[list[Participant], list[Transfer]]:
        """The dirty participants and the transfers for the checkpoint that begins now, as many as one takes."""
        with self._lock:
            if not self._due:
                self._due, self._dirty = self._dirty, {}
                self._is_awaited = False
            group_workers = list(islice(self._due, self._groups_max))
            for group_worker in group_workers:
                del self._due[group_worker]
            transfers = _fitting(self._transfers, self._groups_max)
            for _ in transfers:
                self._transfers.popleft()
            self._under_way = transfers
            self._pace.begin(now_ms, len(transfers))
            return group_workers, transfers

    def end_round(self, now_ms: int) -> None:
        """Note that what was taken has been carried out."""
        self._pace.end(now_ms)

    @property
    def is_cut_down(self) -> bool:
        """A checkpoint takes one group: less does not go."""
        return self._groups_max == 1

    def grow(self) -> None:
        """A checkpoint was committed in time: the next may be a little larger."""
        self._groups_max = min(self._groups_max + 1, GROUPS_MAX)

    def cut_down(
        self, dirty: Sequence[Participant], transfers: Sequence[Transfer]
    ) -> tuple[list[Participant], list[Transfer]]:
        """Half as much from now on, and what is too much in this round goes with the next; returns what stays in it.

        Kafka ends a transaction that takes too long. As large as before it would be ended each time again, and nothing
        be recorded any more.
        """
        self._groups_max = max(self._groups_max // 2, 1)
        kept = _fitting([t for t in transfers if not t.done.is_done], self._groups_max)
        later = [t for t in transfers if t not in kept and not t.done.is_done]
        with self._lock:
            self._due = dict.fromkeys([*dirty[self._groups_max :], *self._due])
            self._transfers.extendleft(reversed(later))
            self._under_way = kept
        return list(dirty[: self._groups_max]), kept

    def put_back(self, dirty: Collection[Participant], transfers: Sequence[Transfer]) -> None:
        """Put back what could not take part; the transfers come before all others."""
        with self._lock:
            self._transfers.extendleft(reversed(transfers))
            self._dirty.update(dict.fromkeys(dirty))


def _fitting(transfers: Iterable[Transfer], groups_max: int) -> list[Transfer]:
    """The first of them that settle messages of no more groups in all; at least one, if there is one."""
    taken, participants = list[Transfer](), set[Participant]()
    for transfer in transfers:
        participants.update(transfer.participants)
        if taken and len(participants) > groups_max:
            break
        taken.append(transfer)
    return taken
