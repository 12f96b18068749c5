"""`jbm-kafka docs`, and that what messages tell to read is there to be read."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.house.sources import ROOT

SOURCES = [*(ROOT / "jbm_kafka").rglob("*.py"), *(ROOT / "spark" / "jbm_spark").rglob("*.py")]


def said(text: str) -> Iterator[str]:
    """The texts of a module that a user may be shown: all but docstrings, and the docstrings of commands."""
    tree = ast.parse(text)
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any("command(" in ast.unparse(each) for each in node.decorator_list):
            yield ast.get_docstring(node) or ""
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in silent:
            yield node.value


def test_messages_name_pages_by_the_command_that_prints_them_and_each_is_there(run: Run) -> None:
    texts = {(source.name, text) for source in SOURCES for text in said(source.read_text())}
    file = re.compile(r"\bdocs/[\w-]+\.\w+|\b[a-z][a-z-]*\.md\b")
    assert [each for each in texts if file.search(each[1])] == []
    named = {page for _, text in texts for page in re.findall(r"jbm-kafka docs ([a-z][\w-]*)", text)}
    assert named >= {"runbook", "security", "topics", "spark-load"}
    assert {page: run("docs", page).code for page in named} == dict.fromkeys(named, 0)


def test_a_page_is_printed_as_it_is(run: Run) -> None:
    assert run("docs", "runbook").out == (ROOT / "docs" / "runbook.md").read_text()
    assert run("docs", "docs/runbook.md").out == run("docs", "runbook").out
    assert run("docs", "decisions/0010-compiled-modules").out.startswith("# ")


def test_the_pages_are_listed_a_line_each(run: Run) -> None:
    lines = run("docs").out.splitlines()
    assert len(lines) == len(list((ROOT / "docs").glob("*.md")))
    assert "tutorial                     Tutorial: an order that fails, and how it gets through" in lines


@pytest.mark.parametrize(("name", "near"), [("runbok", "did you mean 'runbook'? "), ("../README", ""), ("/", "")])
def test_a_page_that_is_not_there_is_one_line(run: Run, name: str, near: str) -> None:
    done = run("docs", name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"jbm-kafka docs: Invalid value for 'PAGE': there is no page '{name}': {near}")
    assert done.err.count("\n") == 1
