"""Runs the Python of a page of the documentation, as a reader would.

    ```python                      all such blocks of a page are one program, run in order in an empty folder
    # test_orders.py               a block that begins with a file's name is that file; test files are run by pytest
    ```sh                          commands, run in order when the program has ended
    ```text after <!-- prints -->  the output of the program and the commands has these lines, in order

What a reader need not see stands in a comment that begins with `<!--python`. A block after `<!-- not run: why -->` is
left out. `localhost:9092` is a broker of the page's own, started when the page names it.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

BROKER = "localhost:9092"
TIMEOUT_S = 120.0
OUR_PLUGIN = ("-p", "no:jbm_kafka", "-p", "jbm_kafka.testing.pytest_plugin")
"""By its module, for the entry point exists only after the package was installed with it."""

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>not run: [^\n]+|prints) -->\n)?```(?P<language>\w*)\n(?P<code>.*?)^```$"
    r"|^<!--python\n(?P<hidden>.*?)^-->$",
    re.DOTALL | re.MULTILINE,
)
_FILE = re.compile(r"# (\w+\.py)\n")
_COMMAND = "jbm-kafka"


@dataclass(slots=True)
class Page:
    """What a page says that can be run."""

    program: str = ""
    """Each line stands at its place in the page, so that a traceback names the page's line."""
    files: dict[str, str] = field(default_factory=dict)
    commands: str = ""
    prints: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        """Nothing of it can be run."""
        return not self.program.strip() and not self.files and not self.commands

    @property
    def needs_broker(self) -> bool:
        """It names the address of one."""
        code = [self.program, self.commands, *self.files.values()]
        return _COMMAND in self.commands or any(BROKER in each for each in code)


def read_page(text: str) -> Page:
    """The blocks of a page; text after the last one is not looked at."""
    page = Page()
    for found in _BLOCK.finditer(text):
        mark, code = found["mark"] or "", found["hidden"] or found["code"]
        if mark == "prints":
            page.prints += [line for line in code.splitlines() if line.strip()]
        if not mark and found["language"] == "sh":
            page.commands += code
        if mark or (found["hidden"] is None and found["language"] != "python"):
            continue
        name = _FILE.match(code)
        if name is not None:
            page.files[name[1]] = code
        else:
            begin = text[: found.start("code" if found["hidden"] is None else "hidden")].count("\n")
            page.program += "\n" * (begin - page.program.count("\n")) + code
    return page


def run_page(page: Page, folder: Path, bootstrap: str | None) -> None:
    """Run it in the folder; `bootstrap` is the broker's `host:port`, if it needs one.

    Raises:
        AssertionError: a program failed, or did not print what the page says; with its output.
    """
    here = bootstrap or BROKER
    for name, code in page.files.items():
        (folder / name).write_text(code.replace(BROKER, here))
    output = ""
    if page.program.strip():
        (folder / "page.py").write_text(page.program.replace(BROKER, here))
        output += _run([sys.executable, "-W", "error", "page.py"], folder, here)
    if page.commands:
        output += _run(["bash", "-euxo", "pipefail", "-c", page.commands.replace(BROKER, here)], folder, here)
    lines = iter(output.splitlines())
    for line in page.prints:
        assert line in lines, f"not printed, or not in this order: {line!r}\n{output}"
    if any(name.startswith("test_") for name in page.files):
        _run([sys.executable, "-m", "pytest", "-q"], folder, here)


def pages_with_python(root: Path) -> Iterator[str]:
    """The pages that show any Python, as paths from the root."""
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        if "```python" in path.read_text():
            yield path.relative_to(root).as_posix()


def _run(command: list[str], folder: Path, bootstrap: str) -> str:
    imports = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in imports if path),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JBM_BOOTSTRAP": bootstrap,
        "JBM_TEST_BROKER": bootstrap,
        "PYTEST_ADDOPTS": " ".join(["-p", "no:cacheprovider", "--rootdir=.", *OUR_PLUGIN]),
    }
    done = subprocess.run(
        command, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, f"{command[-1]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
