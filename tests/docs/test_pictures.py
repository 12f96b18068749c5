"""The pictures of the pages are drawn by Mermaid, in a browser, without an error."""

import html
import os
import re
from pathlib import Path

import pytest

from mkdocs_hooks import MERMAID
from tests.house.sources import ROOT
from tests.support.browser import browse, find_browser

PICTURES = {
    f"{page.relative_to(ROOT)} {number}": picture
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for number, picture in enumerate(re.findall(r"^```mermaid\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE))
}


@pytest.mark.thorough
def test_each_picture_is_drawn(tmp_path: Path) -> None:
    assert len(PICTURES) >= 5
    if not MERMAID.exists() and not os.environ.get("CI"):
        pytest.skip("there is no Mermaid: `make docs` fetches it where there is npm")
    drawn = browse_pictures(tmp_path, list(PICTURES.values()))
    assert [name for name, svg in zip(PICTURES, drawn, strict=True) if not svg.startswith("<svg")] == []
    [broken] = browse_pictures(tmp_path, ["flowchart LR\n  a ->>> ["])
    assert not broken.startswith("<svg")


def browse_pictures(folder: Path, pictures: list[str]) -> list[str]:
    """What became of each: an SVG, or the error."""
    page = folder / "pictures.html"
    boxes = "".join(f"<pre>{html.escape(picture)}</pre>" for picture in pictures)
    script = """
        mermaid.initialize({startOnLoad: false});
        (async () => {
          for (const [number, box] of document.querySelectorAll("pre").entries()) {
            try { box.innerHTML = (await mermaid.render("p" + number, box.textContent)).svg; }
            catch (error) { box.textContent = "error: " + error; }
            box.className = "done";
          }
        })();"""
    page.write_text(f"<body>{boxes}<script src='{MERMAID.as_uri()}'></script><script>{script}</script></body>")
    dump = browse(find_browser(), page, folder, "--virtual-time-budget=20000", "--dump-dom").decode()
    return re.findall(r'<pre class="done">(.*?)</pre>', dump, re.DOTALL)
