"""docs/api.md shows how the calls that are used most are called: what is by position, and what is the default."""

import inspect
import re
from enum import Enum

from jbm_kafka import Connection, ConnectionFactory, Message, MessageConsumer, MessageProducer, Session
from jbm_kafka.admin import Admin
from jbm_kafka.core.markers import Unset
from tests.house.sources import ROOT

SHOWN: dict[type, tuple[str, ...]] = {
    ConnectionFactory: ("create_connection", "create_context"),
    Connection: ("create_session",),
    Session: (
        "create_producer",
        "create_consumer",
        "create_durable_consumer",
        "create_shared_consumer",
        "create_shared_durable_consumer",
        "create_browser",
        "request",
        "set_dups_ok",
    ),
    MessageProducer: ("send", "flush"),
    MessageConsumer: ("receive", "receive_nowait", "receive_body", "set_listener"),
    Message: ("acknowledge", "nack"),
    Admin: (
        "create_queue",
        "counts",
        "browse",
        "move",
        "retry_dead_letters",
        "release",
        "expire",
        "pause",
        "resume",
        "admit_partitions",
        "delete_destination",
    ),
}
HEADING = "## Signatures"


def default_of(value: object) -> str:
    if isinstance(value, Unset):
        return "…"
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def parameters_of(signature: inspect.Signature) -> list[str]:
    """Those a caller may give; `*more` and `**unknown` are there for the errors."""
    shown: list[str] = []
    is_by_name = False
    for name, parameter in signature.parameters.items():
        if name == "self" or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not is_by_name:
            is_by_name = True
            shown.append("*")
        shown.append(name if parameter.default is parameter.empty else f"{name}={default_of(parameter.default)}")
    return shown


def returned(signature: inspect.Signature) -> str | None:
    """None: a compiled method does not tell."""
    annotation = signature.return_annotation
    if annotation is signature.empty:
        return None
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b[a-z_]+\.", "", text)


def shown_on(page: str) -> list[str]:
    """The lines of the page, each with what it is continued by."""
    shown = re.search(rf"^{HEADING}\n.*?```text\n(.*?)\n```", page, flags=re.S | re.M)
    assert shown is not None
    return shown[1].replace("\n    ", " ").splitlines()


def test_the_signatures_on_the_page_are_those_of_the_code() -> None:
    shown = shown_on((ROOT / "docs" / "api.md").read_text())
    calls = [(kind, name) for kind, names in SHOWN.items() for name in names]
    for line, (kind, name) in zip(shown, calls, strict=True):
        signature = inspect.signature(getattr(kind, name))
        call, _, result = line.partition(" -> ")
        assert call == f"{kind.__name__}.{name}({', '.join(parameters_of(signature))})"
        assert result == (returned(signature) or result)
