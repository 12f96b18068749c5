"""Each house rule finds what it is for, and lets the rest pass."""

import pytest

from tests.house import circles, ratchet, rules


@pytest.mark.parametrize(
    "text",
    ["import time\ntime.sleep(1)", "import asyncio\nawait asyncio.sleep(1)", "from time import sleep", "f(time.sleep)"],
)
def test_every_way_to_sleep_is_seen(text: str) -> None:
    assert len(rules.sleeps("a.py", text)) == 1


def test_talking_about_sleep_is_no_sleep() -> None:
    assert rules.sleeps("a.py", "import time\n# time.sleep(1)\nx = 'time.sleep'\nfrom time import monotonic") == []


@pytest.mark.parametrize(
    "text", ["import unittest.mock", "from unittest import mock", "from unittest.mock import Mock as Thing"]
)
def test_every_way_to_mock_is_seen(text: str) -> None:
    assert len(rules.mocks("a.py", text)) == 1


def test_a_forbidden_word_is_named_with_its_line_and_reason() -> None:
    words = {r"/secret/\w+": "a path of one machine"}
    assert rules.forbidden_words("a.md", "fine\nsee /secret/notes\n", words) == [
        "a.md:2: '/secret/notes': a path of one machine"
    ]
    assert rules.forbidden_words("a.md", "a secret\n", words) == []


def test_a_module_is_dead_when_it_is_neither_imported_nor_named() -> None:
    imported = rules.imported_modules("import p.a\nfrom p import b\nfrom p.c import thing")
    modules = ["p.a", "p.b", "p.c", "p.d", "p.e", "p.__main__"]
    assert rules.dead_modules(modules, imported, named='target = "p.d:run"') == ["p.e: nobody imports it"]


def test_promises_are_read_from_the_tables_only() -> None:
    page = "| id | promise |\n| --- | --- |\n| ACK-1 | as UNIT-2 says |\n| UNIT-16 | holds |\nACK-9 is mentioned\n"
    assert rules.promised_ids(page) == ["ACK-1", "UNIT-16"]
    assert rules.open_ids("# ACK-3 in a comment\nACK-1\nUNIT-16  needs topics (ACK-2)\n") == ["ACK-1", "UNIT-16"]


def test_a_test_proves_what_its_docstring_begins_with() -> None:
    text = """
class TestMany:
    '''ACK-1: all of it.'''
    def test_a(self): '''ACK-2, UNIT-16: both, as ACK-9 says.'''
    def test_b(self): '''See ACK-7.'''
    def test_c(self): x = "ACK-8"  # ACK-8
    def test_d(self): '''Of ACK-3 and ACK-4: a case.'''
"""
    assert rules.proven_ids(text) == {"ACK-1", "ACK-2", "UNIT-16"}
    parts = [(proof.promise, proof.name) for proof in rules.proofs(text) if proof.is_part]
    assert parts == [("ACK-3", "test_d"), ("ACK-4", "test_d")]
    assert rules.proofs("'Of ACK-5.'") == [rules.Proof("ACK-5", True, "")]


def test_a_promise_is_proven_or_open_and_never_both() -> None:
    promised = ["ACK-1", "ACK-2", "ACK-3", "ACK-4", "ACK-4"]
    wrong = rules.unproven(promised, ["ACK-2", "ACK-3", "ACK-4", "ACK-9"], tested={"ACK-2"})
    assert wrong == [
        "ACK-4: promised twice",
        "ACK-1: no test names it",
        "ACK-2: has a test, so it is not open any more",
        "ACK-9: listed as open, but nothing promises it",
    ]


def test_a_basename_in_two_folders_is_named_with_its_places() -> None:
    names = ["p/a.py", "p/q/a.py", "p/b.py", "p/__init__.py", "p/q/__init__.py"]
    assert rules.repeated_basenames(names) == {"a.py": ["p/a.py", "p/q/a.py"]}


def test_a_public_class_name_in_two_modules_is_named_with_its_places() -> None:
    texts = {
        "p/a.py": "class A:\n    class Part: ...\nclass _Own: ...",
        "p/b.py": "class A: ...\nclass _Own: ...\nclass Part: ...",
    }
    assert rules.repeated_classes(texts) == {"A": ["p/a.py", "p/b.py"]}


def test_a_circle_is_found_whether_it_is_imported_for_types_or_late() -> None:
    texts = {
        "p.a": "if TYPE_CHECKING:\n    from p.b import B",
        "p.b": "def f():\n    from p import c",
        "p.c": "import p.a",
        "p.d": "from p.c import c",
    }
    graph = circles.module_graph(texts)
    assert graph == {"p.a": {"p.b"}, "p.b": {"p.c"}, "p.c": {"p.a"}, "p.d": {"p.c"}}
    assert circles.circles(graph) == [frozenset({"p.a", "p.b", "p.c"})]


def test_folders_are_in_a_circle_though_their_modules_are_in_none() -> None:
    graph = {"p.one": {"p.q.a"}, "p.q.a": {"p.r.a"}, "p.r.b": {"p.q.b"}, "p.r.a": set(), "p.q.b": set()}
    assert circles.circles(graph) == []
    assert circles.circles(circles.folder_graph(graph, "p")) == [frozenset({"p.q", "p.r"})]


def test_two_circles_that_share_a_module_are_one() -> None:
    graph = {"a": {"b"}, "b": {"a", "c"}, "c": {"b", "d"}, "d": set()}
    assert circles.circles(graph) == [frozenset("abc")]


def test_a_known_circle_may_shrink_and_never_grow() -> None:
    known = [frozenset({"a", "b", "c"})]
    assert circles.complaints("modules", [frozenset({"a", "b"})], known) == [
        "c: in no circle of modules any more; take it off the list"
    ]
    grown = circles.complaints("modules", [frozenset({"a", "b", "c", "d"})], known)
    assert grown == ["circle of modules: a, b, c, d; break it: who is held takes values, and never its holder"]


def test_a_known_exception_is_let_pass_and_must_go_when_it_breaks_nothing() -> None:
    assert ratchet.exceeding({"Old": "too large"}, ["Old"]) == []
    assert ratchet.exceeding({"New": "too large"}, ["Old"]) == [
        "New: too large",
        "Old: keeps the rule now; take it off the list",
    ]
