"""The bookstore's pipeline plays its day, and a browser shows the page that it ends on."""

from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from matplotlib.image import imread
from pyspark.sql import SparkSession

from bookstore.sales_page import page
from bookstore.stages import Stages
from bookstore.store_queues import Store, take_down
from bookstore.whole_day import admin_of, play
from jbm_kafka.cli.cluster_settings import Cluster
from tests.support.browser import browse, find_browser
from tests.support.waiting import wait_until

pytestmark = pytest.mark.thorough

TITLES = ("1f77b4", "ff7f0e", "2ca02c", "d62728")
"""The colours of the bars of four titles."""


@pytest.mark.timeout(1200)
def test_a_day_of_the_bookstore_ends_on_a_page_that_a_browser_shows(
    spark: SparkSession, bootstrap: str, kafka_name: str, tmp_path: Path
) -> None:
    """Turnover, archive and audit are checked by `play`; the browser parses what it has written."""
    browser, cluster, store = find_browser(), Cluster(bootstrap), Store(kafka_name)
    told: list[str] = []
    try:
        day = play(spark, cluster, store, tmp_path, count=200, per_second=50, tell=told.append)
    finally:
        with admin_of(cluster) as admin:
            take_down(admin, store)
            assert not [each for each in admin.readers() if each.topic.startswith(kafka_name)]
    assert [line.partition("(")[2].partition(")")[0] for line in told if "exit code" in line] == [
        "exit code 0", "exit code 0", "exit code 3",
    ]  # fmt: skip
    html = tmp_path / "day.html"
    html.write_text(page(day, at="<now>"), encoding="utf-8")
    seen = Seen()
    seen.feed(browse(browser, html, tmp_path, "--dump-dom").decode())
    titles = {"Learning the <b>Tags</b>", "Mathematics for $5 and $10", "Salt, Ink & Silver"}
    assert {*titles, "<now>", "Nothing found", "dead letter twice"} <= seen.texts
    assert seen.tags["svg"] == 3
    assert not {"b", "script", "now", "link", "img"} & seen.tags.keys(), "what comes from data is text"
    picture = tmp_path / "day.png"
    browse(browser, html, tmp_path, f"--screenshot={picture}", "--window-size=1200,1600")
    pixels = (imread(picture)[:, :, :3] * 255).round().astype(int).reshape(-1, 3)
    for colour in TITLES:
        is_bar = (pixels == list(bytes.fromhex(colour))).all(axis=1)
        assert is_bar.sum() > 500, f"no bar is #{colour}"


def test_a_stage_that_goes_on_is_told_again() -> None:
    """It was silent for minutes."""
    lines: list[str] = []
    with Stages(lines.append, again_s=0.05) as stages:
        stages.tell("Spark starts")
        wait_until(lambda: len(lines) >= 3, about="two more lines", timeout_s=10)
        stages.tell("orders come in")
    assert lines[0] == "Spark starts"
    assert lines[-1] == "orders come in"
    assert {*lines[1:-1]} == {"  Spark starts: 0 s"}


class Seen(HTMLParser):
    """Counts the elements of a page, and keeps its texts."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.texts: set[str] = set()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags[tag] += 1

    def handle_data(self, data: str) -> None:
        self.texts.add(data.strip())
