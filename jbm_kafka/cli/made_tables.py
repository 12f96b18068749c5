"""Makes the tables of pages that say what the code has: settings, metrics, rights, states, findings.

On the disk a page has in their place a line that names the table; `jbm-kafka docs` and the site put the table
there. What a table says of a thing is the docstring of that thing, and stands nowhere else.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from inspect import cleandoc
from pathlib import Path
from types import MappingProxyType
from typing import get_args

import jbm_kafka
from jbm_kafka.admin.doctor.finding import Ailment
from jbm_kafka.cli.api_pages import members
from jbm_kafka.codec.schemas import schemas_folder
from jbm_kafka.configuration.models import ClusterTable, ConsoleTable, FileTables, Table
from jbm_kafka.core.channel.blocking_rule import Rule
from jbm_kafka.core.channel.states import TRANSITIONS, MessageState, Move, Outcome
from jbm_kafka.core.settings.address_settings import AddressSettings
from jbm_kafka.jms.factory import ConnectionFactory
from jbm_kafka.ports.access_rules import Operation
from jbm_kafka.registry.access_rights import RIGHTS, Resource, Role

_PLACE = re.compile(r"^\*Table of ([^:\n]+): `jbm-kafka docs\s[\w-]+` prints it here\.\*$", re.MULTILINE)
_BESIDES = (Role.REQUESTS, Role.SCHEDULES, Role.XA, Role.BRIDGE, Role.MOVING, Role.TRUNCATION)


def with_tables(page: str) -> str:
    """Return the page with its tables; KeyError where it asks for one that there is not."""
    return _PLACE.sub(_made, page)


def _made(place: re.Match[str]) -> str:
    try:
        return TABLES[place[1]]()
    except ImportError as missing:  # an extra is not installed: the text says which
        return f"*{missing}*"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(' '.join(cell.split()) for cell in line)} |" for line in lines)


def _told(text: str) -> str:
    """Make links of the pages that a docstring names, and keep `<name>` from being taken for HTML."""
    text = re.sub(r"(`[^`]*`)|<", lambda part: part[1] or "&lt;", text)
    return re.sub(r"\bdocs/([\w-]+)[.]md(#[\w-]+)?", _link, text).replace("|", "\\|")


def _link(place: re.Match[str]) -> str:
    words = (place[2] or place[1]).removeprefix("#").replace("-", " ")
    return f"[{words}]({place[1]}.md{place[2] or ''})"


def _enum(kind: type[Enum], head: str, shown: Callable[[Enum], str] = lambda member: member.name) -> Callable[[], str]:
    def made() -> str:
        return _table((head, "means"), [(f"`{shown(kind[each.name])}`", _told(each.doc)) for each in members(kind)])

    return made


def _arguments() -> str:
    told = cleandoc(ConnectionFactory.__doc__ or "").partition("Args:\n")[2].partition("\n\nRaises:")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", told, re.MULTILINE)
    return _table(("setting", "what it does; its default"), [(f"`{name}`", _told(text)) for name, text in found])


def _address_settings() -> str:
    rows = []
    for each in members(AddressSettings):
        if "(" not in each.shown:  # calls are on the page of names
            text, _, default = " ".join(_told(each.doc).split()).partition(" Default: ")
            rows.append((f"`{each.name}`", default.removesuffix("."), text))
    return _table(("setting", "default", "what it does"), rows)


def _of_file(table: type[Table]) -> Callable[[], str]:
    return lambda: _table(("setting", "is"), _keys(table))


def _keys(table: type[Table]) -> Iterator[tuple[str, str]]:
    for name, field in table.model_fields.items():
        yield f"`{name}`", _told(field.description or "").removesuffix(".")


def _file() -> str:
    rows = []
    for name, field in FileTables.model_fields.items():
        kind: object = (get_args(field.annotation) or (field.annotation,))[-1]
        if isinstance(kind, type) and issubclass(kind, Table) and name not in ClusterTable.model_fields:
            keys = (
                "as above" if kind is ClusterTable else "; ".join(": ".join(filter(None, key)) for key in _keys(kind))
            )
            rows.append(
                (f"`[{name}]`" if field.annotation is kind else f"`[{name}.NAME]`", _told(kind.__doc__ or ""), keys)
            )
    return _table(("table", "is", "keys"), rows)


def _rights(roles: Sequence[Role]) -> Callable[[], str]:
    def made() -> str:
        rows = []
        for resource in Resource:
            allowed = [RIGHTS[role].get(resource, frozenset()) for role in roles]
            if any(allowed):
                cells = [", ".join(each.value for each in Operation if each in operations) for operations in allowed]
                rows.append((resource.value, *cells))
        return _table(("on", *(role.value for role in roles)), rows)

    return made


def _moves() -> str:
    moves = [(state.name, move.name, target.name) for (state, move), target in TRANSITIONS.items()]
    return _table(("from", "move", "to"), moves)


def _picture() -> str:
    """Draw the moves for Mermaid, one arrow between two states; moves that change none are left out."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for (state, move), target in TRANSITIONS.items():
        if state is not target:
            end = target.name if isinstance(target, MessageState) else "[*]"
            arrows.setdefault((state.name, end), []).append(move.name)
    lines = [f"    {start} --> {end}: {'<br>'.join(moves)}" for (start, end), moves in arrows.items()]
    return "\n".join(["```mermaid", "stateDiagram-v2", "    [*] --> NOT_COMMITTED", "    [*] --> NEW", *lines, "```"])


