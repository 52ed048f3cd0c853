"""``paddock init``: write a new environment that works, from templates. Never overwrites a file."""

from __future__ import annotations

import keyword
import os
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from paddock.cli.output import OK, Output, mistake
from paddock.trust.names import NAMESPACE


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add("folder", metavar="NAME", help="the name of the environment and of its folder, such as my_env")
    add("--owner", metavar="OWNER", help="whose package it is: its name is then OWNER/NAME, as `paddock pack` wants it")
    add("--gym", action="store_true", help="spaces, reset and step, as in Gymnasium, instead of tools for a model")


def run(arguments: Namespace, output: Output) -> int:
    """Write the files, and say what to do with them."""
    folder = Path(arguments.folder)
    name = folder.name
    check_free(folder)
    check_name(name)
    if arguments.owner is not None and not re.fullmatch(NAMESPACE, arguments.owner):
        raise mistake(f"--owner {arguments.owner[:60]!r}: use lower-case letters, digits, '_' and '-'.")
    package = name if arguments.owner is None else f"{arguments.owner}/{name}"
    texts = files(name, "gym" if arguments.gym else "tools", package)
    write_files(folder, texts)
    if arguments.json:
        output.document({"folder": str(folder), "id": f"{class_name(name)}-v0", "files": list(texts)})
        return OK
    for path in texts:
        output.line(str(folder / path))
    output.line()
    target = str(folder) if folder.is_absolute() else f".{os.sep}{folder}"
    output.facts(
        [
            (f"paddock check {target}", "the rules of the API and of safe environments"),
            (f"paddock run {target}", "an episode with random actions"),
            (f"paddock serve {target}", "for others, over HTTP and websockets"),
            (f"pytest {target}", "its tests (pip install pytest)"),
        ]
    )
    return OK


def check_free(folder: Path) -> None:
    """Refuse a folder that has something in it already, or nowhere to be."""
    # lexists: a dangling link would be written through.
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
        raise mistake(f"{folder} already exists, and init overwrites nothing. Choose another name, or remove it.")
    if not folder.parent.is_dir():
        raise mistake(f"Can't make {folder.name!r}: there is no folder {folder.parent}.")


def write_files(folder: Path, texts: Mapping[str, str]) -> None:
    """Write new files into a folder, which is made if it is not there."""
    folder.mkdir(exist_ok=True)
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(text)


Kind = Literal["tools", "gym"]
TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*", re.ASCII)
_LONGEST = 40
# Classes that the templates use: an environment of that name would hide them.
_TAKEN = frozenset({"RightAnswer", "Rubric", "Task", "Tasks", "ToolEnv"})


def class_name(name: str) -> str:
    """Turn ``my_env`` into ``MyEnv``."""
    return "".join(part.capitalize() for part in name.split("_"))


def check_name(name: str) -> None:
    """Refuse a name that can't be a module's, a folder's and, with capitals, a class's."""
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        better = re.sub(r"[^a-z0-9]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name[:_LONGEST]).lower()).strip("_")
        hint = f" Did you mean {better!r}?" if better != name and _NAME.fullmatch(better) else ""
        raise mistake(
            f"{name[:80]!r} can't be the name of an environment. Use at most {_LONGEST} lower-case letters, digits and "
            f"single '_' between them, beginning with a letter.{hint}"
        )
    if keyword.iskeyword(name) or class_name(name) in _TAKEN or class_name(name) in keyword.kwlist:
        raise mistake(f"{name!r} already means something in Python or paddock. Choose another name.")
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise mistake(f"There is already a module {name!r}, and one would hide the other. Choose another name.")


def files(name: str, kind: Kind, package: str) -> dict[str, str]:
    """Return the paths within the folder, with the text of each."""
    words = {"name": name, "Name": class_name(name), "dist": name.replace("_", "-"), "docker": "", "package": package}
    words["docker"] = fill_template("docker.md.in", words).rstrip("\n")
    return {
        "paddock.toml": fill_template(f"{kind}/paddock.toml.in", words),
        "pyproject.toml": fill_template("pyproject.toml.in", words),
        f"{name}.py": fill_template(f"{kind}/module.py.in", words),
        f"tests/test_{name}.py": fill_template(f"{kind}/test_module.py.in", words),
        "Dockerfile": fill_template("Dockerfile.in", words),
        "README.md": fill_template(f"{kind}/README.md.in", words),
    }


def fill_template(template: str, words: Mapping[str, str]) -> str:
    """Return a template's text, with words for its ``@placeholders@``."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    for name, word in words.items():
        text = text.replace(f"@{name}@", word)
    return text
