"""Runs the code of a page of the documentation, as a reader would who copies it into an empty folder.

    ```python                      a program of its own: what it needs it imports and makes itself
    # continues the program above  as its first line: it goes on where the last program on the page ended
    # test_orders.py               as its first line: it is that file; test files are run by pytest at the end
    ```sh                          commands
    ```text after <!-- prints -->  the output so far goes on with these lines, in this order, others between them
    ```text after <!-- prints in some order -->   these lines are in the output of the page

All in the order of the page. Before a ```sh of one command may stand `<!-- SIGTERM after: LINE -->`: it is told to
stop when it has printed that line, and has to end with 0. A block after `<!-- not run: why -->` is left out, and so is
one after `<!-- run by TEST -->`, which that test runs; what they use must be made where a reader sees it, too. No code
is hidden from a reader: a comment that begins with `<!--python` is refused. `localhost:9092` is a broker of the page's
own, started when the page names it, as a PostgreSQL is for a page that names `postgresql://localhost/shop`.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from signal import SIGTERM
from threading import Timer

from tests.docs.one_after_another import OneAfterAnother
from tests.support.postgres import postgres_server

BROKER = "localhost:9092"
DATABASE = "postgresql://localhost/shop"
TIMEOUT_S = 400.0
BRIEF_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""For the Sparks and tools of pages, which end before code that was compiled twice would have gained anything."""
OUR_PLUGIN = ("-p", "no:jbm_kafka", "-p", "jbm_kafka.testing.pytest_plugin")
"""By its module, for the entry point exists only after the package was installed with it."""