def _files(folder: str) -> Callable[[], str]:
    """Tell of each file by the first sentences of its docstring."""

    def made() -> str:
        root = Path(jbm_kafka.__file__).parent
        rows = []
        for path in sorted(root.joinpath(folder).rglob("*.py")):
            told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            if path.name != "__init__.py":
                rows.append((f"`{path.relative_to(root).as_posix()}`", _told(told.partition("\n\n")[0])))
        return _table(("file", "is"), rows)

    return made


def _records() -> str:
    rows = []
    for path in sorted(schemas_folder().iterdir(), key=lambda each: each.name):
        if path.name.endswith(".avsc"):
            schema = json.loads(path.read_text(encoding="utf-8"))
            fields = "; ".join(f"`{each['name']}`: {each['doc'].removesuffix('.')}" for each in schema["fields"])
            rows.append((f"`{schema['name']}`", _told(schema["doc"]), _told(fields)))
    return _table(("record", "is", "fields"), rows)


def _metrics() -> str:
    from jbm_kafka.metrics.collector import METRICS  # not everybody has prometheus-client

    return _table(
        ("metric", "type", "labels", "is"),
        [(f"`{each.exposed}`", each.kind, _labels(each.labels), each.text) for each in METRICS],
    )


def _backlog_metrics() -> str:
    from jbm_kafka.metrics.backlog_collector import SPECS

    return _table(("gauge", "labels", "is"), [(f"`{each.name}`", _labels(each.labels), each.text) for each in SPECS])


def _labels(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


TABLES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "arguments": _arguments,
        "address settings": _address_settings,
        "a cluster's settings": _of_file(ClusterTable),
        "the file": _file,
        "the console's settings": _of_file(ConsoleTable),
        "metrics": _metrics,
        "metrics of all queues": _backlog_metrics,
        "findings": _enum(Ailment, "kind", lambda kind: str(kind.value)),
        "rules": _enum(Rule, "rule"),
        "rights": _rights([role for role in Role if role not in _BESIDES]),
        "rights besides": _rights(_BESIDES),
        "roles": _enum(Role, "role", lambda role: str(role.value)),
        "arrows between states": _picture,
        "transitions": _moves,
        "states": _enum(MessageState, "state"),
        "moves": _enum(Move, "move"),
        "outcomes": _enum(Outcome, "outcome"),
        "records": _records,
        "files of core": _files("core"),
        "files of sidecar": _files("sidecar"),
    }
)
"""By name; each is made when it is asked for."""
