"""What users annotate is checked by what the installed package says of itself (py.typed)."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("typed_program.py").read_text()
MISUSES = """
def misuse(session: Session, context: Context, message: Message) -> None:
    session.create_consumer("orders")
    session.create_producer(Queue("orders")).send(5)
    session.create_producer().send("a", priorty=3)
    context.create_producer().send("orders", "a")
    context.create_producer().send(Queue("orders"), "a", priority="high")
    context.create_producer().priorty = 3
    message.proprties
    BytesMessage().write_int("5")
    StreamMessage().write_object([1])
    MapMessage({"a": [1]})
    ObjectMessage(5, codec=5)
    register_object_codec("x", encode=str, decode=Parcel.from_bytes)
    message.get_body("str")
    session.create_browser(Queue("orders"), include="some")
    session.create_browser(Topic("news"))
    Admin("memory://typed").browse("orders", include="every")
    Admin("memory://typed").pause("orders", "sends")
    context.exception_listener = len
    errors.UnknownMessageError("gone").mesage_id
"""


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("mypy")


def mypy(program: str, folder: Path, cache: Path) -> list[str]:
    """What `mypy --strict` says of a program in a folder of its own, without our settings."""
    (folder / "program.py").write_text(program)
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={cache}", "program.py"]
    told = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return told.stdout.splitlines()


def test_an_annotated_program_is_clean(tmp_path: Path, mypy_cache: Path) -> None:
    assert mypy(PROGRAM, tmp_path, mypy_cache) == ["Success: no issues found in 1 source file"]


def test_a_type_checker_finds_every_misuse(tmp_path: Path, mypy_cache: Path) -> None:
    program = PROGRAM + MISUSES
    first = PROGRAM.count("\n") + 3
    wrong = {int(line.split(":")[1]) for line in mypy(program, tmp_path, mypy_cache) if ": error:" in line}
    assert wrong == set(range(first, first + MISUSES.count("\n") - 2))
