"""``paddock init``: a new environment that works already. It writes to a new or empty folder, and never over a file."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path

from paddock.cli.arguments import add_json
from paddock.cli.failures import OK, mistake
from paddock.cli.output import Output


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("folder", metavar="NAME", help="of the environment and of its folder, such as my_env")
    parser.add_argument(
        "--gym", action="store_true", help="spaces, reset and step, as in Gymnasium, instead of tools for a model"
    )
    add_json(parser)


def run(arguments: Namespace, output: Output) -> int:
    """Write the files, and say what to do with them."""
    from paddock.cli.scaffold import check_name, class_name, files

    folder = Path(arguments.folder)
    name = folder.name
    _check_free(folder)
    check_name(name)
    texts = files(name, "gym" if arguments.gym else "tools")
    _write(folder, texts)
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


def _check_free(folder: Path) -> None:
    # lexists: a link that leads nowhere would be written through.
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
        raise mistake(f"{folder} exists already, and nothing is overwritten. Choose another name, or remove it.")
    if not folder.parent.is_dir():
        raise mistake(f"There is no folder {folder.parent} to make {folder.name!r} in.")


def _write(folder: Path, texts: dict[str, str]) -> None:
    folder.mkdir(exist_ok=True)
    for path, text in texts.items():
        file = folder / path
        file.parent.mkdir(exist_ok=True)
        with file.open("x", encoding="utf-8", newline="\n") as opened:
            opened.write(text)
