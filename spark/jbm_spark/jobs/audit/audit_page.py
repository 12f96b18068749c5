"""An audit as a page of its own: no other file, no script."""

from collections.abc import Iterable
from html import escape

from jbm_spark.jobs.audit.audit_result import AuditedQueues, AuditResult

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; width: 100%; margin: 0 0 2rem }
th, td { border-bottom: 1px solid #ddd; padding: .35rem .6rem; text-align: left; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums }
code { font-size: .85em; overflow-wrap: anywhere }
.bad { color: #b00020; font-weight: 600 } .good { color: #1b6e3c; font-weight: 600 }
"""


def page(result: AuditResult | AuditedQueues, *, at: str) -> str:
    """The page; `at`: when the audit was made. Of many queues each has its part, those in which something was found
    first."""
    if isinstance(result, AuditResult):
        return _whole(f"Audit of {result.destination}", [_of_queue(result, at=at)])
    parts = sorted(result.queues.values(), key=lambda each: not each.has_violations)
    sections = [f"<h1>{escape(each.destination)}</h1>{_of_queue(each, at=at)}" for each in parts]
    if result.failures:
        failed = _rows((_cell(name), _cell(why)) for name, why in sorted(result.failures.items()))
        sections.insert(0, _table("Failed", ("queue", "why"), failed))
    return _whole(f"Audit of {len(parts)} queues as {result.pattern}", sections)


def _whole(title: str, parts: Iterable[str]) -> str:
    head = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
        f"<h1>{escape(title)}</h1>"
    )
    return "\n".join([head, *parts]) + "\n</html>\n"


def _of_queue(result: AuditResult, *, at: str) -> str:
    count = sum(result.faults.values())
    verdict = f'<p class="bad">{count} found</p>' if count else '<p class="good">Nothing found</p>'
    faults = _rows((_cell(fault), _number(number)) for fault, number in result.faults.items())
    unproven = _rows((_cell(what), _number(number)) for what, number in result.unproven.items())
    findings = _rows(
        (
            _cell(each.fault),
            _cell(f"{each.partition}:{each.offset}"),
            _cell(each.message_id),
            _cell(each.unit_of_order),
            _cell(each.what),
            f"<td><code>{escape(each.command)}</code></td>",
        )
        for each in result.findings
    )
    parts = [
        verdict,
        f"<p>{escape(at)}: {result.messages} messages, {result.fates} fates.</p>",
        _table("Faults", ("fault", "messages"), faults),
        _table("Unproven", ("what could not be told", "messages"), unproven),
    ]
    if result.findings:
        heads = ("fault", "place", "message id", "unit", "evidence", "command")
        parts.append(_table("Findings", heads, findings))
    return "\n".join(parts)


def _table(title: str, heads: tuple[str, ...], rows: str) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    return f"<h2>{escape(title)}</h2><table><tr>{head}</tr>{rows}</table>"


def _rows(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)


def _cell(text: str | None) -> str:
    return f"<td>{escape(text or '')}</td>"


def _number(number: int) -> str:
    return f'<td class="number">{number}</td>'
