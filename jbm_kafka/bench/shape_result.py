"""The result of a shape of the benchmark, and the parts that every shape needs to come to it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jbm_kafka.bench.numbers import Judgement, Summary, summary

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ShapeResult:
    """The result of one shape."""

    name: str
    rows: Mapping[str, Summary]
    """Rows by the thing that was measured, with its unit."""
    judgements: Sequence[Judgement]
    raw: Sequence[Mapping[str, Any]]
    """Everything every client said, a row per client and repeat; repeats below zero warmed up and do not count."""
    cpu_us: Mapping[str, Summary] = field(default_factory=dict)
    """Processor time of the client's whole process per message, by the names of `rows`."""


def new_name(shape: str) -> str:
    """A topic that no other run uses."""
    return f"jbm-bench-{shape}-{secrets.token_hex(4)}"


def new_namespace(number: int) -> str:
    """One of its own, so that its channel group begins at the start of the topic."""
    return f"r{number}-{secrets.token_hex(4)}"


def by_client(raw: Sequence[Mapping[str, Any]], figure: Callable[[Mapping[str, Any]], float]) -> dict[str, Summary]:
    """A figure of each client, over its repeats."""
    names = dict.fromkeys(row["client"] for row in raw)
    return {name: summary([figure(row) for row in raw if row["client"] == name]) for name in names}


def processor_us(row: Mapping[str, Any]) -> float:
    """Processor time of a message, in microseconds."""
    return float(row["cpu_seconds"] / row["messages"] * 1e6)


def rate_of(row: Mapping[str, Any]) -> float:
    """Messages a second."""
    return float(row["messages"] / row["seconds"])
