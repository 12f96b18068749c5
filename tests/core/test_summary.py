"""One line of a value with many parts."""

from jbm_kafka.core.sentinels import NO_UNIT
from jbm_kafka.core.summary import LINE_MAX, summary, with_lines


def test_what_is_not_so_is_left_out_and_collections_are_counted() -> None:
    shown = summary(object(), "orders", held=0, kept=[1, 2], unit=None, selector="", is_idle=False, to=NO_UNIT)
    assert shown == "<object orders held=0 kept=2 to=NO_UNIT>"


def test_a_long_text_is_cut_only_as_far_as_the_line_needs() -> None:
    assert summary(1, "orders", why="x" * 70) == f"<int orders why='{'x' * 70}'>"
    assert summary(1, "orders", why="x" * 90) == f"<int orders why='{'x' * 79}…'>"
    many = summary(1, "a name\nof two lines", **{f"part_{number}": "y" * 90 for number in range(5)})
    assert many.startswith("<int a name of two l… part_0='yyyyyyyyyyyyyyy…'")
    assert len(many) <= LINE_MAX


def test_a_line_with_very_many_parts_is_longer_than_a_glance() -> None:
    shown = summary(1, "orders", **{f"part_{number}": "y" * 90 for number in range(20)})
    assert len(shown) > LINE_MAX
    assert shown.count("…") == 20


def test_lines_stand_below_each_in_one_line() -> None:
    assert with_lines("<A orders>", []) == "<A orders>"
    assert with_lines("<A orders>", ["first", "two\nlines"]) == "<A orders>\n  first\n  two lines"
