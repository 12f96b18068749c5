"""The tree keeps the house rules. A failure lists every place; the rules themselves are in rules.py."""

import re
from collections.abc import Iterable
from fnmatch import fnmatch

import pytest

from tests.house import rules
from tests.house.sources import PRODUCT, ROOT, TESTS, python_files, relative, text_files

# Files that may sleep, each with its reason: tools that act out a fault or work that takes time.
SLEEP_ALLOWED: dict[str, str] = {}

FORBIDDEN = {
    r"(?<![\w.])/(work|root|home)/\w+": "a path of one machine",
    r"\.\./shared\b|\bspikes/": "a path outside the repository",
    r"\b(index|registry|registry-1)\.docker\.io|\bghcr\.io|\bquay\.io": "the host of a registry",
    r"\b(deb|security)\.debian\.org|\bpypi\.org|\bpythonhosted\.|\brepo1?\.maven|\bnpmjs\.": "the host of a registry",
}


def test_no_folder_of_tests_is_passed_over_by_pytest(request: pytest.FixtureRequest) -> None:
    """That of dist/ was, by its name: nothing told that its tests were played by nobody."""
    patterns = request.config.getini("norecursedirs")
    folders = {part for path in python_files(*TESTS) for part in path.relative_to(ROOT).parts[:-1]}
    assert [name for name in sorted(folders) if any(fnmatch(name, pattern) for pattern in patterns)] == []


def test_no_test_sleeps() -> None:
    _nothing(
        complaint
        for path in python_files(*TESTS)
        if relative(path) not in SLEEP_ALLOWED
        for complaint in rules.sleeps(relative(path), path.read_text())
    )


def test_no_test_mocks() -> None:
    _nothing(complaint for path in python_files(*TESTS) for complaint in rules.mocks(relative(path), path.read_text()))


def test_no_file_names_another_place() -> None:
    _nothing(
        complaint
        for path in text_files()
        for complaint in rules.forbidden_words(relative(path), path.read_text(), FORBIDDEN)
    )


def test_every_module_is_used() -> None:
    product = [path for path in python_files(*PRODUCT, "tests/support") if path.name != "__init__.py"]
    modules = {_module(relative(path)): path for path in product}
    readers = python_files(*PRODUCT, *TESTS)
    imported = {module for path in readers for module in rules.imported_modules(path.read_text())}
    named = "\n".join(path.read_text() for path in [*readers, ROOT / "Makefile", ROOT / "pyproject.toml"])
    _nothing(rules.dead_modules(modules, imported, named))


def test_every_promise_has_a_test_or_is_listed_as_open() -> None:
    promised = rules.promised_ids((ROOT / "docs" / "semantics.md").read_text())
    assert promised, "docs/semantics.md promises nothing"
    still_open = rules.open_ids((ROOT / "docs" / "open-promises.txt").read_text())
    tests = [path for path in python_files(*TESTS) if path.name.startswith("test_") and path.parent.name != "house"]
    tested = {name for path in tests for name in rules.proven_ids(path.read_text())}
    _nothing(rules.unproven(promised, still_open, tested))


def _module(name: str) -> str:
    return re.sub(r"^spark/", "", name).removesuffix(".py").replace("/", ".")


def _nothing(complaints: Iterable[str]) -> None:
    assert not (found := list(complaints)), "\n" + "\n".join(found)
