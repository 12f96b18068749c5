"""What `jbm-kafka run MODULE:NAME` loads."""

from pathlib import Path

import pytest

from jbm_kafka.cli.main import main

SILENT = """
class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")

raise Silent
"""


@pytest.mark.parametrize(
    ("name", "source", "says"),
    [
        ("leaves", "import sys; sys.exit(0)", "SystemExit: 0"),
        ("leaves_well", "import sys; sys.exit()", "SystemExit"),
        ("fails", "1 / 0", "ZeroDivisionError: division by zero"),
        ("fails_silently", SILENT, "Silent"),
    ],
)
def test_a_module_that_ends_when_it_is_imported_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    name: str,
    source: str,
    says: str,
) -> None:
    """One that calls sys.exit(0) ended a command that ran nothing, with exit code 0."""
    (tmp_path / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert main(["run", f"{name}:worker", "--bootstrap", "localhost:9"]) == 1
    [line] = capfd.readouterr().err.splitlines()
    assert line == f"jbm-kafka: '{name}:worker': module '{name}' cannot be imported: {says}"
