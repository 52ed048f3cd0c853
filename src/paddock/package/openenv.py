"""Folders in OpenEnv's shape: read ``openenv.yaml``, and by its syntax tree the ``create_app`` call of the app.

Nothing of the folder runs. This is not a YAML parser: the keys that OpenEnv defines hold plain text in every dialect,
and whatever is nested below another key is skipped, so aliases are never expanded.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paddock.errors import InvalidManifest
from paddock.package import MAX_TEXT, OPENENV_FILE, brief, leads_out, parse_entry, read_text, read_toml

DEFAULT_APP = "server.app:app"
_MAX_LINES = 20_000
_MAX_VARIABLES = 200
_TEXTS = ("name", "version", "description", "runtime", "app", "port", "action", "observation")
_LINE = re.compile(r"""(?P<key>"[^"\\]*"|'[^']*'|[^\s:#'"&*!|>{}\[\],%@`?-][^:#]*):(?:\s+(?P<value>.*))?""")
_DOUBLE, _SINGLE = re.compile(r'("(?:[^"\\]|\\.)*")\s*(?:#.*)?'), re.compile(r"'((?:[^']|'')*)'\s*(?:#.*)?")
_NOT_PLAIN = "&*!{[|>%@`"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)
# What the calls take by position, as far as it matters here.
_THREE = ("env", "action_cls", "observation_cls")
_CALLS = {
    "create_app": (*_THREE, "env_name", "max_concurrent_envs"),
    "create_web_interface_app": (*_THREE, "env_name", "max_concurrent_envs"),
    "create_fastapi_app": (*_THREE, "max_concurrent_envs", "concurrency_config", "env_name"),
    "HTTPEnvServer": (*_THREE, "max_concurrent_envs", "concurrency_config", "env_name"),
}


@dataclass(frozen=True)
class OpenEnvFolder:
    """What the files say. ``app`` is None if the folder has none; then ``action`` and ``observation`` name classes.

    ``packages``: the names under which its own code may import the folder. ``call``: the arguments of ``create_app`` as
    they are written.
    """

    name: str
    version: str
    description: str
    app: str | None
    port: int | None
    action: str | None
    observation: str | None
    variables: dict[str, str]
    packages: tuple[str, ...]
    call: dict[str, str] = field(default_factory=dict)


def read_openenv(folder: Path) -> OpenEnvFolder:
    """Read a folder; ``folder`` is its real path. InvalidManifest says what is wrong, and where."""
    file = inside(folder, folder / OPENENV_FILE)
    found = _read_yaml(file)
    texts = {key: _text(file, key, *found[key]) for key in _TEXTS if key in found}
    port = texts.get("port")
    if port is not None and not (re.fullmatch(r"[0-9]{1,5}", port, re.ASCII) and 0 < int(port) < 65536):
        raise InvalidManifest(f"{file}: port: {brief(port)} is not a number from 1 to 65535.")
    app, code = _find_app(folder, file, texts)
    call = {} if code is None else _read_call(code)
    project = _read_project(folder)
    written = _literal(call.get("env_name"))
    return OpenEnvFolder(
        name=texts.get("name") or written or folder.name,
        version=texts.get("version") or "0",
        description=(texts.get("description") or "")[:MAX_TEXT],
        app=app,
        port=None if port is None else int(port),
        action=texts.get("action"),
        observation=texts.get("observation"),
        variables=_read_variables(file, found),
        packages=_packages(folder, texts.get("name"), project),
        call=call,
    )


def inside(folder: Path, file: Path) -> Path:
    """Return the file; InvalidManifest if it is a link that leads out of the folder."""
    if leads_out(folder, file):
        raise InvalidManifest(f"{file} is a link that leads out of the folder. Copy the file.")
    return file


def parse(file: Path) -> ast.Module:
    """Return the syntax tree of a file of the folder. InvalidManifest if it isn't Python."""
    try:
        return ast.parse(read_text(file))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        if isinstance(error, InvalidManifest):
            raise
        raise InvalidManifest(f"{file} is not Python: {str(error)[:200]}") from None


def _find_app(folder: Path, file: Path, texts: dict[str, str | None]) -> tuple[str | None, Path | None]:
    """Return the app as ``module:name``, and the module's file."""
    text = texts.get("app") or DEFAULT_APP
    try:
        module, _ = parse_entry(text)
    except ValueError:
        raise InvalidManifest(f"{file}: app: {brief(text)} is not 'module:name', as {DEFAULT_APP!r}.") from None
    place = folder.joinpath(*module.split("."))
    for code in (place.with_suffix(".py"), place / "__init__.py"):
        if code.is_file():
            return text, inside(folder, code)
    if texts.get("app") is None and texts.get("action") is not None:
        return None, None
    raise InvalidManifest(f"{file}: app: {text!r}: there is no {place.relative_to(folder)}.py in the folder.")


# ── openenv.yaml ──


