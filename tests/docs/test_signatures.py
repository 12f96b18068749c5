"""The pages of names show how calls are called: what is by position, and what is the default."""

import inspect
import re
from collections.abc import Callable
from enum import Enum

import pytest

from jbm_kafka import (
    AddressSettings,
    Connection,
    ConnectionFactory,
    ContextProducer,
    Message,
    MessageConsumer,
    MessageProducer,
    Session,
)
from jbm_kafka.admin import Admin
from jbm_kafka.core.markers import Unset
from tests.house.sources import ROOT

MAKING = ""
"""Stands for the class itself, which is called to make one."""

USED_MOST: dict[type, tuple[str, ...]] = {
    ConnectionFactory: (MAKING, "create_connection", "create_context"),
    AddressSettings: (MAKING,),
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
    ContextProducer: ("send",),
    MessageConsumer: ("receive", "receive_nowait", "receive_body", "set_listener"),
    Message: ("acknowledge", "nack", "get_body", "is_body_assignable_to"),
}
ADMINISTRATION: dict[type, tuple[str, ...]] = {
    Admin: (
        MAKING,
        "close",
        "create_queue",
        "create_topic",
        "exists",
        "destinations",
        "partitions",
        "delete_destination",
        "subscriptions",
        "unsubscribe",
        "counts",
        "browse",
        "explain",
        "queues_with_dead_letters",
        "set_address_settings",
        "unset_address_settings",
        "address_settings",
        "pause",
        "resume",
        "paused",
        "release",
        "move",
        "remove",
        "expire",
        "send_to_dead_letter",
        "dead_letters",
        "retry_dead_letters",
        "admit_partitions",
        "unit_paths",
        "end_paths",
    ),
}
PAGES = {"api.md": USED_MOST, "api-admin.md": ADMINISTRATION}
HEADING = "## Signatures"


def default_of(value: object) -> str:
    if isinstance(value, Unset):
        return "…"
    return f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)


def parameters_of(signature: inspect.Signature) -> list[str]:
    """Those a caller may give; `*more` and `**unknown` are there for the errors, and `*names` is a caller's."""
    shown: list[str] = []
    is_by_name = False
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.VAR_POSITIONAL and name != "more":
            shown.append(f"*{name}")
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
    return re.sub(r"\b[a-z_]+\.", "", text).replace("Optional[~T]", "T | None")


def call_of(kind: type, name: str) -> Callable[..., object]:
    call: Callable[..., object] = kind if name == MAKING else getattr(kind, name)
    return call


def shown_on(page: str) -> list[str]:
    """The lines of the page, each with what it is continued by."""
    shown = re.search(rf"^{HEADING}\n.*?```text\n(.*?)\n```", page, flags=re.S | re.M)
    assert shown is not None
    return shown[1].replace("\n    ", " ").splitlines()


def lines_of(calls: dict[type, tuple[str, ...]]) -> list[str]:
    """What a page is to show, unfolded."""
    lines = []
    for kind, name in ((kind, name) for kind, names in calls.items() for name in names):
        signature = inspect.signature(call_of(kind, name))
        call = f"{kind.__name__}{'.' if name else ''}{name}({', '.join(parameters_of(signature))})"
        lines.append(call if name == MAKING else f"{call} -> {returned(signature) or '?'}")
    return lines


@pytest.mark.parametrize("page", PAGES)
def test_the_signatures_on_the_page_are_those_of_the_code(page: str) -> None:
    shown = shown_on((ROOT / "docs" / page).read_text())
    for line, wanted in zip(shown, lines_of(PAGES[page]), strict=True):
        call, _, result = wanted.partition(" -> ")
        assert line.partition(" -> ")[0] == call
        assert result in ("?", line.partition(" -> ")[2]), call


def test_the_page_of_the_administration_shows_every_call() -> None:
    calls = {name for name, _ in inspect.getmembers(Admin, inspect.isroutine) if not name.startswith("_")}
    assert calls == {name for name in ADMINISTRATION[Admin] if name != MAKING}
