"""What a stranger could not find by `help()`, `dir()`, `repr()` and a type checker."""

from __future__ import annotations

import dataclasses
import inspect
import pydoc
import re
from collections.abc import Callable, Iterator
from enum import Enum
from types import ModuleType

import pytest

import jbm_kafka
from jbm_kafka import (
    NO_UNIT,
    SYSTEM_GENERATED,
    ConnectionFactory,
    Context,
    ContextProducer,
    Message,
    MessageConsumer,
    MessageProducer,
    Queue,
    Session,
    TextMessage,
    admin,
)
from jbm_kafka.admin import Admin, Wait
from jbm_kafka.core.address_settings import SHIPPED_SETTINGS, AddressSettingsRepository
from jbm_kafka.core.sentinels import UNSET, Unset
from jbm_kafka.core.summary import LINE_MAX
from jbm_kafka.ports.installation import SidecarConfig

HEADERS = [name for name, member in inspect.getmembers(Message) if isinstance(member, property) and name != "body"]


@pytest.mark.parametrize("name", HEADERS)
def test_help_of_a_header_told_of_operator_attrgetter(name: str) -> None:
    """Each has one line of its own, which tells what it is and its unit."""
    told = inspect.getdoc(getattr(TextMessage, name)) or ""
    assert "attrgetter" not in told
    assert told.endswith(".")
    assert "\n" not in told
    if name in ("timestamp", "expiration", "delivery_time"):
        assert "milliseconds since 1970; 0" in told


CLASSES = [found for name in jbm_kafka.__all__ if inspect.isclass(found := getattr(jbm_kafka, name))]


@pytest.mark.parametrize("kind", [*CLASSES, Admin], ids=lambda kind: str(kind.__name__))
def test_help_named_promises_by_ids_that_a_user_does_not_know(kind: type) -> None:
    members = [member for name, member in inspect.getmembers(kind) if not name.startswith("_")]
    told = [inspect.getdoc(each) or "" for each in (kind, *members)]
    ids = [found for text in told for found in re.findall(r"\(((?!UTF)[A-Z]+-\d+)", text)]
    assert ids == []


def test_help_of_send_did_not_tell_of_its_arguments() -> None:
    told = (inspect.getdoc(MessageProducer.send) or "").partition("Args:")[2].partition("Raises:")[0]
    names = [name for name in inspect.signature(MessageProducer.send).parameters if name != "self"]
    assert [name for name in names if not re.search(rf"\b{name}\b[^:]*:", told)] == []


@pytest.mark.parametrize("call", [Session.request, Admin.browse], ids=lambda call: str(call.__qualname__))
def test_help_of_a_call_with_many_arguments_told_of_few(call: Callable[..., object]) -> None:
    told = (inspect.getdoc(call) or "").partition("Args:")[2].partition("Raises:")[0]
    names = [name for name in inspect.signature(call).parameters if name != "self"]
    assert [name for name in names if not re.search(rf"\b{name}\b[^:]*:", told)] == []


def test_help_of_a_transaction_did_not_tell_that_earlier_work_is_part_of_it() -> None:
    assert "before the block" in (inspect.getdoc(Session.transaction) or "")


def test_dir_of_a_session_showed_a_name_with_a_space() -> None:
    with ConnectionFactory("memory://discovered").create_context() as context:
        assert isinstance(context, Context)
        session = context._connection.create_session()
        assert [name for each in (session, context) for name in dir(each) if not name.isidentifier()] == []


def test_a_look_at_a_queue_that_was_iterated_before_showed_an_empty_queue() -> None:
    with ConnectionFactory("memory://discovered").create_context() as context, Admin("memory://discovered") as admin:
        producer, queue = context.create_producer(), Queue("looked-at")
        for text in ("a", "b"):
            producer.send(queue, text, unit_of_order="ann")
        look = admin.browse(queue)
        for _ in range(2):
            assert ([message.body for message in look], look.not_shown) == (["a"], {Wait.UNIT: 1})
        producer.send(queue, "c", unit_of_order="joe")
        begun = iter(look)
        assert next(begun).body == "a"
        assert [message.body for message in look] == ["a", "c"]
        assert [message.body for message in begun] == ["c"], "each goes on by itself"
        assert look.not_shown == {Wait.UNIT: 1}


