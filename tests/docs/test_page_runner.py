"""The runner of the pages finds what is wrong with one."""

from pathlib import Path

import pytest

from tests.docs.page import read_page, run_page

PAGE = """# A page
```python
x = 1
```
```
not Python
```
<!--python
y = 2
-->
```python
print(x + y)
print("end")
```
<!-- prints -->
```text
3
end
```
<!-- not run: it waits for ever -->
```python
forever()
```
"""


def test_the_blocks_of_a_page_are_one_program_each_line_at_its_place(tmp_path: Path) -> None:
    page = read_page(PAGE)
    assert page.program.splitlines()[2] == "x = 1"
    assert page.program.splitlines()[8] == "y = 2"
    assert page.program.splitlines()[11] == "print(x + y)"
    assert "forever" not in page.program
    run_page(page, tmp_path, None)


def test_what_is_not_printed_in_that_order_fails(tmp_path: Path) -> None:
    page = read_page(PAGE.replace("3\nend\n", "end\n3\n"))
    with pytest.raises(AssertionError, match="not in this order: '3'"):
        run_page(page, tmp_path, None)


def test_a_program_that_fails_names_the_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r'page.py", line 3, in <module>'):
        run_page(read_page(PAGE.replace("x = 1", "1 / 0")), tmp_path, None)


def test_named_files_are_written_and_tests_among_them_run(tmp_path: Path) -> None:
    text = "```python\n# thing.py\none = 1\n```\n```python\n# test_thing.py\nfrom thing import one\n\n\n"
    run_page(read_page(f"{text}def test_it():\n    assert one == 1\n```\n"), tmp_path, None)
    with pytest.raises(AssertionError, match="1 failed"):
        run_page(read_page(f"{text}def test_it():\n    assert one == 2\n```\n"), tmp_path, None)


def test_a_page_gets_a_broker_of_its_own_when_it_names_one(tmp_path: Path) -> None:
    page = read_page("```python\nprint('localhost:9092')\n```\n")
    assert page.needs_broker
    run_page(page, tmp_path, "127.0.0.1:1")
    assert "127.0.0.1:1" in (tmp_path / "page.py").read_text()
