"""Prints the table of promises and the tests that name them: `python -m tests.house.proofs`. The site has it as a page.

It is never kept in the tree, so that it cannot differ from the tests.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import groupby

from tests.house import rules
from tests.house.sources import ROOT, TESTS, python_files, relative

_HEAD = """# Which test proves which promise

With this page you find the tests behind each [promise](semantics.md), to read what it means in code.

Generated from the docstrings of the tests by `python -m tests.house.proofs`. The files are in
`tests/` of a checkout. Tests behind *in part* show a piece of the promise, or a case of it. What is *open* is not
kept, or not shown, yet.
"""
_END = """## Go on
| you want to | read |
| --- | --- |
| read the promises in full | [promises](semantics.md) |
| know what is not there yet, in plain words | [what is not there yet](not-yet.md) |
"""
_SHORT = 120
"""Characters of a promise that are shown; semantics.md has the rest."""


def page(semantics: str, still_open: str, tests: Mapping[str, str]) -> str:
    """The page as it should be, from the texts of semantics.md, of open-promises.txt and of the test files by name."""
    lines: defaultdict[str, list[str]] = defaultdict(list)
    for file, text in sorted(tests.items()):
        for (promise, is_part), names in _names(text):
            told = ", ".join(name.removeprefix("test_") for name in names if name) or "all of it"
            lines[promise].append(f"| | {'*in part* ' if is_part else ''}`{file.removeprefix('tests/')}`: {told} |")
    missing = dict(re.findall(rf"^({rules.PROMISE_ID})[ \t]*(.*)$", still_open, flags=re.MULTILINE))
    parts = [_HEAD]
    for title, promises in _sections(semantics):
        rows = []
        for promise, text in promises:
            rows += [
                f"| **{promise}** | {_shortened(text)} |",
                *sorted(lines[promise], key=lambda line: "*in part*" in line),
            ]
            rows += [f"| | *open*: {missing[promise]} |"] if promise in missing else []
        parts.append("\n".join([f"## {title}", "| id | promise, tests, what is open |", "| --- | --- |", *rows]))
    return "\n\n".join(part.strip() for part in [*parts, _END]) + "\n"


def current_page() -> str:
    """That of the tree."""
    files = [path for path in python_files(*TESTS) if path.name.startswith("test_") and path.parent.name != "house"]
    docs = ROOT / "docs"
    return page(
        (docs / "semantics.md").read_text(),
        (docs / "open-promises.txt").read_text(),
        {relative(path): path.read_text() for path in files},
    )


def _sections(semantics: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Each heading that promises anything, with its ids and texts."""
    for section in re.split(r"^#{2,3} ", semantics, flags=re.MULTILINE)[1:]:
        promises = re.findall(rf"^\| *({rules.PROMISE_ID}) *\| *(.*?) *\|$", section, flags=re.MULTILINE)
        if promises:
            yield section.partition("\n")[0], promises


def _names(text: str) -> Iterator[tuple[tuple[str, bool], list[str]]]:
    """The tests of a file, for each promise that they name the whole or a part of."""
    found = sorted(set(rules.proofs(text)))
    for key, proofs in groupby(found, key=lambda proof: (proof.promise, proof.is_part)):
        yield key, [proof.name for proof in proofs]


def _shortened(text: str) -> str:
    """The first sentence, or as much of the promise as fits."""
    first = re.split(r"(?<=[.;]) ", text, maxsplit=1)[0].rstrip(".;")
    return first if len(first) <= _SHORT else first[:_SHORT].rpartition(" ")[0].rstrip(",;:") + " …"


if __name__ == "__main__":
    print(current_page(), end="")
