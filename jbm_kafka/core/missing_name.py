"""What is raised for a name that a module does not have, so that `from module import name` tells what is meant, too."""

from __future__ import annotations

from types import FrameType


def missing_name(module: str, name: str, text: str, asking: FrameType) -> Exception:
    """An ImportError where `asking`, who asks for the name, imports it; else an AttributeError.

    Python makes an ImportError of its own of every AttributeError, and that one knows no more than the name.
    """
    from dis import opmap

    if text and asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(f"cannot import name {name!r} from {module!r}{text}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}{text}", name=name)
