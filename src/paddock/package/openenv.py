"""Folders in OpenEnv's shape: read ``openenv.yaml``, and by its syntax tree the ``create_app`` call of the app.

Nothing of the folder runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from paddock.errors import DependencyNotInstalled, InvalidManifest
from paddock.package import MAX_TEXT, OPENENV_FILE, brief, leads_out, parse_entry, read_text, read_toml

DEFAULT_APP = "server.app:app"
_MAX_VARIABLES = 200
_TEXTS = ("name", "version", "description", "runtime", "app", "port", "action", "observation")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}", re.ASCII)
# What the calls take by position, as far as it matters here.
_THREE = ("env", "action_cls", "observation_cls")
_WEB = ("gradio_builder", "custom_tab_name", "custom_tab_primary", "show_default_tab", "title_override")
CALLS = {
    "create_app": (*_THREE, "env_name", "max_concurrent_envs", "concurrency_config", *_WEB),
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

    @property
    def web(self) -> list[str]:
        """Arguments of the call for OpenEnv's web interface."""
        return [name for name in _WEB if self.call.get(name, "None") != "None"]


def read_openenv(folder: Path) -> OpenEnvFolder:
    """Read a folder; ``folder`` is its real path. InvalidManifest says what is wrong, and where."""
    file = inside(folder, folder / OPENENV_FILE)
    found = read_yaml(file, as_text=True)
    texts = _read_texts(file, found, _TEXTS)
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


def _find_app(folder: Path, file: Path, texts: dict[str, str]) -> tuple[str | None, Path | None]:
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


def read_yaml(file: Path, *, as_text: bool = False) -> Any:
    """Return the data of a YAML file; ``as_text``: scalars stay as they are written, so that 1.10 is not 1.1.

    Aliases are refused: a few lines of them can stand for gigabytes.
    """
    try:
        yaml = import_module("yaml")  # by name: mypy has no types of it
    except ImportError as error:
        raise DependencyNotInstalled(f"{file.name} is YAML. Run: pip install pyyaml") from error
    text = read_text(file)
    loader = yaml.BaseLoader if as_text else yaml.SafeLoader
    try:
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text, Loader=loader)):
            raise InvalidManifest(f"{file} has aliases, which are not read. Write the values out.")
        return loader(text).get_single_data()
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidManifest(f"{file} is not valid YAML: {' '.join(str(error).split())[:300]}") from None


def _read_texts(file: Path, found: Any, keys: Iterable[str] | None = None) -> dict[str, str]:
    """Return the texts of a table under these keys, or all of them; those that are empty or null are left out."""
    if not isinstance(found, dict):
        raise InvalidManifest(f"{file}: {brief(found)} is not a table of 'key: value'.")
    texts = {}
    for key in found if keys is None else found.keys() & set(keys):
        if not isinstance(key, str) or not isinstance(found[key], str):
            raise InvalidManifest(f"{file}: {brief(key)}: expected plain text.")
        if found[key] not in ("", "~", "null"):
            texts[key] = found[key].strip()
    return texts


def _read_variables(file: Path, found: Any) -> dict[str, str]:
    """Return the table ``variables``, which names environment variables."""
    variables = _read_texts(file, found.get("variables") or {})
    if len(variables) > _MAX_VARIABLES:
        raise InvalidManifest(f"{file}: variables: there are more than {_MAX_VARIABLES}.")
    for name in variables:
        if not _VARIABLE.fullmatch(name):
            raise InvalidManifest(f"{file}: variables: {brief(name)} is not the name of a variable.")
    return variables


# ── server/app.py and pyproject.toml ──


def _read_call(code: Path) -> dict[str, str]:
    """Return the arguments of the call that makes the app, as written; empty if there is none to be seen."""
    for node in ast.walk(parse(code)):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in CALLS:
            given: list[tuple[str, ast.expr]] = list(zip(CALLS[called], node.args, strict=False))
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
