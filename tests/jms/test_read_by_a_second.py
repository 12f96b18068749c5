"""What a second reader of the API found: texts that led nowhere, and mistakes that were taken in silence. In memory."""

from __future__ import annotations

import dataclasses
import pydoc
import re
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

import jbm_kafka
from jbm_kafka import Connection, Context, MessageConsumer, MessageProducer, Session, admin
from jbm_kafka.admin import Admin
from jbm_kafka.testing.memory_world import MemoryWorld

RESULTS = [
    kind
    for module in (jbm_kafka, admin)
    for name in module.__all__
    if dataclasses.is_dataclass(kind := getattr(module, name)) and isinstance(kind, type)
]


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: str(kind.__name__))
def test_a_set_attribute_of_a_result_was_a_type_error_about_super(kind: type) -> None:
    for name in ("foo", dataclasses.fields(kind)[0].name):
        value: Any = object.__new__(kind)
        with pytest.raises(FrozenInstanceError, match="cannot be changed"):
            setattr(value, name, 1)
        with pytest.raises(FrozenInstanceError, match="cannot be changed"):
            delattr(value, name)


def test_counts_did_not_tell_what_people_call_the_size_of_a_queue() -> None:
    with MemoryWorld() as world, Admin(world.url) as looking:
        looking.create_queue("orders")
        counts = looking.counts("orders")
    for name in ("size", "depth", "message_count"):
        with pytest.raises(AttributeError, match=f"^a QueueCounts has no attribute '{name}'; 'held' is meant, probabl"):
            getattr(counts, name)


@pytest.mark.parametrize("kind", [Session, Connection, MessageProducer, MessageConsumer, Context, Admin])
def test_help_of_a_class_showed_the_inner_names_of_its_machinery(kind: type) -> None:
    told = pydoc.plain(pydoc.render_doc(kind))
    assert re.findall(r"__(?:copy|deepcopy|reduce|setattr|delattr|getattr)__ = .*", told) == []
    assert re.search(r"__reduce__\(self.*\n \| +Refuses to be pickled", told)
