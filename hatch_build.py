"""Puts the compiled modules into a wheel, when asked: `HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip wheel .` (decision 10)."""

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface):  # type: ignore[type-arg, misc, unused-ignore]
    """Compiles in place and adds what came out; the wheel is then for one platform."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # `make setup` compiles there
            return
        root = Path(self.root)
        subprocess.run([sys.executable, "setup.py", "build_ext", "--inplace"], cwd=root, check=True)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        ending = sysconfig.get_config_var("EXT_SUFFIX")  # beside them may lie what another Python's build left
        build_data["artifacts"].append(f"/jbm_kafka/**/*{ending}")
        build_data["force_include"].update({str(lib): lib.name for lib in root.glob(f"*__mypyc{ending}")})
