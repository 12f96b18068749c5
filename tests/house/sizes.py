"""How large the project is: `make sizes`. A report and no rule; a large file asks whether it has a second idea."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.house.sources import PRODUCT, ROOT, TESTS, python_files, relative

LARGEST = 10


def main() -> None:
    """Print the sums, and what is largest of the product."""
    for name, number in sums():
        print(f"{number:>8,}  {name}")
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
