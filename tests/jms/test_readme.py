"""The README's example does what it says, from its own text."""

import re
import uuid
from pathlib import Path

import pytest

from jbm_kafka import ConnectionFactory
from tests.jms.conftest import RUN

README = Path(__file__).parents[2] / "README.md"


def test_the_readme_example_runs(bootstrap: str, warm: ConnectionFactory, capsys: pytest.CaptureFixture[str]) -> None:
    [example] = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert example.count("\n") <= 26
    name = f"{RUN}-{uuid.uuid4().hex[:8]}"
    text = example.replace("localhost:9092", bootstrap).replace('"shop"', f'"{name}"')
    # A namespace of its own, so that its address settings are those of its own sidecar.
    text = text.replace("    address_settings", f'    namespace="{RUN}-readme",\n    address_settings')
    exec(compile(text, str(README), "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == [
        "order 1 attempt 1",
        "change 1 attempt 1",
        "rubbish attempt 1",
        "rubbish attempt 2",
        "rubbish attempt 3",
        "order 2 attempt 1",
    ]
    assert lines[-1].startswith("given up: [")
    assert "'rubbish'" in lines[-1]
