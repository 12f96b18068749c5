"""The page of a day: it needs no other file, and everything that comes from data is escaped."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from bookstore.sales_figures import QueueFigures, Turnover, svg, turnover_plot
from jbm_spark.jobs.audit import FAULTS, AuditResult

_STYLE = """
:root { color-scheme: light dark;
        --page: #fff; --ink: #222; --soft: #667; --line: #ddd; --good: #1b6e3c; --bad: #b00020 }
@media (prefers-color-scheme: dark) {
  :root { --page: #16181d; --ink: #e4e6eb; --soft: #9aa1ad; --line: #353a44; --good: #6fcf97; --bad: #ff8a8a }
}
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
       color: var(--ink); background: var(--page) }
h2 { margin: 2.5rem 0 .5rem } h3 { margin: 1.5rem 0 .25rem; font-weight: 500 }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.5rem 0 }
.figures div { border: 1px solid var(--line); border-radius: .5rem; padding: .5rem .8rem; flex: 1 1 7rem }
.figures strong { display: block; font-size: 1.3rem; font-weight: 600; white-space: nowrap }
.figures span { color: var(--soft) }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: 0 0 1.5rem; font-variant-numeric: tabular-nums }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top }
th { color: var(--soft); font-weight: 500 } .number { text-align: right }
svg { max-width: 100%; height: auto } svg text { fill: currentColor }
code { font-size: .85em; overflow-wrap: anywhere } .bad { color: var(--bad) } .good { color: var(--good) }
"""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Day:
    """The results of a day."""

    turnover: Sequence[Turnover]
    queues: Sequence[QueueFigures]
    audits: Sequence[AuditResult]
    """At the end of the day."""
    audit_with_faults: AuditResult
    """The audit of the big orders, after records were written twice."""


def page(day: Day, *, at: str) -> str:
    """The whole of it; `at`: when it was made."""
    by_title: Counter[str] = Counter()
    for each in day.turnover:
        by_title[each.title] += each.cents
    faults = sum(sum(each.faults.values()) for each in day.audits)
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>The bookstore</title><style>{_STYLE}</style>',
        f"<h1>The bookstore</h1><p>{escape(at)}</p>",
        '<div class="figures">',
        *(_figure(f"{each.acknowledged:,}", f"{each.queue.rpartition('.')[2]} done") for each in day.queues),
        _figure(f"{by_title.total() / 100:,.2f} EUR", "turnover"),
        *(_figure(f"{each.percentiles_ms[2]:,.0f} ms", f"99 of 100 {each.queue.rpartition('.')[2]} within")
          for each in day.queues if each.percentiles_ms),
        _figure("nothing" if not faults else str(faults), "found by the audit"),
        "</div>",
        "<h2>Turnover</h2>",
        svg(turnover_plot(day.turnover), "turnover"),
        _table(("title", "EUR"), ((title, _Cents(cents)) for title, cents in by_title.most_common())),
        "<h2>From send to acknowledgement</h2>",
        _table(
            ("queue", "acknowledged", "half within, ms", "90 of 100", "99 of 100", "all"),
            ((each.queue, each.acknowledged, *map(round, each.percentiles_ms)) for each in day.queues),
        ),
        *(f"<h3>{escape(each.queue)}</h3>" + svg(each.over_time, f"latency-{number}")
          for number, each in enumerate(day.queues)),
        "<h2>The busiest units</h2>",
        _table(
            ("queue", "unit", "messages", "came back", "given up", "slowest, ms"),
            ((each.queue, unit.name, unit.messages, unit.returned, unit.given_up, unit.slowest_ms)
             for each in day.queues for unit in each.units),
        ),
        *_audits("The audit", "audit", day.audits),
        *_audits("The audit, after two records were written twice", "audit-with-faults", [day.audit_with_faults]),
    ]  # fmt: skip
    return "\n".join(parts) + "\n</html>\n"


def _audits(title: str, name: str, audits: Sequence[AuditResult]) -> Iterable[str]:
    count = sum(sum(each.faults.values()) for each in audits)
    verdict = f'<p class="bad">{count} found</p>' if count else '<p class="good">Nothing found</p>'
    yield f'<section id="{name}"><h2>{escape(title)}</h2>{verdict}'
    heads = ("fault", *(each.destination for each in audits))
    yield _table(heads, ((fault, *(each.faults[fault] for each in audits)) for fault in FAULTS))
    for each in audits:
        found = each.findings[:_SHOWN]
        if found:
            rows = ((one.fault, one.message_id, one.unit_of_order, one.what, one.command) for one in found)
            yield _table(("fault", "message", "unit", "evidence", "command"), rows)
    yield "</section>"


class _Cents(int):
    def __str__(self) -> str:
        return f"{int(self) / 100:,.2f}"


def _figure(value: str, about: str) -> str:
    return f"<div><strong>{escape(value)}</strong><span>{escape(about)}</span></div>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    cells = [[*row] for row in rows]
    head = "".join(f"<th{_kind(cells[0][at] if cells else None)}>{escape(each)}</th>" for at, each in enumerate(heads))
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in cells)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _cell(value: object) -> str:
    return f"<td{_kind(value)}>{escape('' if value is None else str(value))}</td>"


def _kind(value: object) -> str:
    return ' class="number"' if isinstance(value, int) else ""
