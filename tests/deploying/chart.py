"""The chart of docker/chart as helm renders it; `python -m tests.deploying.chart` writes rendered.yaml anew.

Not every machine has helm. Where there is none, tests look at rendered.yaml; its first line tells that it is of this
very chart.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.house.sources import ROOT

CHART = ROOT / "docker" / "chart"
HERE = Path(__file__).parent
VALUES = HERE / "chart-values.yaml"
RENDERED = HERE / "rendered.yaml"
BUILT = ROOT / "build" / "helm" / "helm"
"""`make helm` builds it."""
KUBERNETES = "1.30"


def helm() -> str | None:
    """Returns the program, of the machine or of `make helm`."""
    return shutil.which("helm") or (str(BUILT) if BUILT.exists() else None)


def render(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Returns what `helm template` prints of the chart, with more words of its command."""
    command = [program, "template", "shop", str(CHART), "--kube-version", f"{KUBERNETES}.0", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def first_line() -> str:
    """Returns the line that changes with every change of the chart or of the values."""
    files = sorted(path for path in [*CHART.rglob("*"), VALUES] if path.is_file())
    told = hashlib.sha256()
    for path in files:
        told.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"# python -m tests.deploying.chart, of files with the sum {told.hexdigest()}\n"


def main() -> None:
    """Writes rendered.yaml.

    Raises:
        SystemExit: there is no helm, or the chart is wrong.
    """
    program = helm()
    if program is None:
        raise SystemExit("there is no helm: `make helm` builds it where there is Go")
    done = render(program, "--values", str(VALUES))
    if done.returncode:
        raise SystemExit(done.stderr)
    RENDERED.write_text(first_line() + done.stdout, encoding="utf-8")


if __name__ == "__main__":
    main()