def _read_yaml(file: Path) -> dict[str, tuple[str, list[str]]]:
    """Return each top-level key with the text after it, and the lines below it that are its own."""
    found: dict[str, tuple[str, list[str]]] = {}
    below: list[str] | None = None
    lines = read_text(file).splitlines()
    if len(lines) > _MAX_LINES:
        raise InvalidManifest(f"{file} has more than {_MAX_LINES:,} lines.")
    for number, line in enumerate(lines, start=1):
        if not line.strip() or line.startswith("#") or (line.rstrip() == "---" and not found):
            continue
        if line[0] in " \t-]}" and below is not None and line.rstrip() != "---":
            below.append(line)
            continue
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise InvalidManifest(f"{file}: line {number}: {brief(line)} is not 'key: value'.")
        key, value = match["key"].strip("\"' "), match["value"] or ""
        if key in found:
            raise InvalidManifest(f"{file}: line {number}: {brief(key)} is there twice.")
        if value[:1] in ("&", "*", "!"):
            raise InvalidManifest(f"{file}: {brief(key)}: anchors, aliases and tags are not read. Write the value.")
        below = []
        found[key] = value, below
    return found


def _text(file: Path, key: str, value: str, below: list[str]) -> str | None:
    """Return a scalar as text, None if it is empty or null."""
    if value[:1] in ("|", ">"):
        return ("\n" if value[0] == "|" else " ").join(line.strip() for line in below).strip()
    if not value.startswith("#"):
        value = " ".join([value, *(line.strip() for line in below)]).strip()
    if match := _SINGLE.fullmatch(value):
        return match[1].replace("''", "'")
    if match := _DOUBLE.fullmatch(value):
        try:
            return str(json.loads(match[1]))
        except ValueError:
            raise InvalidManifest(f"{file}: {key}: {brief(value)} has an escape that is not read.") from None
    if value[:1] in ("'", '"', *_NOT_PLAIN):
        raise InvalidManifest(f"{file}: {key}: {brief(value)} is not plain text on one line.")
    value = re.sub(r"(?:^|\s)#.*", "", value).strip()
    return None if value in ("", "~", "null") else value


def _read_variables(file: Path, found: dict[str, tuple[str, list[str]]]) -> dict[str, str]:
    """Return the map ``variables``: texts by name, one per line."""
    value, below = found.get("variables", ("", []))
    value = re.sub(r"(?:^|\s)#.*", "", value).strip()
    if value not in ("", "{}", "~", "null") or len(below) > _MAX_VARIABLES:
        raise InvalidManifest(f"{file}: variables: expected at most {_MAX_VARIABLES} lines '  NAME: value' below it.")
    variables = {}
    indent = None
    for line in below:
        match = None if line.lstrip().startswith("#") else _LINE.fullmatch(line.strip())
        if match is None and line.lstrip().startswith("#"):
            continue
        start = len(line) - len(line.lstrip(" "))
        indent = start if indent is None else indent
        if match is None or start != indent or not _VARIABLE.fullmatch(match["key"]):
            raise InvalidManifest(f"{file}: variables: {brief(line.strip())} is not 'NAME: value'.")
        variables[match["key"]] = _text(file, f"variables: {match['key']}", match["value"] or "", []) or ""
    return variables


# ── server/app.py and pyproject.toml ──


def _read_call(code: Path) -> dict[str, str]:
    """Return the arguments of the call that makes the app, as written; empty if there is none to be seen."""
    for node in ast.walk(parse(code)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in _CALLS:
            given: list[tuple[str, ast.expr]] = list(zip(_CALLS[called], node.args, strict=False))
            given += [(word.arg, word.value) for word in node.keywords if word.arg is not None]
            return {name: _written(value) for name, value in given}
    return {}


def _written(value: ast.expr) -> str:
    try:
        return ast.unparse(value)[:200]
    except (RecursionError, ValueError):
        return "…"


def _literal(written: str | None) -> str | None:
    try:
        value = None if written is None else ast.literal_eval(written)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, str) else None


def _read_project(folder: Path) -> dict[str, Any]:
    file = folder / "pyproject.toml"
    return read_toml(inside(folder, file)) if file.is_file() else {}


def _packages(folder: Path, name: str | None, project: dict[str, Any]) -> tuple[str, ...]:
    """Return the names that the folder's code may import it by: its own, the manifest's and those of the project."""

    def candidates() -> Iterator[Any]:
        yield folder.name
        yield name
        tools = _table(_table(project, "tool"), "setuptools")
        yield from (one for one, place in _table(tools, "package-dir").items() if place in (".", "./", ""))
        named = str(_table(project, "project").get("name", "")).replace("-", "_")
        yield named.removeprefix("openenv_")
        yield named
        yield "openenv_folder"  # there must be one, for relative imports

    names = (one for one in candidates() if isinstance(one, str) and one.isidentifier())
    return tuple(dict.fromkeys(names))


def _table(parent: dict[str, Any], key: str) -> dict[str, Any]:
    found = parent.get(key)
    return found if isinstance(found, dict) else {}