_BLOCK = re.compile(
    r"^(?:<!-- (?P<mark>(?:not run:|run by) [^\n]+|prints(?: in some order)?|SIGTERM after: (?P<stop>[^\n]+)) -->\n)?"
    r"```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
_HIDDEN = re.compile(r"^<!--\s*(?:python|sh)\b", re.MULTILINE)
_FILE = re.compile(r"# (\w+\.py)\n")
_CONTINUES = re.compile(r"# continues \w.*\n")
_COMMAND = "jbm-kafka"
_SPARK = "build_session("


@dataclass(slots=True)
class Program:
    """One or more blocks that run as one; each line stands at its place in the page, which a traceback then names."""

    code: str = ""

    def add(self, text: str, line: int) -> None:
        """More of it, which begins at that line of the page, counted from 0."""
        self.code += "\n" * (line - self.code.count("\n")) + text


@dataclass(frozen=True, slots=True)
class File:
    """To be written into the folder."""

    name: str
    code: str


@dataclass(frozen=True, slots=True)
class Commands:
    """Of a shell; with `stop_after` it is one, which is told to stop when it has printed that line."""

    code: str
    stop_after: str | None = None


@dataclass(slots=True)
class Page:
    """What a page says that can be run."""

    steps: list[Program | File | Commands] = field(default_factory=list)
    not_run: list[Program] = field(default_factory=list)
    """Blocks that are left out, behind what they continue."""
    prints: list[str] = field(default_factory=list)
    prints_somewhere: list[str] = field(default_factory=list)

    @property
    def needs_broker(self) -> bool:
        """It names the address of one, or runs a command that finds it."""
        return any(BROKER in step.code or (isinstance(step, Commands) and _COMMAND in step.code) for step in self.steps)


def read_page(text: str) -> Page:
    """The blocks of a page; text after the last one is not looked at.

    Raises:
        ValueError: a block continues a program, and there is none above it; or code stands in a comment.
    """
    if (hidden := _HIDDEN.search(text)) is not None:
        raise ValueError(f"line {_line(text, hidden.start()) + 1} hides code from the reader: show it")
    page, seen = Page(), Program()
    for found in _BLOCK.finditer(text):
        mark, code, language = found["mark"] or "", found["code"], found["language"]
        is_left_out = mark.startswith(("not run", "run by"))
        if mark.startswith("prints"):
            lines = page.prints_somewhere if "order" in mark else page.prints
            lines += [line for line in code.splitlines() if line.strip()]
        elif language == "sh" and not is_left_out:
            page.steps.append(Commands(code, found["stop"]))
        elif language == "python" and (name := _FILE.match(code)) is not None and not is_left_out:
            page.steps.append(File(name[1], code))
        elif language == "python":
            line = _line(text, found.start("code"))
            if is_left_out:
                before = seen.code if _CONTINUES.match(code) else ""
                page.not_run.append(Program(before))
                page.not_run[-1].add(code, line)
                continue
            if not _CONTINUES.match(code):
                seen = Program()
                page.steps.append(seen)
            elif not seen.code:
                raise ValueError(f"line {line + 1} continues a program, and there is none above it")
            seen.add(code, line)
    return page


def run_page(page: Page, folder: Path, bootstrap: str | None) -> None:
    """Run it in the folder; `bootstrap` is the broker's `host:port`, if it needs one.

    Raises:
        AssertionError: a program failed, or did not print what the page says; with its output.
    """
    here = bootstrap or BROKER
    with ExitStack() as stack:
        if any(DATABASE in step.code for step in page.steps):
            url = stack.enter_context(postgres_server()).url
            page = replace(page, steps=[replace(step, code=step.code.replace(DATABASE, url)) for step in page.steps])
        _run_all(page, folder, here)


def _run_all(page: Page, folder: Path, here: str) -> None:
    with OneAfterAnother(folder, _environment(here, folder), TIMEOUT_S) as with_spark:
        output, tests = _run_steps(page, folder, here, with_spark)
    lines = iter(output.splitlines())
    for line in page.prints:
        assert line in lines, f"not printed, or not in this order: {line!r}\n{output}"
    for line in page.prints_somewhere:
        assert line in output, f"not printed: {line!r}\n{output}"  # of two threads two may share a line
    if tests:
        _run([sys.executable, "-m", "pytest", "-q"], folder, here)


def _run_steps(page: Page, folder: Path, here: str, with_spark: OneAfterAnother) -> tuple[str, bool]:
    """What was printed, and whether there are test files now; programs that start Spark share a process."""
    output, tests = "", False
    for step in page.steps:
        code = step.code.replace(BROKER, here)
        match step:
            case File(name):
                (folder / name).write_text(code)
                tests |= name.startswith("test_")
            case Program():
                path = folder / "page.py"
                path.write_text(code)
                if _SPARK in code:
                    output += with_spark.run(path)
                else:
                    output += _run([sys.executable, "-W", "error", path.name], folder, here)
            case Commands(stop_after=None):
                output += _run(["bash", "-euxo", "pipefail", "-c", code], folder, here)
            case Commands(stop_after=str(line)):
                output += _run_and_stop(shlex.split(code), line, folder, here)
    return output, tests


def unseen_names(program: Program | File) -> str:
    """What a linter says of names that the program uses and makes nowhere; empty when it makes all of them."""
    command = [str(Path(sys.executable).parent / "ruff"), "check", "--isolated", "-q", "--output-format", "concise"]
    command += ["--select", "F821", "-"]
    done = subprocess.run(command, input=program.code, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def pages_with_python(root: Path) -> Iterator[str]:
    """The pages that show any Python, as paths from the root."""
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")]):
        if "```python" in path.read_text():
            yield path.relative_to(root).as_posix()


def _line(text: str, position: int) -> int:
    return text[:position].count("\n")


def _environment(bootstrap: str, folder: Path) -> dict[str, str]:
    imports = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in imports if path),
        "PYTHONUNBUFFERED": "1",
        "JAVA_TOOL_OPTIONS": BRIEF_JAVA,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "JBM_BOOTSTRAP": bootstrap,
        "XDG_STATE_HOME": str(folder / "state"),
        "JBM_TEST_BROKER": bootstrap,
        "PYTEST_ADDOPTS": " ".join(["-p", "no:cacheprovider", "--rootdir=.", *OUR_PLUGIN]),
    }


def _run(command: list[str], folder: Path, bootstrap: str) -> str:
    done = subprocess.run(
        command,
        check=False,
        cwd=folder,
        env=_environment(bootstrap, folder),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{command[-1]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _run_and_stop(command: list[str], last: str, folder: Path, bootstrap: str) -> str:
    """Its output, told to stop when it has printed the line."""
    with (
        (folder / "errors.txt").open("w+") as errors,
        subprocess.Popen(
            command, cwd=folder, env=_environment(bootstrap, folder), stdout=subprocess.PIPE, stderr=errors, text=True
        ) as process,
    ):
        timer = Timer(TIMEOUT_S, process.kill)
        timer.start()
        lines: list[str] = []
        for line in process.stdout or ():
            lines.append(line)
            if line.rstrip("\n") == last:
                process.send_signal(SIGTERM)
        code = process.wait()
        timer.cancel()
        errors.seek(0)
        assert code == 0, f"{command} ended with {code}:\n{''.join(lines)}\n{errors.read()}"
    return "".join(lines)
