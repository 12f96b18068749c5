"""The runner of the pages finds what is wrong with one."""

from pathlib import Path

import pytest

from tests.docs.page import Commands, Program, read_page, run_page, unseen_names

PAGE = """# A page
```python
x = 1
```
```
not Python
```
```python
# continues the program above
print(x + 2)
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
HIDDEN = """# A page
<!--python
import math
-->
```python
print(math.pi)
```
"""


def test_a_block_that_continues_is_one_program_with_the_one_before_each_line_at_its_place(tmp_path: Path) -> None:
    [program] = read_page(PAGE).steps
    assert isinstance(program, Program)
    assert program.code.splitlines()[2] == "x = 1"
    assert program.code.splitlines()[9] == "print(x + 2)"
    assert "forever" not in program.code
    run_page(read_page(PAGE), tmp_path, None)


def test_a_block_that_does_not_say_that_it_continues_knows_nothing_of_the_one_before(tmp_path: Path) -> None:
    page = read_page(PAGE.replace("# continues the program above\n", ""))
    with pytest.raises(AssertionError, match="name 'x' is not defined"):
        run_page(page, tmp_path, None)


def test_code_that_a_reader_does_not_see_is_refused() -> None:
    with pytest.raises(ValueError, match="line 2 hides code from the reader"):
        read_page(HIDDEN)


def test_a_block_that_is_not_run_must_make_what_it_uses_too() -> None:
    [left_out] = read_page(PAGE).not_run
    assert "forever" in unseen_names(left_out)
    [elsewhere] = read_page(PAGE.replace("not run: it waits for ever", "run by tests/docs/test_page.py")).not_run
    assert elsewhere == left_out
    [continued] = read_page(PAGE.replace("forever()", "# continues the program above\nprint(x)")).not_run
    assert unseen_names(continued) == ""


def test_a_block_that_continues_nothing_is_found() -> None:
    with pytest.raises(ValueError, match="line 2 continues a program, and there is none above it"):
        read_page("```python\n# continues the program above\n```\n")


def test_what_is_not_printed_in_that_order_fails(tmp_path: Path) -> None:
    swapped = PAGE.replace("3\nend\n", "end\n3\n")
    with pytest.raises(AssertionError, match="not in this order: '3'"):
        run_page(read_page(swapped), tmp_path, None)
    run_page(read_page(swapped.replace("<!-- prints -->", "<!-- prints in some order -->")), tmp_path, None)
    missing = PAGE.replace("3\nend\n", "4\n").replace("<!-- prints -->", "<!-- prints in some order -->")
    with pytest.raises(AssertionError, match="not printed: '4'"):
        run_page(read_page(missing), tmp_path, None)


def test_a_program_that_fails_names_the_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r'page.py", line 3, in <module>'):
        run_page(read_page(PAGE.replace("x = 1", "1 / 0")), tmp_path, None)


def test_programs_files_and_commands_take_their_turns_as_on_the_page(tmp_path: Path) -> None:
    text = (
        "```python\n# thing.py\none = 1\n```\n```sh\necho before\n```\n"
        "```python\nfrom thing import one\n\nprint(one)\n```\n```sh\necho after\n```\n"
        "<!-- prints -->\n```text\nbefore\n1\nafter\n```\n"
    )
    run_page(read_page(text), tmp_path, None)


def test_a_command_is_told_to_stop_when_it_has_printed_the_line(tmp_path: Path) -> None:
    worker = (
        "# worker.py\nimport signal\nimport sys\n\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('stopped')))\nprint('at work')\nsignal.pause()\n"
    )
    text = f"```python\n{worker}```\n<!-- SIGTERM after: at work -->\n```sh\npython worker.py\n```\n"
    page = read_page(f"{text}<!-- prints -->\n```text\nat work\nstopped\n```\n")
    assert page.steps[-1] == Commands("python worker.py\n", "at work")
    run_page(page, tmp_path, None)


def test_a_command_that_a_signal_kills_fails(tmp_path: Path) -> None:
    text = "```python\n# worker.py\nimport signal\n\nprint('at work')\nsignal.pause()\n```\n"
    page = read_page(f"{text}<!-- SIGTERM after: at work -->\n```sh\npython worker.py\n```\n")
    with pytest.raises(AssertionError, match="ended with -15"):
        run_page(page, tmp_path, None)


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
