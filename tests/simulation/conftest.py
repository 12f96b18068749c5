"""Options of the simulation: one seed instead of the usual ones, and how long each is played."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--simulation-seed", type=int, default=None, help="play this seed only")
    parser.addoption("--simulation-steps", type=int, default=None, help="acts of each seed before its calm end")
