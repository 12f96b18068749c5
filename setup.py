"""Compiles the hot modules where they stand: `python setup.py build_ext --inplace`, which `make setup` runs.

Nothing else: packages are built by hatchling. Which modules those are, pyproject.toml tells: decision 10.
mypyc leaves docstrings out. Here they are put into the C that it wrote: `help()` has them, and no call is slower.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

COMPILED = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["jbm-kafka"]["compiled"]
ARGUMENTS = {
    "name": "jbm-kafka",
    "packages": [],
    "long_description": "",  # setuptools refuses pyproject.toml, whose `readme` hatch_build.py makes, without one
}

Docs = dict[tuple[str, str], str]
"""By class and name in it; a class's own has no name."""
CLASS = re.compile(r'\.tp_doc = PyDoc_STR\("(\w+)\([^"]*')
METHOD = re.compile(r'\(PyCFunction\)CPyPy_\w+?___(\w+?)___(\w+),\s+METH_[\w |]+, PyDoc_STR\("[^"]*')
ATTRIBUTE = re.compile(r'{"(\w+)",\s+\(getter\)\w+?___(\w+?)_get_\w+,\s+(?:\(setter\)\w+|NULL),\s+NULL')


def docs_of(source: str) -> Docs:
    """The docstrings of the classes of a module, of their methods and of their attributes."""
    found: Docs = {}
    for owner in ast.parse(source).body:
        if isinstance(owner, ast.ClassDef):
            found.update({(owner.name, name): text for name, text in _docs_of_class(owner)})
    return found


def _docs_of_class(owner: ast.ClassDef) -> Iterator[tuple[str, str]]:
    yield "", ast.get_docstring(owner) or ""
    for member in owner.body:
        # A property's setter has the same name, and no text that could take the place of the getter's.
        if isinstance(member, ast.FunctionDef) and (text := ast.get_docstring(member)):
            yield member.name, text


def with_docs(text: str, docs: Docs) -> str:
    """The C with the docstrings behind the signatures that mypyc has put there."""

    def behind(found: re.Match[str], key: tuple[str, str]) -> str:
        return found.group() + _literal(docs.get(key, ""))

    def instead(found: re.Match[str]) -> str:
        doc = docs.get((found[2], found[1]), "")
        return found.group().removesuffix("NULL") + f'"{_literal(doc)}"' if doc else found.group()

    text = CLASS.sub(lambda found: behind(found, (found[1], "")), text)
    text = METHOD.sub(lambda found: behind(found, (found[1], found[2])), text)
    return ATTRIBUTE.sub(instead, text)


def _literal(text: str) -> str:
    """The inside of a C string of this text in UTF-8."""
    return "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\?' else f"\\{byte:03o}" for byte in text.encode())


def main() -> None:
    """Compile."""
    extensions = mypycify(COMPILED, opt_level="2")
    docs: Docs = {}
    for module in COMPILED:
        docs.update(docs_of(Path(module).read_text()))
    for source in {source for extension in extensions for source in extension.sources if "__native" in source}:
        Path(source).write_text(with_docs(Path(source).read_text(), docs))
    setup(**ARGUMENTS, ext_modules=extensions)


if __name__ == "__main__":
    main()
