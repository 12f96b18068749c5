"""Adds to the site (mkdocs.yml) README.md, CHANGELOG.md, the pages of public names and proofs, tables, and Mermaid."""

import inspect
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from jbm_kafka.cli.api_pages import API_PAGES, home, public_names
from jbm_kafka.cli.made_tables import with_tables
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
    for page, (title, modules) in API_PAGES.items():
        files.append(File.generated(config, f"{page}.md", content="\n".join([f"# {title}\n", *_names(modules)])))
    files.append(File.generated(config, "proofs.md", content=proofs.current_page()))
    if MERMAID.exists():
        files.append(File.generated(config, "mermaid.min.js", abs_src_path=str(MERMAID)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links out of docs/ become links to what the site has of it; the page of decisions gets a list of all."""
    markdown = with_tables(markdown)
    if page.file.src_uri == "decisions/README.md":
        markdown += "\n## All of them\n\n" + "".join(sorted(_decisions(), key=lambda line: int(line[3:].split(".")[0])))
    for source, name in PAGES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}")
    for page in API_PAGES:
        markdown = markdown.replace(f"`jbm-kafka docs {page}`", f"[`jbm-kafka docs {page}`]({page}.md)")
    return re.sub(r"\[([^\]]+)\]\(([\w-]+\.(?:txt|json))\)", r"\1 (`docs/\2`)", markdown)


def _names(modules: Sequence[str]) -> Iterator[str]:
    """Yield each module's docstring, and its names for mkdocstrings."""
    for module in modules:
        yield f"```text\n{inspect.getdoc(import_module(module))}\n```\n"
        yield from (f"::: {home(module, name)}\n" for name in public_names(module))


def _decisions() -> Iterator[str]:
    for chapter in sorted((ROOT / "docs" / "decisions").glob("[01]*.md")):
        for heading in re.findall(r"^## (\d+\..*)$", chapter.read_text(encoding="utf-8"), re.MULTILINE):
            yield f"- [{heading}]({chapter.name}#{github_anchor(heading, '-')})\n"
