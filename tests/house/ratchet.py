"""The rules of the house that the tree does not keep everywhere yet: `python -m tests.house.ratchet`, in `make check`.

What breaks them today is listed below. The lists may only get shorter: what is new is refused, and so is a name that
stands here and breaks nothing any more.
"""

import re
import sys
from collections.abc import Collection, Iterable, Mapping

from tests.house import circles, rules
from tests.house.sources import PRODUCT, TESTS, python_files, relative

MODULE_CIRCLES: list[str] = []
"""Modules that import each other in circles: each line one circle of one folder."""

FOLDER_CIRCLES: list[str] = []
"""Folders that import each other in circles: each line one circle."""

REPEATED_BASENAMES = {
    "changelog.py": "`jbm_spark.changelog` is public, and named after what `codec/changelog.py` has the bytes of",
    "errors.py": "`jbm_kafka.errors` and `jbm_spark.errors`: where users of each package look",
    "events.py": "`jbm_spark.events` is public, and named after what `codec/events.py` has the bytes of",
    "letters.py": "`jbm_spark.letters` is public",
    "session.py": "`jbm_spark.session` is public; `jms/session.py` is where JMS's sessions are",
}
"""File names that may stand in several folders, with the reason."""

REPEATED_CLASSES = "ChannelState KafkaRecord Receiver Sending Wait"
"""Names of public classes of jbm_kafka that stand in several modules, with spaces between."""


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
        *_repeated_basenames(texts),
        *_repeated_classes(texts),
    ]


def exceeding(what: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Names with what is wrong with them that the list does not allow, and those listed that nothing is wrong with."""
    new = [f"{name}: {wrong}" for name, wrong in sorted(what.items()) if name not in known]
    return new + [f"{name}: keeps the rule now; take it off the list" for name in sorted(set(known) - what.keys())]


def _repeated_basenames(names: Iterable[str]) -> list[str]:
    repeated = rules.repeated_basenames(names)
    told = {name: f"stands in {', '.join(places)}; name each after its own idea" for name, places in repeated.items()}
    return exceeding(told, REPEATED_BASENAMES)


def _repeated_classes(texts: Mapping[str, str]) -> list[str]:
    repeated = rules.repeated_classes({name: text for name, text in texts.items() if name.startswith("jbm_kafka/")})
    told = {name: f"a class of {', '.join(places)}; one name, one meaning" for name, places in repeated.items()}
    return exceeding(told, REPEATED_CLASSES.split())


def _circle(line: str) -> frozenset[str]:
    folder, _, names = line.partition(":")
    return frozenset(f"{folder.strip()}.{name}" for name in names.split())


def _module(name: str) -> str:
    return re.sub(r"^spark/", "", name).removesuffix(".py").removesuffix("/__init__").replace("/", ".")


if __name__ == "__main__":
    sys.exit("\n".join(complaints()) or 0)
