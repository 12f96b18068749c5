"""Compiles the hot modules where they stand: `python setup.py build_ext --inplace`, which `make setup` runs.

Nothing else: packages are built by hatchling. Which modules those are, pyproject.toml tells: docs/decisions/0010.
"""

import tomllib
from pathlib import Path

from mypyc.build import mypycify
from setuptools import setup

COMPILED = tomllib.loads(Path("pyproject.toml").read_text())["tool"]["jbm-kafka"]["compiled"]

setup(name="jbm-kafka", packages=[], ext_modules=mypycify(COMPILED, opt_level="2"))
