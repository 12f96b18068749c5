"""Goal: the checker finds every kind of fault. Method: a run as it should be, written by hand, with one fault planted.

The checker and its evidence are the demo's proof, so a fault it does not see would be a claim.
"""

import dataclasses
from collections.abc import Callable

import pytest

from jbm_kafka.demo.bookstore import Line
from jbm_kafka.demo.check import Figure, check
from jbm_kafka.demo.evidence import Entry, Evidence, Letter, Note, Sent

DAY: list[Line] = [
    {"kind": "order", "order": "B-1", "customer": "C-1", "items": [{"quantity": 1, "cents": 900}]},
    {"kind": "cancellation", "order": "B-1", "customer": "C-1"},
    {"kind": "order", "order": "B-2", "customer": "C-1", "items": [{"quantity": 1, "cents": 900}], "bank_refuses": 2},
    {"kind": "order", "order": "B-3", "customer": "C-2", "items": [{"quantity": "two dozen", "cents": 900}]},
    {"kind": "order", "order": "B-4", "customer": "C-2", "items": [{"quantity": 1, "cents": 900}]},
]

Fault = Callable[[Evidence], Evidence]


def _entry(index: int, *, is_done: bool = True, attempt: int = 1, at_ms: int) -> Entry:
    line = DAY[index]
    task = (line["kind"], line["order"])
    return Entry(is_done, task, line["customer"], "worker-1", attempt, at_ms, partition=0, offset=index)


def _note(index: int) -> Note:
    line = DAY[index]
    return Note((line["kind"], line["order"]), line["customer"], 900 if line["kind"] == "order" else 0)


def _right() -> Evidence:
    return Evidence(
        sent=[Sent(line["customer"], line, partition=0, offset=index) for index, line in enumerate(DAY)],
        journal=[
            _entry(0, at_ms=1_000),
            _entry(1, at_ms=1_100),
            _entry(2, is_done=False, attempt=1, at_ms=1_200),
            _entry(2, is_done=False, attempt=2, at_ms=1_700),
            _entry(2, attempt=3, at_ms=2_600),
            _entry(3, is_done=False, attempt=1, at_ms=3_000),
            _entry(3, is_done=False, attempt=2, at_ms=3_500),
            _entry(3, is_done=False, attempt=3, at_ms=4_500),
            _entry(4, at_ms=4_600),
        ],
        audit=[_note(0), _note(1), _note(2), _note(4)],
        letters=[Letter(("order", "B-3"), "C-2", "max-delivery-attempts", 3)],
        lag=0,
    )


def _wrong(evidence: Evidence) -> set[str]:
    return {figure.name for figure in check(DAY, evidence) if not figure.is_right}


def _journal(change: Callable[[list[Entry]], object]) -> Fault:
    def fault(evidence: Evidence) -> Evidence:
        journal = list(evidence.journal)
        change(journal)
        return dataclasses.replace(evidence, journal=journal)

    return fault


def _sent(change: Callable[[list[Sent]], object]) -> Fault:
    def fault(evidence: Evidence) -> Evidence:
        sent = list(evidence.sent)
        change(sent)
        return dataclasses.replace(evidence, sent=sent)

    return fault


def _audit(*indices: int) -> Fault:
    return lambda evidence: dataclasses.replace(evidence, audit=[_note(index) for index in indices])


def _letters(*letters: Letter) -> Fault:
    return lambda evidence: dataclasses.replace(evidence, letters=letters)


def _move(journal: list[Entry], index: int, to: int) -> None:
    journal.insert(to, journal.pop(index))


LETTER = Letter(("order", "B-3"), "C-2", "max-delivery-attempts", 3)


def test_a_run_as_it_should_be_is_right_in_every_figure() -> None:
    found = check(DAY, _right())
    assert all(figure.is_right for figure in found), found
    assert {figure.name: figure.found for figure in found}["processed"] == 4


@pytest.mark.parametrize(
    ("fault", "figure"),
    [
        (_sent(lambda sent: sent.pop()), "sent, each once"),
        (_sent(lambda sent: sent.append(sent[0])), "sent, each once"),
        (_sent(lambda sent: sent.__setitem__(0, dataclasses.replace(sent[0], unit=None))), "sent, each once"),
        (_journal(lambda journal: journal.pop()), "processed"),
        (_journal(lambda journal: journal.append(journal[-1])), "processed more than once"),
        (
            _journal(lambda journal: journal.insert(8, _entry(3, attempt=3, at_ms=9_000))),
            "processed though never to be",
        ),
        (
            _journal(lambda journal: journal.__setitem__(0, dataclasses.replace(journal[0], offset=77))),
            "processed though never to be",
        ),
        (_journal(lambda journal: _move(journal, 8, 5)), "out of order within a customer"),
        (_journal(lambda journal: _move(journal, 2, 0)), "out of order within a customer"),
        (_journal(lambda journal: _move(journal, 1, 0)), "cancelled before ordered"),
        (_journal(lambda journal: journal.pop(3)), "refused by the bank twice, then paid"),
        (
            _journal(lambda journal: journal.__setitem__(4, dataclasses.replace(journal[4], attempt=1))),
            "refused by the bank twice, then paid",
        ),
        (
            _journal(lambda journal: journal.__setitem__(3, dataclasses.replace(journal[3], at_ms=1_599))),
            "tried again too early",
        ),
        (
            _journal(lambda journal: journal.__setitem__(7, dataclasses.replace(journal[7], at_ms=4_299))),
            "tried again too early",
        ),
        (_letters(), "dead letters"),
        (_letters(LETTER, LETTER), "dead letters"),
        (_letters(dataclasses.replace(LETTER, task=("order", "B-4"))), "dead letters"),
        (_letters(dataclasses.replace(LETTER, unit="C-1")), "dead letters"),
        (_letters(dataclasses.replace(LETTER, attempts=2)), "dead letters"),
        (_letters(dataclasses.replace(LETTER, reason="operator")), "dead letters"),
        (lambda evidence: dataclasses.replace(evidence, lag=1), "left in the queue"),
        (_audit(0, 1, 2), "read by the audit, each once"),
        (_audit(0, 1, 2, 4, 4), "read by the audit, each once"),
        (_audit(0, 1, 2, 3, 4), "read by the audit, each once"),
        (_audit(1, 0, 2, 4), "audited out of order within a customer"),
        (_audit(0, 1, 2), "turnover in cents, by the audit"),
    ],
)
def test_a_planted_fault_is_found(fault: Fault, figure: str) -> None:
    assert figure in _wrong(fault(_right()))


def test_a_failure_that_a_killed_worker_only_noted_is_no_fault() -> None:
    """Such an attempt is not counted, so one more failure stands in the journal, and the wait begins anew."""
    journal = list(_right().journal)
    journal[2:5] = [
        _entry(2, is_done=False, attempt=1, at_ms=1_200),
        _entry(2, is_done=False, attempt=2, at_ms=3_300),
        _entry(2, is_done=False, attempt=2, at_ms=3_800),
        _entry(2, attempt=3, at_ms=4_700),
    ]
    assert _wrong(dataclasses.replace(_right(), journal=journal)) == set()


def test_a_wrong_figure_says_what_is_wrong() -> None:
    lost = dataclasses.replace(_right(), journal=_right().journal[:-1])
    found = next(figure for figure in check(DAY, lost) if figure.name == "processed")
    assert found == Figure("processed", 3, 4, ("order B-4",))
