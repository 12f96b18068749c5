"""Programs that share a process know nothing of each other."""

import os
from pathlib import Path

import pytest

from tests.docs.one_after_another import OneAfterAnother


def test_each_is_a_program_of_its_own_and_what_it_prints_is_its_own(tmp_path: Path) -> None:
    first, second = tmp_path / "first.py", tmp_path / "second.py"
    first.write_text("x = 1\nprint('one')\nprint(__name__)")
    second.write_text("print('x' in globals())")
    with OneAfterAnother(tmp_path, os.environ, 30) as programs:
        assert programs.run(first) == "one\n__main__\n"
        assert programs.run(second) == "False\n"


def test_one_that_fails_names_its_line(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text("print('before')\n1 / 0\n")
    with (
        pytest.raises(AssertionError, match=r'(?s)ended with 1:\nbefore\n.*page.py", line 2, in <module>'),
        OneAfterAnother(tmp_path, os.environ, 30) as programs,
    ):
        programs.run(path)


def test_a_warning_is_an_error_as_in_a_program_alone(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text("import warnings\nwarnings.warn('old')\n")
    with pytest.raises(AssertionError, match="UserWarning: old"), OneAfterAnother(tmp_path, os.environ, 30) as programs:
        programs.run(path)


def test_one_that_never_ends_is_stopped(tmp_path: Path) -> None:
    path = tmp_path / "page.py"
    path.write_text("import threading\nthreading.Event().wait()\n")
    with pytest.raises(AssertionError, match="ended with -9"), OneAfterAnother(tmp_path, os.environ, 0.5) as programs:
        programs.run(path)
