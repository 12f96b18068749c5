"""How large the project is: `make sizes`. A report and no rule; a large file asks whether it has a second idea."""

import ast
import io
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.house.sources import PRODUCT, ROOT, TESTS, python_files, relative

LARGEST = 10
BAD_OPENINGS = frozenset({"what", "whether", "those", "of", "by"})
"""A docstring that opens so has no subject, and is read twice."""


def main() -> None:
    """Print the sums, and what is largest of the product."""
    for name, number in sums():
        print(f"{number:>8,}  {name}")
    print("\nprose by folder: lines of code, comments a hundred of them, docstrings, per cent of these that open badly")
    for folder in _folders():
        print("{:>8,} {:>5.1f} {:>6,} {:>5.1f}  {}".format(*prose(python_files(folder)), folder))
    print(f"\nthe {LARGEST} largest files of the product, lines")
    _print_largest([(_lines(path), relative(path)) for path in python_files(*PRODUCT)])
    print(f"\nthe {LARGEST} largest classes of the product, lines")
    _print_largest([each for path in python_files(*PRODUCT) for each in _classes(path)])


def sums() -> Iterator[tuple[str, int]]:
    """What is counted, with its number."""
    product, spark, tests = python_files("jbm_kafka"), python_files("spark"), python_files(*TESTS)
    yield "lines of jbm_kafka", sum(map(_lines, product))
    yield "files of jbm_kafka", len(product)
    yield "lines of spark", sum(map(_lines, spark))
    yield "lines of tests", sum(map(_lines, tests))
    yield "words in docs", sum(len(path.read_text().split()) for path in (ROOT / "docs").rglob("*.md"))


def prose(files: Sequence[Path]) -> tuple[int, float, int, float]:
    """Return lines of code, comments a hundred of them, docstrings, and per cent of docstrings that open badly.

    Blank lines, comments and docstrings are no lines of code.
    """
    code, comments, docstrings = 0, 0, list[str]()
    for path in files:
        text = path.read_text()
        found = dict(_docstrings(ast.parse(text)))
        docstrings += [each for each in found.values() if each]
        inside = {line for first, last in found for line in range(first, last + 1)}
        comments += sum(
            token.type == tokenize.COMMENT for token in tokenize.generate_tokens(io.StringIO(text).readline)
        )
        lines = enumerate(text.splitlines(), start=1)
        code += sum(bool(line.strip()) and line.lstrip()[0] != "#" and at not in inside for at, line in lines)
    bad = sum(each.split(maxsplit=1)[0].strip(",.:").lower() in BAD_OPENINGS for each in docstrings)
    return code, 100 * comments / max(code, 1), len(docstrings), 100 * bad / max(len(docstrings), 1)


def _docstrings(tree: ast.Module) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield first and last line, and text, of each string that stands as a statement, attributes' included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield (node.lineno, node.end_lineno or node.lineno), node.value.value.strip()


def _folders() -> Iterator[str]:
    yield from PRODUCT
    for parent in ("jbm_kafka", "spark"):
        yield from (relative(each) for each in sorted((ROOT / parent).iterdir()) if any(each.glob("*.py")))


def _print_largest(sized: Sequence[tuple[int, str]]) -> None:
    for number, name in sorted(sized, reverse=True)[:LARGEST]:
        print(f"{number:>8,}  {name}")


def _lines(path: Path) -> int:
    return path.read_text().count("\n")


def _classes(path: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{relative(path)}: {node.name}"


if __name__ == "__main__":
    main()
