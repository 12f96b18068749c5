"""The pages that come with the package."""

import ast

import pytest

from jbm_kafka.cli.docs_command import page_names
from jbm_kafka.cli.main import main
from tests.house.sources import ROOT


def test_a_page_is_printed_and_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "runbook"]) == 0
    assert capsys.readouterr().out == (ROOT / "docs/runbook.md").read_text()
    assert main(["docs"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in page_names())
    assert main(["docs", "docs/runbook.md"]) == 0
    assert main(["docs", "runbok"]) == 2
    assert "there is no page 'runbok'; jbm-kafka docs lists them" in capsys.readouterr().err


def test_no_message_names_a_file_that_an_installed_package_has_not() -> None:
    """A message says `jbm-kafka docs runbook`, and that page is there."""
    named, wrong = set[str](), list[str]()
    for path in [*ROOT.glob("jbm_kafka/**/*.py"), *ROOT.glob("spark/*/**/*.py")]:
        tree = ast.parse(path.read_text())
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
                continue
            named |= {
                part.split()[0].strip(",:;.)'`") for part in node.value.split("jbm-kafka docs ")[1:] if part.strip()
            }
            if id(node) not in docstrings and "docs/" in node.value and ".md" in node.value:
                wrong.append(f"{path.relative_to(ROOT)}: {node.value!r}")
    assert wrong == []
    assert {"runbook", "security"} <= named
    assert named <= {*page_names(), "lists"}