@pytest.mark.parametrize("kind", [MessageProducer, ContextProducer], ids=lambda kind: str(kind.__name__))
def test_the_class_of_a_producer_did_not_show_its_settings(kind: type) -> None:
    settings = {
        "unit_of_order",
        "delivery_mode",
        "priority",
        "time_to_live_ms",
        "delivery_delay_ms",
        "spread",
        "disable_message_id",
        "disable_message_timestamp",
    }
    assert settings <= set(dir(kind))
    told = pydoc.plain(pydoc.render_doc(kind))
    assert {name for name in settings if re.search(rf"^ \|  {name}( = .*)?$", told, flags=re.M)} == settings


def test_the_settings_of_one_producer_are_not_those_of_another() -> None:
    with ConnectionFactory("memory://discovered").create_context() as context:
        first, second = context.create_producer(), context.create_producer()
        first.priority = 9
        assert (first.priority, second.priority, MessageProducer.priority) == (9, 4, 4)


VALUES = [
    kind
    for module in (jbm_kafka, admin)
    for name in module.__all__
    if inspect.isclass(kind := getattr(module, name)) and (dataclasses.is_dataclass(kind) or issubclass(kind, Enum))
]


def members_of(kind: type) -> Iterator[str]:
    """Those that the class itself adds."""
    if dataclasses.is_dataclass(kind):
        yield from (each.name for each in dataclasses.fields(kind) if each.name in vars(kind)["__annotations__"])
    elif issubclass(kind, Enum):
        yield from (each.name for each in kind)


@pytest.mark.parametrize("kind", [*VALUES, type(NO_UNIT), Unset], ids=lambda kind: str(kind.__name__))
def test_help_of_a_result_listed_its_fields_as_bare_names(kind: type) -> None:
    told = inspect.getdoc(kind) or ""
    assert [name for name in members_of(kind) if not re.search(rf"^ *(\w+, )*{name}(, \w+)*: *\S", told, re.M)] == []
    assert [line for line in told.splitlines() if len(line) > 120 or re.search(r"[A-Z]-\d+\)", line)] == []


@pytest.mark.parametrize("marker", [NO_UNIT, SYSTEM_GENERATED, UNSET, Wait.TIME], ids=str)
def test_help_of_a_marker_showed_only_its_class(marker: Enum) -> None:
    told = pydoc.plain(pydoc.render_doc(marker))
    assert inspect.getdoc(marker) != inspect.getdoc(type(marker))
    assert (inspect.getdoc(marker) or "?") in told.replace("\n    ", "\n")


def test_a_marker_was_shown_otherwise_by_str_than_by_repr() -> None:
    assert (str(NO_UNIT), f"{SYSTEM_GENERATED}") == ("NO_UNIT", "SYSTEM_GENERATED")
    assert f"{inspect.signature(ConnectionFactory).parameters['revoke_drain_ms']}".endswith(" = <UNSET: not given>")


def test_the_default_of_an_address_setting_was_nowhere_in_help() -> None:
    defaults = AddressSettingsRepository(SHIPPED_SETTINGS).resolve("orders")
    for name, told in re.findall(r"^ +(\w+): ((?:.*\n?)(?: {8}.*\n?)*)", jbm_kafka.AddressSettings.__doc__ or "", re.M):
        if hasattr(defaults, name):
            value = repr(getattr(defaults, name)).replace("'", '"')
            assert re.search(rf"Default:\s+{re.escape(value)}[.,]", told), (name, value)


def test_a_result_was_shown_with_all_its_partitions_and_messages_in_one_endless_line() -> None:
    with ConnectionFactory("memory://discovered").create_context() as context, Admin("memory://discovered") as looking:
        orders, letters = Queue("orders-of-a-branch-with-a-long-name"), Queue("DLQ")
        producer = context.create_producer()
        for number in range(100):
            producer.send(orders, f"{number} books", unit_of_order=f"customer {number % 40}")
        counts, explained = looking.counts(orders), looking.explain(orders)
        dead = looking.send_to_dead_letter(orders, everything=True)
        report, looked = looking.retry_dead_letters(letters, dry_run=True), list(looking.dead_letters(letters))
        moved, deleted = looking.remove(letters, everything=True), looking.delete_destination(letters, dry_run=True)
        shown = [repr(each) for each in (counts, explained, dead, report, looked[0][0], moved, deleted)]
        shown += [repr(each) for each in (*explained.messages[:1], *explained.partitions[:1])]
        shown += [repr(each) for each in (counts.partitions[0], *explained.messages[0].reasons)]
    assert [line for line in shown if len(line) > LINE_MAX or "\n" in line] == []
    assert shown[0] == (
        "<QueueCounts orders-of-a-branch-with-a-long-name held=100 is_exact=True ready=40 delayed=0 for_operator=0 "
        "expired=0 members=0 partitions=16 without_owner=0>"
    )
    assert "rules='nobody-receives" in shown[1]
    assert "letters=100 kept=0" in shown[3]


