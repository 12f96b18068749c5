"""Which queue is meant by a misspelt name; and that no other is offered."""

import pytest

from jbm_kafka.admin.cluster.catalog import likely_destination

NAMES = ["DLQ", "ExpiryQueue", "furniture-orders", "orders", "orders.eu", "r-b5e17", "prices"]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("order", "orders"),
        ("ordres", "orders"),
        ("oders", "orders"),
        ("rders", "orders"),
        ("Orders", "orders"),
        ("orderss", "orders"),
        ("orders-eu", "orders.eu"),
        ("orders.europe", "orders.eu"),
        ("furnitureorders", "furniture-orders"),
        ("furniture-order-list", "furniture-orders"),
        ("pirces", "prices"),
        ("DQL", None),  # half of its letters, as of any three
        ("DLQs", "DLQ"),
        ("ExpiryQ", "ExpiryQueue"),
        ("expiryqueue", "ExpiryQueue"),
        ("r-b5e71", "r-b5e17"),
    ],
)
def test_a_misspelt_name_finds_the_one_that_is_meant(written: str, meant: str | None) -> None:
    assert likely_destination(written, NAMES) == meant


@pytest.mark.parametrize("written", ["never-b5e17", "borders.us", "my-own-orders", "advices", "zzz"])
def test_what_only_ends_alike_is_not_offered(written: str) -> None:
    """`r-b5e17` was, for never-b5e17."""
    assert likely_destination(written, NAMES) is None
