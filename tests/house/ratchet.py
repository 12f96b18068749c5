"""The rules of the house that the tree does not keep everywhere yet: `python -m tests.house.ratchet`, in `make check`.

What breaks them today is listed below. The lists may only get shorter: what is new is refused, and so is a name that
stands here and breaks nothing any more.
"""

import re
import sys
from collections.abc import Collection, Iterable, Mapping

from tests.house import circles, proofs, rules
from tests.house.sources import PRODUCT, TESTS, python_files, relative

ATTRIBUTES_MAX = 12

MODULE_CIRCLES: list[str] = []
"""Modules that import each other in circles: each line one circle of one folder."""

FOLDER_CIRCLES: list[str] = []
"""Folders that import each other in circles: each line one circle."""

LARGE_CLASSES = ""
"""Classes with more attributes than a class should have, inherited ones counted: their names, with spaces between."""

SETTINGS = {
    "AddressSettings": "an attribute for each setting of an address",
    "BytesMessage": "the headers of a message, and where reading it has come to",
    "Message": "the headers of JMS, one field each, and what is read-only",
    "MessageCore": "the headers of JMS, one field each",
    "MapMessage": "the accessors of JMS, two for each type",
    "ObjectMessage": "those of a message; none of its own",
    "Plan": "an attribute for each option of `bench`",
    "ResolvedSettings": "an attribute for each setting of an address",
    "SidecarConfig": "an attribute for each setting of a connection",
    "StreamMessage": "the accessors of JMS, two for each type",
    "TextMessage": "those of a message; none of its own",
}
"""Classes that may have as many attributes as there is to say, with the reason."""

REPEATED_BASENAMES = {
    "errors.py": "`jbm_kafka.errors` and `jbm_spark.errors`: where users of each package look",
    "session.py": "`jbm_spark.session` is public; `jms/session.py` is where JMS's sessions are",
}
"""File names that may stand in several folders, with the reason."""


def complaints() -> list[str]:
    """What is wrong, a line each."""
    texts = {relative(path): path.read_text() for path in python_files(*PRODUCT)}
    tests = {relative(path): path.read_text() for path in python_files(*TESTS)}
    graph = circles.module_graph({_module(name): text for name, text in texts.items()})
    with_tests = circles.module_graph({_module(name): text for name, text in {**texts, **tests}.items()})
    folders = circles.folder_graph(graph, "jbm_kafka")
    return [
        *circles.complaints("modules", circles.circles(with_tests), [_circle(line) for line in MODULE_CIRCLES]),
        *circles.complaints("folders", circles.circles(folders), [frozenset(line.split()) for line in FOLDER_CIRCLES]),
        *_large_classes(texts.values()),
        *_repeated_basenames(texts),
    ]


def exceeding(what: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Names with what is wrong with them that the list does not allow, and those listed that nothing is wrong with."""
    new = [f"{name}: {wrong}" for name, wrong in sorted(what.items()) if name not in known]
    return new + [f"{name}: keeps the rule now; take it off the list" for name in sorted(set(known) - what.keys())]


def _large_classes(texts: Iterable[str]) -> list[str]:
    found: dict[str, set[str]] = {}
    texts = list(texts)
    for _ in range(3):  # a class, its base and the base of that stand in any order
        for text in texts:
            found.update(rules.attributes(text, found))
    large = {
        name: f"{len(names)} attributes; at most {ATTRIBUTES_MAX}, so find the second class in it"
        for name, names in found.items()
        if len(names) > ATTRIBUTES_MAX and name not in SETTINGS
    }
    return exceeding(large, LARGE_CLASSES.split())


def _repeated_basenames(names: Iterable[str]) -> list[str]:
    repeated = rules.repeated_basenames(names)
    told = {name: f"stands in {', '.join(places)}; name each after its own idea" for name, places in repeated.items()}
    return exceeding(told, REPEATED_BASENAMES)


def _circle(line: str) -> frozenset[str]:
    folder, _, names = line.partition(":")
    return frozenset(f"{folder.strip()}.{name}" for name in names.split())


def _module(name: str) -> str:
    return re.sub(r"^spark/", "", name).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    # A page that the last commit made stale is told where every commit is checked, not first by the whole run.
    stale = [] if proofs.PAGE.read_text() == proofs.current_page() else [proofs.REMEDY]
    sys.exit("\n".join([*complaints(), *stale]) or 0)
