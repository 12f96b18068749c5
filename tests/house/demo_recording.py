"""`python -m tests.house.demo_recording`: runs `jbm-kafka demo`, and writes what it prints to docs/demo.svg."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

from tests.house.sources import ROOT

PICTURE = ROOT / "docs" / "demo.svg"
COLUMNS = 100
_ERASED = re.compile(r"[^\n]*\r(?!\n)|\x1b\[[0-9]*[AKJ]")
"""Lines that a progress display has written over."""
_FONTS = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def main() -> None:
    """With a real broker, real workers and a real kill."""
    command = [str(Path(sys.executable).parent / "jbm-kafka"), "demo"]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    console = Console(record=True, width=COLUMNS, file=io.StringIO())
    console.print(Text.from_ansi(f"$ jbm-kafka demo\n{_ERASED.sub('', done.stdout)}"))
    picture = _FONTS.sub("", console.export_svg(title="jbm-kafka demo"))  # readers have one, and ask nobody for it
    PICTURE.write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
