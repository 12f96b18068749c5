"""What a build does beyond its settings: the description that a registry shows, and compiled modules when asked.

`HATCH_BUILD_HOOK_ENABLE_CUSTOM=1 pip wheel .` makes a wheel with compiled modules (decision 10).
"""

import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK_TO_A_FILE = re.compile(r"\[([^\]]+)\]\((?!\w+:)([^)#]+)(?:#[^)]*)?\)")
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!\w+:)[^)]*\)\n*")


class Description(MetadataHookInterface):
    """README.md; its links to files of the project become their names, for in a registry they lead nowhere."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = _PICTURE.sub("", text)
        text = _LINK_TO_A_FILE.sub(lambda link: f"{link[1]} (`{link[2]}`)", text)
        told = "The pages that are named here come with the package: `jbm-kafka docs tutorial` prints one.\n"
        metadata["readme"] = {"content-type": "text/markdown", "text": f"{text}\n{told}"}


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
