"""Adds to the site (mkdocs.yml) README.md, CHANGELOG.md, the pages of Python names and proofs, and Mermaid."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import jbm_kafka
from tests.house import proofs

ROOT = Path(__file__).parent
PAGES = {"README.md": "first-message.md", "CHANGELOG.md": "changelog.md"}
"""Files beside docs/, by the names that they get on the site."""
MERMAID = ROOT / "build" / "mermaid" / "package" / "dist" / "mermaid.min.js"
"""`make docs` fetches it. Without it a browser asks another server for it."""


def github_anchor(heading: str, separator: str) -> str:
    """Of a heading, as GitHub makes it: links lead to the same place in a checkout and on the site."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def on_config(config: Any) -> Any:
    """The pages of docs/decisions, which the list of pages does not name one by one; and Mermaid."""
    contribute = next(part for part in config.nav if "Contribute" in part)["Contribute"]
    decisions = sorted(page.name for page in (ROOT / "docs" / "decisions").glob("*.md"))
    contribute[-1] = {"Decisions": [f"decisions/{name}" for name in sorted(decisions, key=lambda n: n != "README.md")]}
    if MERMAID.exists():
        config.extra_javascript.append("mermaid.min.js")
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Adds them."""
    for source, name in PAGES.items():
        text = re.sub(r"\]\((?:docs/|(?=\w+\.md))", "](", (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "python-names.md", content=_python_names()))
    files.append(File.generated(config, "proofs.md", content=proofs.current_page()))
    if MERMAID.exists():
        files.append(File.generated(config, "mermaid.min.js", abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Links out of docs/ become links to what the site has of it."""
    for source, name in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    return re.sub(r"\[([^\]]+)\]\(([\w-]+\.(?:txt|json))\)", r"\1 (`docs/\2`)", markdown)


def _python_names() -> str:
    names = [name for name in jbm_kafka.__all__ if isinstance(getattr(jbm_kafka, name), type)]
    places = [f"{getattr(jbm_kafka, name).__module__}.{name}" for name in names]
    rest = ["jbm_kafka.errors", "jbm_kafka.admin.Admin", "jbm_kafka.testing.memory_world.MemoryWorld"]
    return "# Classes and their calls\n\n" + "\n\n".join(f"::: {place}" for place in [*places, *rest]) + "\n"
