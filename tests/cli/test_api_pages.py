"""`jbm-kafka docs api` shows each public name as it is called, with its docstring."""

import inspect
import re
from importlib import import_module

import pytest

from jbm_kafka import ConnectionFactory, Context, Session, errors
from jbm_kafka.admin import Admin
from jbm_kafka.cli.api_pages import API_PAGES, api_page, home, members, public_names
from jbm_kafka.cli.main import main
from tests.docs.page_tables import section


@pytest.mark.parametrize("page", API_PAGES)
def test_each_class_is_shown_with_all_that_may_be_called_or_read(page: str) -> None:
    text = api_page(page)
    words = set(re.findall(r"\w+", text))
    for module in API_PAGES[page][1]:
        loaded = import_module(module)
        assert (inspect.getdoc(loaded) or "?") in text
        for name in public_names(module):
            kind = getattr(loaded, name)
            assert f"\n{inspect.getdoc(kind)}\n" in section(text, name)
            public = {each for each in dir(kind) if not each.startswith("_") and hasattr(kind, each)}
            bases = inspect.getmro(kind if inspect.isclass(kind) else type(kind))
            of_python = [base for base in bases if not base.__module__.startswith("jbm_kafka")]
            assert public - words - {each for base in of_python for each in dir(base)} == set(), name


def test_a_call_is_shown_with_its_types_and_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "api"]) == 0
    api = capsys.readouterr().out
    assert "\nreceive(timeout: SupportsFloat | None = None) -> Message | None\n" in section(api, "MessageConsumer")
    assert "create_session(acknowledge_mode: AcknowledgeMode = AcknowledgeMode.AUTO) -> Session\n" in api
    assert " auto_create: bool = …," in section(api, "ConnectionFactory"), "what is not given has a default of its own"
    assert "\nMessage()" in section(api, "Message")
    assert "\nRetry(reason: str = '', *, delay_ms: Duration | None = None)\n" in section(api, "Retry")
    assert "\nbody: str | None\n" in section(api, "TextMessage")
    assert "\n```text\nSession\n" in section(api, "Session"), "its connection makes it"
    assert main(["docs", "api-admin"]) == 0
    assert "\nunset_address_settings(pattern: str, *names: str) -> bool\n" in capsys.readouterr().out
    assert main(["docs", "amqp-limits"]) == 0
    assert "\nframe_bytes: int = 262144\n    A larger frame ends" in section(capsys.readouterr().out, "Limits")


def test_fields_and_values_of_errors_are_shown_with_what_is_behind_them_in_the_source() -> None:
    admin = api_page("api-admin")
    assert "\nheld: int\n    Messages " in section(admin, "QueueCounts")
    assert "\nmax_message_bytes\n    " in section(api_page("api"), "MessageTooLargeError")
    assert "\n\nIt is also: JMSError, TimeoutError.\n" in section(api_page("api"), "RequestTimeoutError")
    assert "\nAUTO_ACKNOWLEDGE\n    The same as AUTO.\n" in section(api_page("api"), "AcknowledgeMode")


def test_what_a_public_base_has_is_shown_there_alone() -> None:
    assert "acknowledge" in {member.name for member in members(Session)}
    assert {member.name for member in members(errors.InvalidTypeError)} == set()


def test_the_site_finds_a_class_where_it_is_written() -> None:
    assert home("jbm_kafka", "ConnectionFactory") == f"{ConnectionFactory.__module__}.ConnectionFactory"
    assert home("jbm_kafka.errors", "JMSError") == "jbm_kafka.core.jms_errors.JMSError"


def test_a_context_has_the_calls_of_a_session() -> None:
    """But for `create_producer`: its producer has no destination. So who knows a session knows a context."""
    own = {member.name: member.shown for member in members(Context)}
    shared = {member.name: member.shown for member in members(Session) if "(" in member.shown}
    assert len(own.keys() & shared.keys()) > 25
    assert {name for name in own.keys() & shared.keys() if own[name] != shared[name]} == {"create_producer"}


def test_the_help_of_the_administration_names_every_call() -> None:
    calls = {member.name for member in members(Admin)}
    assert calls - set(re.findall(r"\w+", Admin.__doc__ or "")) == set()
