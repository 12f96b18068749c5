"""The page of a day: it needs no other file, and everything that comes from data is escaped."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from bookstore.sales_figures import QueueFigures, Turnover, svg, turnover_plot
from jbm_spark.jobs.audit import FAULTS, AuditResult

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 0 0 2rem } svg { max-width: 100%; height: auto }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: left } td.number { text-align: right }
code { font-size: .85em; overflow-wrap: anywhere } .bad { color: #b00020 } .good { color: #1b6e3c }
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
    parts = [
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>The bookstore</title><style>{_STYLE}</style>',
        f"<h1>The bookstore</h1><p>{escape(at)}</p>",
        f"<h2>Turnover</h2><p>{by_title.total() / 100:,.2f} EUR</p>",
        svg(turnover_plot(day.turnover), "turnover"),
        _table(("title", "EUR"), ((title, f"{cents / 100:,.2f}") for title, cents in by_title.most_common())),
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


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"


def _cell(value: object) -> str:
    kind = ' class="number"' if isinstance(value, int) else ""
    return f"<td{kind}>{escape('' if value is None else str(value))}</td>"
