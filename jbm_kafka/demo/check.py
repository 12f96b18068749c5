"""Judges a run by what its topics say: every order processed, in order, and one dead letter.

A function from values to figures. It knows the shop's day and nothing of how the queue works.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jbm_kafka.demo.bookstore import MAX_ATTEMPTS, REDELIVERY_DELAY_MS, SECOND_DELAY_MS, Line, is_poison, refusals
from jbm_kafka.demo.evidence import Entry, Evidence, Note, Sent, Task

DEAD_LETTER_REASON = "max-delivery-attempts"
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Figure:
    """One number the topics give, beside the one it must be."""

    name: str
    found: int
    wanted: int
    examples: tuple[str, ...] = ()
    """The first few faults."""

    @property
    def is_right(self) -> bool:
        """Return True if the demo shows what it should, in this point."""
        return self.found == self.wanted and not self.examples


def check(day: Sequence[Line], evidence: Evidence) -> list[Figure]:
    """All figures of a run of this day."""
    tasks = [(line["kind"], line["order"]) for line in day]
    poison = {(line["kind"], line["order"]) for line in day if is_poison(line)}
    due = [task for task in tasks if task not in poison]
    place_of = {sent.task: (sent.partition, sent.offset) for sent in evidence.sent}
    done_entries = [entry for entry in evidence.journal if entry.is_done]
    done = Counter(entry.task for entry in done_entries)
    return [
        _once("sent, each once", tasks, Counter(s.task for s in evidence.sent if s.unit == s.line["customer"])),
        _figure("processed", sum(1 for task in due if done[task]), len(due), (t for t in due if not done[t])),
        _figure("processed more than once", *_none(task for task, count in done.items() if count > 1)),
        _figure(
            "processed though never to be",
            *_none(e.task for e in done_entries if e.task in poison or place_of.get(e.task) != (e.partition, e.offset)),
        ),
        _figure("out of order within a customer", *_none(_overtakings(evidence, evidence.journal))),
        _figure("cancelled before ordered", *_none(_early_cancellations(evidence))),
        _figure("refused by the bank twice, then paid", *_paid_at_last(day, evidence)),
        _figure("tried again too early", *_none(_too_early(evidence))),
        _figure("dead letters", len(evidence.letters), len(poison), _wrong_letters(evidence, poison)),
        Figure("left in the queue", evidence.lag, 0),
        _once("read by the audit, each once", due, Counter(note.task for note in evidence.audit)),
        _figure("audited out of order within a customer", *_none(_overtakings(evidence, evidence.audit))),
        Figure("turnover in cents, by the audit", sum(note.cents for note in evidence.audit), _turnover(day)),
    ]


def _figure(name: str, found: int, wanted: int, wrong: Iterable[object] = ()) -> Figure:
    texts = [" ".join(each) if isinstance(each, tuple) else str(each) for each in wrong]
    return Figure(name, found, wanted, tuple(texts[:EXAMPLES]))


def _none(wrong: Iterable[object]) -> tuple[int, int, Sequence[object]]:
    """Found, wanted and examples of a figure that must be 0."""
    found = list(wrong)
    return len(found), 0, found


def _once(name: str, tasks: Sequence[Task], counts: Counter[Task]) -> Figure:
    wanted = Counter(tasks)
    wrong = [task for task in {**wanted, **counts} if counts[task] != wanted[task]]
    return _figure(name, counts.total(), len(tasks), wrong)


def _turnover(day: Iterable[Line]) -> int:
    """Return what all orders of the day cost, as far as they can be fulfilled; what is cancelled was paid all the
    same."""
    items = [item for line in day if not is_poison(line) for item in line.get("items", ())]
    return sum(item["quantity"] * item["cents"] for item in items)


def _overtakings(evidence: Evidence, written: Iterable[Entry | Note]) -> Iterable[str]:
    """Journal entries, failures too, or notes that stand behind one for a later message of their customer."""
    place = {sent.task: index for index, sent in enumerate(evidence.sent)}
    furthest: dict[str, tuple[int, Entry | Note]] = {}
    for entry in written:
        index = place.get(entry.task, -1)
        last = furthest.get(entry.customer)
        if last is not None and index < last[0]:
            yield f"{entry.customer}: {' '.join(entry.task)} after {' '.join(last[1].task)}"
        else:
            furthest[entry.customer] = index, entry


def _early_cancellations(evidence: Evidence) -> Iterable[Task]:
    ordered: set[str] = set()
    for entry in evidence.journal:
        kind, number = entry.task
        if entry.is_done and kind == "order":
            ordered.add(number)
        elif entry.is_done and number not in ordered:
            yield entry.task


def _paid_at_last(day: Sequence[Line], evidence: Evidence) -> tuple[int, int, Sequence[Task]]:
    """Found, wanted and the exceptions of orders that fail twice and then succeed."""
    wanted = [("order", line["order"]) for line in day if refusals(line)]
    attempts: dict[Task, list[tuple[bool, int]]] = defaultdict(list)
    for entry in evidence.journal:
        attempts[entry.task].append((entry.is_done, entry.attempt))
    # A worker killed between its note and its rollback leaves a failure that nobody counted: then there are more.
    wrong = [
        task
        for task in wanted
        if sum(1 for is_done, _ in attempts[task] if not is_done) < MAX_ATTEMPTS - 1
        or (True, MAX_ATTEMPTS) not in attempts[task]
    ]
    return len(wanted) - len(wrong), len(wanted), wrong


def _too_early(evidence: Evidence) -> Iterable[str]:
    """Attempts that came before the redelivery delay after the one that failed."""
    failed: dict[Task, Entry] = {}
    for entry in evidence.journal:
        before = failed.pop(entry.task, None)
        if before is not None:
            # By the attempt that followed, because a failure that a killed worker only noted was not counted.
            delay_ms = SECOND_DELAY_MS if entry.attempt >= MAX_ATTEMPTS else REDELIVERY_DELAY_MS
            waited_ms = entry.at_ms - before.at_ms
            if waited_ms < delay_ms:
                yield f"{' '.join(entry.task)}: attempt {entry.attempt} after {waited_ms} ms, not {delay_ms}"
        if not entry.is_done:
            failed[entry.task] = entry


def _wrong_letters(evidence: Evidence, poison: set[Task]) -> Iterable[str]:
    """Dead letters of the wrong order, unit, reason or count."""
    unit_of: dict[Task, Sent] = {sent.task: sent for sent in evidence.sent}
    for letter in evidence.letters:
        sent = unit_of.get(letter.task)
        if letter.task not in poison:
            yield f"{' '.join(letter.task)} is no poison"
        elif sent is None or letter.unit != sent.unit:
            yield f"{' '.join(letter.task)} lost its unit: {letter.unit}"
        elif (letter.reason, letter.attempts) != (DEAD_LETTER_REASON, MAX_ATTEMPTS):
            yield f"{' '.join(letter.task)} died of {letter.reason} after {letter.attempts} attempts"