RAISED = {
    MessageProducer.send: "SendTimeoutError MessageTooLargeError MessageFormatError InvalidDestinationError "
    "InvalidSettingError InvalidTypeError OrderError IllegalStateError",
    ContextProducer.send: "SendTimeoutError MessageTooLargeError MessageFormatError InvalidDestinationError "
    "InvalidSettingError InvalidTypeError OrderError IllegalStateError",
    MessageConsumer.receive: "IllegalStateError ResourceAllocationError InvalidSettingError InvalidTypeError",
    MessageConsumer.receive_body: "MessageFormatError InvalidTypeError IllegalStateError",
    Message.acknowledge: "IllegalStateError JMSError InvalidTypeError",
    Session.commit: "TransactionRolledBackError OrderRolledBackError TransactionInDoubtError IllegalStateError "
    "TransactionInProgressError",
    Session.create_consumer: "InvalidSelectorError InvalidDestinationError InvalidSettingError IllegalStateError",
    Session.create_durable_consumer: "IllegalStateError InvalidDestinationError create_consumer",
    Session.request: "RequestTimeoutError IllegalStateError InvalidSettingError InvalidTypeError",
    Admin.counts: "InvalidDestinationError InvalidSettingError InvalidTypeError",
    Admin.create_queue: "InvalidDestinationError InvalidSettingError InvalidTypeError",
    Admin.resume: "InvalidDestinationError InvalidSettingError",
    Admin.remove: "InvalidDestinationError InvalidSettingError InvalidSelectorError",
}


@pytest.mark.parametrize("call", RAISED, ids=lambda call: str(call.__qualname__))
def test_help_of_a_call_told_of_few_of_its_errors(call: Callable[..., object]) -> None:
    told = (inspect.getdoc(call) or "").partition("Raises:")[2]
    assert [name for name in RAISED[call].split() if not re.search(rf"\b{name}\b", told)] == []


def test_the_default_of_a_setting_of_the_factory_was_nowhere_in_help() -> None:
    told = (inspect.getdoc(ConnectionFactory) or "").partition("Args:")[2].replace("256 MiB", f"{256 * 2**20:,}")
    for name, parameter in inspect.signature(ConnectionFactory).parameters.items():
        if isinstance(parameter.default, Unset):
            default = getattr(SidecarConfig(), name)
            shown = str(default) if isinstance(default, bool) else f"{default:,}"
            assert re.search(rf"^    {name}: [^;]*;\s+{shown}\.$", told, flags=re.M), (name, shown)


def test_help_of_receive_showed_what_is_there_for_the_errors_alone() -> None:
    shown = [
        inspect.signature(call) for call in (MessageConsumer.receive, Message.acknowledge, TextMessage.acknowledge)
    ]
    assert [list(each.parameters) for each in shown] == [["self", "timeout"], ["self"], ["self"]]


def test_help_of_admin_spelt_the_modules_of_its_types_in_each_argument() -> None:
    calls = [member for name, member in inspect.getmembers(Admin, inspect.isfunction) if not name.startswith("_")]
    assert [call.__name__ for call in calls if "jbm_kafka." in str(inspect.signature(call))] == []


@pytest.mark.parametrize("module", [jbm_kafka, admin], ids=lambda module: str(module.__name__))
def test_help_of_a_package_began_with_its_modules(module: ModuleType) -> None:
    told = pydoc.plain(pydoc.render_doc(module)).partition("PACKAGE CONTENTS")[0]
    program = "\n".join(re.findall(r"^ {8}(.*)$", told, flags=re.M)).partition("\njbm_kafka.errors")[0]
    with Admin("memory://of-help") as made:
        made.create_queue("orders")
        exec(program.replace("localhost:9092", "memory://of-help"), found := dict[str, object]())
    assert "docs/" in told
    assert found.keys() >= ({"message"} if module is jbm_kafka else {"admin"})


def test_dead_letters_that_were_iterated_before_were_gone() -> None:
    with ConnectionFactory("memory://discovered").create_context() as context, Admin("memory://discovered") as looking:
        context.create_producer().send(Queue("orders"), "2 books")
        looking.send_to_dead_letter("orders", everything=True)
        letters = looking.dead_letters()
        assert [[message.body for _, message in letters] for _ in range(2)] == [["2 books"], ["2 books"]]
        looking.remove("DLQ", everything=True)
        assert list(letters) == []
        assert repr(letters) == "<LetterLook queue:DLQ: iterate it for pairs of a DeadLetter and its message>"
