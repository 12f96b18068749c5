"""The compiled modules, and how to do without them: decision 10.

Where a module stands beside its compiled form, Python takes that. With `JBM_PURE=1` in the environment it takes the
source, for whoever wants to trace, measure coverage, or find out whether compiling made a difference.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec, spec_from_file_location
from types import ModuleType

PURE_VARIABLE = "JBM_PURE"
_PACKAGE = __name__.partition(".")[0]


class SourceFinder:
    """Finds this package's modules by their source only.

    It is a MetaPathFinder and does not say so: importing that class would be a third of importing this package.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(_PACKAGE + "."):
            return None
        for folder in path or ():
            source = os.path.join(folder, fullname.rpartition(".")[2] + ".py")  # noqa: PTH118 - pathlib costs start-up
            if os.path.isfile(source):  # noqa: PTH113
                return spec_from_file_location(fullname, source, loader=SourceFileLoader(fullname, source))
        return None


def are_left_aside() -> bool:
    """True when the environment asks for the source."""
    return os.environ.get(PURE_VARIABLE, "0") not in ("", "0")


def leave_aside_if_asked() -> None:
    """With `JBM_PURE=1`: from now on every module of the package is its source."""
    if are_left_aside():
        sys.meta_path.insert(0, SourceFinder())


def are_used() -> bool:
    """True when the hot modules are the compiled ones."""
    spec = find_spec(f"{_PACKAGE}.core.channel.channel_state")
    return spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
