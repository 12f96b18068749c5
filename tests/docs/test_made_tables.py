"""Tables of what the code has: made when a page is shown, and nowhere written."""

import re
import sys

import pytest

from jbm_kafka.admin.doctor.finding import Ailment
from jbm_kafka.cli.made_tables import TABLES, with_tables
from jbm_kafka.cli.main import main
from jbm_kafka.core.channel.states import TRANSITIONS
from jbm_kafka.core.settings.address_settings import SETTING_NAMES
from jbm_kafka.metrics.backlog_collector import SPECS
from jbm_kafka.metrics.collector import METRICS
from jbm_kafka.registry.access_rights import Role
from tests.docs.page_tables import rows
from tests.house.sources import ROOT


def test_each_table_has_its_place_on_the_page_that_is_named_there() -> None:
    places = {
        name: (page.stem, named)
        for page in (ROOT / "docs").glob("*.md")
        for name, named in re.findall(r"^\*Table of (.+): `jbm-kafka docs (.+)` prints", page.read_text(), re.MULTILINE)
    }
    assert places.keys() == TABLES.keys()
    assert [name for name, (page, named) in places.items() if page != named] == []


@pytest.mark.parametrize("name", TABLES)
def test_everything_in_a_table_is_told_in_words(name: str) -> None:
    found = rows(TABLES[name]())
    assert found or "mermaid" in TABLES[name]()
    if not name.startswith("rights"):
        assert [row for row in found if not row[0] or not max(row[1:], key=len)] == []


def test_a_printed_page_has_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", "security"]) == 0
    page = capsys.readouterr().out
    assert "prints it here" not in page
    worker = {row[0]: row[2] for row in rows(page) if len(row) == 7}
    assert worker["`jbm.events`"] == "Write, DescribeConfigs"
    assert f"| `{Role.SCHEDULES.value}` | Besides: a worker with [schedules](schedules.md)," in page


def test_tables_have_all_that_there_is() -> None:
    def first(name: str) -> list[str]:
        return [row[0].strip("`") for row in rows(TABLES[name]())]

    assert first("address settings") == list(SETTING_NAMES)
    assert first("findings") == [each.value for each in Ailment]
    assert first("metrics") == [each.exposed for each in METRICS]
    assert first("metrics of all queues") == [each.name for each in SPECS]
    assert first("records") == sorted(path.stem for path in (ROOT / "schemas").glob("*.avsc"))
    assert "`watermark`: An offset." in TABLES["records"]()
    assert {"core/channel/offer.py", "core/murmur2.py"} <= set(first("files of core"))
    assert len(first("transitions")) == len(TRANSITIONS)
    assert {"url", "prefetch", "store_age_max_ms"} <= set(first("arguments"))
    assert {row[0]: row[1] for row in rows(TABLES["address settings"]())}["`partitions`"] == "16"


def test_who_lacks_an_extra_reads_which(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in sys.modules if each.startswith("jbm_kafka.metrics")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    page = with_tables("before\n*Table of metrics: `jbm-kafka docs metrics` prints it here.*\nafter\n")
    assert page == "before\n*prometheus-client is not installed: pip install 'jbm-kafka[metrics]'*\nafter\n"


def test_a_table_that_there_is_not_is_a_mistake_of_the_page() -> None:
    with pytest.raises(KeyError, match="wishes"):
        with_tables("*Table of wishes: `jbm-kafka docs wishes` prints it here.*\n")
