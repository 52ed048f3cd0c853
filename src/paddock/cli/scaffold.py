"""The files of a new environment, from templates. Nothing is written here, and nothing of the templates imported."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from paddock.cli.failures import mistake

Kind = Literal["tools", "gym"]
TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)
_LONGEST = 40
# Classes that the templates use: one of these names would hide what it is built from.
_TAKEN = frozenset({"RightAnswer", "Rubric", "Task", "Tasks", "ToolEnv"})


def class_name(name: str) -> str:
    """``my_env`` as ``MyEnv``."""
    return "".join(part.capitalize() for part in name.split("_"))


def check_name(name: str) -> None:
    """A name that can be a module's, a folder's and, with capitals, a class's."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        better = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:_LONGEST]).lower()).strip("_")
        hint = f" Did you mean {better!r}?" if better != name and _NAME.fullmatch(better) else ""
        raise mistake(
            f"{name[:80]!r} is no name for an environment: small letters, digits and single '_' between them, a letter "
            f"first, at most {_LONGEST}.{hint}"
        )
    if keyword.iskeyword(name) or class_name(name) in _TAKEN or class_name(name) in keyword.kwlist:
        raise mistake(f"{name!r} means something in Python or paddock already. Choose another name.")
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise mistake(f"{name!r} is a module that exists already: one of the two would hide the other. Choose another.")


def files(name: str, kind: Kind) -> dict[str, str]:
    """Paths within the folder, and the text of each."""
    return {
        "paddock.toml": _filled(f"{kind}/paddock.toml.in", name),
        f"{name}.py": _filled(f"{kind}/module.py.in", name),
        f"tests/test_{name}.py": _filled(f"{kind}/test_module.py.in", name),
        "Dockerfile": _filled("Dockerfile.in", name),
        "README.md": _filled(f"{kind}/README.md.in", name).replace("@docker@\n", _filled("docker.md.in", name)),
    }


def _filled(template: str, name: str) -> str:
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    return text.replace("@name@", name).replace("@Name@", class_name(name))
