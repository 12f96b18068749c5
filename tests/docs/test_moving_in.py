"""The file on docs/moving-in.md; its steps are walked in tests/bridge/test_amqp_ends.py."""

import re
from pathlib import Path

from jbm_kafka.bridge import Bridge, Guarantee

PAGE = Path(__file__).parents[2] / "docs" / "moving-in.md"


def test_the_file_of_the_page_has_the_two_bridges_that_the_steps_name(tmp_path: Path) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (block,) = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    file = tmp_path / "jbm-kafka.toml"
    file.write_text(block, encoding="utf-8")
    file.chmod(0o600)
    coming, going = (Bridge.from_config(name, file) for name in ("orders-in", "orders-back"))
    assert (coming.guarantee, going.guarantee) == (Guarantee.EXACTLY_ONCE, Guarantee.DUPLICATES_OKAY)
    assert coming._spec.source.address == going._spec.target.address == "/amq/queue/orders"
    assert coming._spec.source.place != going._spec.target.place
    assert text.count("`orders-in`") > 3
    assert text.count("`orders-back`") > 2
