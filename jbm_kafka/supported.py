"""Which systems it runs on: looked at once, by whoever imports the package first, so that others read one plain line.

Written for old Pythons to read too: it is imported before anything that they would stumble over.
"""

from __future__ import annotations

PYTHON_MIN = (3, 11)
"""As `requires-python` in pyproject.toml, which pip reads; this one is for a folder that was copied."""


def refusal(system: str, python: tuple[int, int], bits: int) -> str | None:
    """Why it does not run there and what would do, one line; None where it does.

    `system` as `sys.platform` has it, `python` the first two numbers of its version, `bits` of a pointer.
    """
    if python < PYTHON_MIN:
        needs, has = ".".join(map(str, PYTHON_MIN)), ".".join(map(str, python))
        return f"jbm-kafka needs Python {needs} or newer and this is Python {has}: use a newer one"
    if system in ("win32", "cygwin"):
        return "jbm-kafka does not run on Windows: use WSL 2 or a Linux container there"
    if bits < 64:
        return (
            f"jbm-kafka needs a 64-bit Python and this one has {bits} bits, for which there is no RocksDB: use another"
        )
    return None
