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
    Context,
    ContextProducer,
    Message,
    MessageConsumer,
    MessageProducer,
    Sender,
    Session,
    Worker,
    register_object_codec,
)
from jbm_kafka.admin import Admin
from jbm_kafka.core.sentinels import Unset
from tests.house.sources import ROOT

MAKING = ""
"""Stands for the class itself, which is called to make one."""

USED_MOST: dict[type, tuple[str, ...]] = {
    ConnectionFactory: (MAKING, "from_config", "from_env", "create_connection", "create_context"),
    AddressSettings: (MAKING,),
    Connection: ("create_session", "statistics", "health"),
    Session: (
        "create_queue",
        "create_topic",
        "create_producer",
        "create_consumer",
        "create_durable_consumer",
        "create_shared_consumer",
        "create_shared_durable_consumer",
        "unsubscribe",
        "create_browser",
        "request",
        "create_text_message",
        "create_bytes_message",
        "create_map_message",
        "create_stream_message",
        "create_object_message",
        "set_default_prefetch",
        "set_dups_ok",
        "tpc_begin",
        "set_group_ack_threshold",
    ),
    MessageProducer: ("send", "flush"),
    Sender: ("send",),
    ContextProducer: ("send",),
    MessageConsumer: ("receive", "receive_nowait", "receive_body", "set_listener", "run"),
    Worker: ("handler", "batch", "task", "cron", "around", "lifespan", "start", "stop", "run"),
    Message: ("acknowledge", "nack", "reject", "get_body", "is_body_assignable_to"),
}
FUNCTIONS = {"api.md": (register_object_codec,), "api-admin.md": ()}
"""Of no class, behind the others."""
CONTEXT_ALONE = {"create_producer"}
"""What a context has otherwise than a session: its producer has no destination."""
ADMINISTRATION: dict[type, tuple[str, ...]] = {
    Admin: (
        MAKING,
        "from_config",
        "close",
        "create_queue",
        "create_topic",
        "exists",
        "destinations",
        "partitions",
        "delete_destination",
        "subscriptions",
        "create_subscription",
        "release_subscription",
        "unsubscribe",
        "readers",
        "end_reader",
        "truncate",
        "large_bodies",
        "remove_large_bodies",
        "prepared",
        "resolve",
        "counts",
        "browse",
        "page",
        "message_at",
        "message_life",
        "explain",
        "doctor",
        "drain",
        "queues_with_dead_letters",
        "set_address_settings",
        "unset_address_settings",
        "address_settings",
        "pause",
        "resume",
        "paused",
        "schedules",
        "pause_schedule",
        "resume_schedule",
        "run_schedule",
        "remove_schedule",
        "release",
        "move",
        "remove",
        "expire",
        "send_to_dead_letter",
        "send_now",
        "dead_letter_queue",
        "dead_letters",
        "retry_dead_letters",
        "send_edited_letter",
        "export_messages",
        "import_messages",
        "adopt",
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


def lines_of(page: str) -> list[str]:
    """What a page is to show, unfolded."""
    lines, calls = [], PAGES[page]
    for kind, name in ((kind, name) for kind, names in calls.items() for name in names):
        signature = inspect.signature(call_of(kind, name))
        call = f"{kind.__name__}{'.' if name else ''}{name}({', '.join(parameters_of(signature))})"
        lines.append(call if name == MAKING else f"{call} -> {returned(signature) or '?'}")
    for function in FUNCTIONS[page]:
        signature = inspect.signature(function)
        call = f"{function.__name__}({', '.join(parameters_of(signature))})"
        lines.append(f"{call} -> {returned(signature)}")
    return lines


def calls_with_arguments(kind: type) -> set[str]:
    calls = inspect.getmembers(kind, inspect.isroutine)
    return {name for name, call in calls if not name.startswith("_") and parameters_of(inspect.signature(call))}


@pytest.mark.parametrize("page", PAGES)
def test_the_signatures_on_the_page_are_those_of_the_code(page: str) -> None:
    shown = shown_on((ROOT / "docs" / page).read_text())
    for line, wanted in zip(shown, lines_of(page), strict=True):
        call, _, result = wanted.partition(" -> ")
        assert line.partition(" -> ")[0] == call
        assert result in ("?", line.partition(" -> ")[2]), call


@pytest.mark.parametrize("kind", [Session, Connection, MessageProducer, MessageConsumer, ContextProducer])
def test_calls_with_arguments_were_not_among_the_signatures(kind: type) -> None:
    missing = calls_with_arguments(kind) - set(USED_MOST[kind])
    assert missing <= ({"flush"} if kind is ContextProducer else set()), "which is as of a MessageProducer"


def test_a_context_has_the_calls_of_a_session() -> None:
    """So the page need not show them twice."""
    for name in calls_with_arguments(Context) - CONTEXT_ALONE:
        assert parameters_of(inspect.signature(getattr(Context, name))) == parameters_of(
            inspect.signature(getattr(Session, name))
        )


def test_the_page_of_the_administration_shows_every_call() -> None:
    calls = {name for name, _ in inspect.getmembers(Admin, inspect.isroutine) if not name.startswith("_")}
    assert calls == {name for name in ADMINISTRATION[Admin] if name != MAKING}
