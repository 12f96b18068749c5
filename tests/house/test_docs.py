"""The page of proofs is made of promises and tests."""

from tests.house import proofs


def test_a_page_of_proofs_has_promises_tests_and_open_parts_and_no_lines_of_code() -> None:
    semantics = "## 1. Units\n| id | promise |\n| --- | --- |\n| UNIT-4 | A delay holds. More. |\n| UNIT-5 | Later. |\n"
    one = "def test_b(): 'UNIT-4: all.'\ndef test_a(): 'UNIT-4: all.'\ndef test_c(): 'Of UNIT-4.'\n"
    other = "\n\n\ndef test_c(): 'Of UNIT-4.'\ndef test_a(): 'UNIT-4: all.'\ndef test_b(): 'UNIT-4: all.'\n"
    page = proofs.page(semantics, "UNIT-5  all of it\n", {"tests/jms/test_x.py": one})
    assert page == proofs.page(semantics, "UNIT-5  all of it\n", {"tests/jms/test_x.py": other})
    assert page.split("| --- | --- |\n")[1].split("\n\n")[0].splitlines() == [
        "| **UNIT-4** | A delay holds |",
        "| | `jms/test_x.py`: a, b |",
        "| | *in part* `jms/test_x.py`: c |",
        "| **UNIT-5** | Later |",
        "| | *open*: all of it |",
    ]
