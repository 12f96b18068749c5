"""Where the configuration's file is, and what is written there."""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from jbm_kafka.core.jms_errors import InvalidSettingError

FILE_NAME = "jbm-kafka.toml"
CONFIG_VARIABLE = "JBM_CONFIG"


def find_file(named: str | os.PathLike[str] | None, environment: Mapping[str, str]) -> Path | None:
    """Returns the file to read: the named one, else that of JBM_CONFIG, else the first of the usual ones that is there.

    An empty name is no file, not even a usual one. None: there is none.
    """
    if named is not None:
        return Path(named).expanduser() if os.fspath(named) else None
    if of_environment := environment.get(CONFIG_VARIABLE):
        return Path(of_environment).expanduser()
    return next((each for each in usual_files(environment) if each.is_file()), None)


def usual_files(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Returns `jbm-kafka.toml` of the current folder, and the user's: `~/.config/jbm-kafka/config.toml`, or the same
    below `$XDG_CONFIG_HOME`."""
    folder = environment.get("XDG_CONFIG_HOME")
    of_user = (Path(folder) if folder else Path.home() / ".config") / "jbm-kafka" / "config.toml"
    return Path(FILE_NAME), of_user


def read_toml(path: Path) -> dict[str, Any]:
    """Returns what the file has.

    Raises:
        InvalidSettingError: it cannot be read, or is not TOML.
    """
    try:
        # Some editors put a mark of three bytes before the text.
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise InvalidSettingError(f'{path}: it is not TOML: {error}; write NAME = "VALUE" lines') from None
    except UnicodeDecodeError:
        raise InvalidSettingError(f"{path}: it is not UTF-8 text; write it as TOML") from None
    except OSError as error:
        raise InvalidSettingError(f"{path}: {error.strerror}; name a config file that can be read") from None


def all_can_read(path: Path) -> bool:
    """Returns True where every user of the machine can read the file."""
    return bool(path.stat().st_mode & stat.S_IROTH)
