"""``paddock build``: write what an image of a server is built from, and have docker or podman build it."""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path

from paddock.cli.build.contents import fill_folder, find_contents
from paddock.cli.environment import find_modules_here
from paddock.cli.init import fill_template
from paddock.cli.output import FAILED, OK, CommandFailed, Output, error_message, mistake
from paddock.errors import SandboxUnavailable
from paddock.sandbox import containers
from paddock.sandbox.containers import Engine

_MARK = "# Written by paddock build."
_TAG = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}", re.ASCII)
_BASE = re.compile(r"[A-Za-z0-9][\w./:@-]{0,254}", re.ASCII)


def add_arguments(parser: ArgumentParser) -> None:
    """The options of this command."""
    add = parser.add_argument
    add(
        "target",
        metavar="DIR|PACKAGE",
        help="a folder with a manifest, an id, module:Id-v0, or a plugin's distribution",
    )
    add("-t", "--tag", help="the image's name (default: paddock- and the target's name)")
    add("--base", metavar="IMAGE", help="with the Python of this machine's version (default: python:VERSION-slim)")
    add("--out", type=Path, metavar="DIR", help="where to write the files (default: NAME-image)")
    add("--no-build", action="store_true", help="write the files, and build no image")


def run(arguments: Namespace, output: Output) -> int:
    """Write the folder, and build the image from it."""
    find_modules_here()
    try:
        contents = find_contents(arguments.target)
    except ModuleNotFoundError as error:
        raise mistake(f"can't build: {error_message(error)}", "MODULE_NOT_FOUND") from error
    name = re.sub("[^a-z0-9]+", "-", contents.name.lower()).strip("-") or "env"
    tag = arguments.tag or f"paddock-{name}"
    base = arguments.base or f"python:{platform.python_version()}-slim"
    for option, text, pattern in (("--tag", tag, _TAG), ("--base", base, _BASE)):
        if not pattern.fullmatch(text):
            raise mistake(f"{option} {text[:80]!r} is not the name of an image.")
    engine = None if arguments.no_build else find_engine()
    out = arguments.out or Path(f"{name}-image")
    if out.exists() and not (out / "Dockerfile").is_file() and any(out.iterdir()):
        raise mistake(f"{out} exists, and build did not write it. Choose another folder with --out, or remove it.")
    if (out / "Dockerfile").is_file() and not (out / "Dockerfile").read_text(errors="replace").startswith(_MARK):
        raise mistake(f"{out / 'Dockerfile'} is not from paddock build, and is not overwritten. Use --out.")
    pinned = fill_folder(contents, out)
    words = {"base": base, "tag": tag, "name": name, "targets": ", ".join(map(json.dumps, contents.targets))}
    for file in ("Dockerfile", "compose.yaml"):
        (out / file).write_text(fill_template(f"image/{file}.in", words), encoding="utf-8", newline="\n")
    if engine is not None:
        build_image(engine, tag, ["--network", "none", str(out)])
    if output.json:
        used = None if engine is None else engine.command[0]
        report = {"image": engine and tag, "engine": used, "folder": str(out), "base": base}
        output.document({**report, "targets": list(contents.targets), "pinned": pinned})
        return OK
    output.line(f"wrote {out}: a Dockerfile, compose.yaml and {len(pinned)} wheels, pinned by hash")
    if engine is not None:
        output.line(f"built {tag}")
    return OK


# ── Shared with paddock openenv build ──


def find_engine() -> Engine:
    """Return docker, or else podman: the first that answers."""
    try:
        return containers.find_engine("image")
    except SandboxUnavailable as error:
        raise mistake(f"An image needs {error}.", "DEPENDENCY_NOT_INSTALLED") from None


def build_image(engine: Engine, tag: str, words: list[str]) -> None:
    """Have the engine build, and show what it prints on stderr."""
    # In its own format podman's image has no health check.
    form = ["--format", "docker"] if engine.name == "podman" else []
    command = [*engine.command, "build", *form, "-t", tag, *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:  # noqa: S603 - no shell
        assert process.stdout is not None
        # Line by line into the escaped stream: a Dockerfile may print what controls a terminal.
        for line in process.stdout:
            sys.stderr.buffer.write(line)
    if process.returncode != 0:
        why = f"{engine.command[0]} ended with {process.returncode}; the image {tag} was not built."
        raise CommandFailed(why, exit_code=FAILED, code="BUILD_FAILED")
