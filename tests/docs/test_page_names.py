"""A reader tries the pages one after the other on one broker: no page meets what another one has left there."""

import ast
import re
import shlex
import zipfile
from collections.abc import Iterator

from jbm_kafka.devbroker.broker_jars import ensure_jars
from tests.docs.page import BROKER, Commands, File, Page, Program, read_page
from tests.docs.test_pages import PAGES
from tests.house.sources import ROOT

SHARED = {
    "orders": {"docs/tutorial.md", "docs/operating.md", "docs/administration.md"},
    "DLQ": {"docs/dead-letters.md", "docs/spark.md", "docs/spark-events.md"},
}
"""Names that these pages may share. `orders`: the tutorial comes first and leaves it empty, and the others receive
nothing from it. `DLQ`: each chooses the letters of its own queues, and Spark's page removes those at its end."""

FIRST = {"Queue", "Topic", "create_queue", "create_topic", "produce"}
"""Calls whose first argument is the name of a queue or topic."""
SECOND = {"messages", "message_stream", "write_messages", "write_stream"}
"""Spark's, after the session or the rows."""
NO_NAME = {"broker", "dead-letters", "demo", "list", "settings", "subscriptions"}
"""Commands that are not followed by a name."""


def test_no_two_pages_use_one_queue_or_topic_of_a_broker() -> None:
    users: dict[str, set[str]] = {}
    for page in PAGES:
        for name in names_on_a_broker(read_page((ROOT / page).read_text())):
            users.setdefault(name, set()).add(page)
    assert {"orders", "book-orders", "readings", "prices"} <= users.keys()
    shared = {name: pages for name, pages in users.items() if len(pages) > 1 and not pages <= SHARED.get(name, set())}
    assert shared == {}, "give each page names of its own, for a reader has one broker"


def names_on_a_broker(page: Page) -> Iterator[str]:
    """Of queues and topics that the page's programs and commands name; not what is in memory."""
    for step in page.steps:
        match step:
            case Program(code) | File(_, code) if BROKER in code and "memory://" not in code:
                yield from _of_python(code)
            case Commands(code):
                yield from _of_commands(code)


def _of_python(code: str) -> Iterator[str]:
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Call):
            function = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            place = 0 if function in FIRST else 1 if function in SECOND else len(call.args)
            if place < len(call.args) and isinstance(name := call.args[place], ast.Constant):
                yield str(name.value)


def _of_commands(code: str) -> Iterator[str]:
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        _, *command = words[words.index("jbm-kafka") :] if "jbm-kafka" in words else [""]
        match command:
            case ["settings", "set" | "unset", pattern, *_]:
                yield pattern.partition(".")[0]
            case [verb, name, *_] if verb not in NO_NAME:
                yield name.removeprefix("topic:")
        if "--to" in command:
            yield command[command.index("--to") + 1]


def test_each_class_of_a_tool_that_operating_names_is_in_kafkas_jars() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    named = set(re.findall(r"`((?:org\.apache\.kafka|kafka)\.[A-Za-z.]+Command)`", text))
    there = {name for jar in ensure_jars().glob("kafka*.jar") for name in zipfile.ZipFile(jar).namelist()}
    assert named
    assert {name for name in named if f"{name.replace('.', '/')}.class" not in there} == set()
