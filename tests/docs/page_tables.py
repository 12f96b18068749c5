"""Reads sections and tables of a page, for tests that compare them with the code."""

import re


def section(page: str, heading: str) -> str:
    """Return what stands below a heading, up to the next one."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", page, re.S | re.M)
    assert found is not None, heading
    return found[1]


def rows(text: str) -> list[list[str]]:
    """Return the cells of the rows of its tables, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    heads = {index - 1 for index, row in enumerate(cells) if set("".join(row)) == {"-"}}
    return [row for index, row in enumerate(cells) if index not in heads and index - 1 not in heads]
