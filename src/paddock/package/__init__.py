"""Packages: a folder whose ``paddock.toml``, the manifest, declares environments and the permissions they ask for.

A folder with OpenEnv's ``openenv.yaml`` is one too. Reading either runs and imports nothing of the folder, ever.
Permissions are what the package *asks* for: whoever runs it grants them, or doesn't.
"""

from __future__ import annotations

import importlib.util
import json
import math
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import InvalidId, InvalidManifest, InvalidPolicy
from paddock.sandbox.policy import Policy, covers
from paddock.trust.files import read_bounded

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from paddock.package.openenv import OpenEnvFolder


FILE = "paddock.toml"
OPENENV_FILE = "openenv.yaml"
LOCK = "lock/requirements.txt"  # every wheel that the dependencies need, with its hashes
OPENENV_ENTRY = "paddock.openenv.folder:FolderEnv"  # what makes the environment of such a folder, in its worker
MAX_ENVS = 1000
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,99}(?:/[A-Za-z0-9][\w.-]{0,99})?", re.ASCII)
_PART = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_VERSION = re.compile(r"[0-9][\w.+-]{0,63}", re.ASCII)
# As pip writes them: the name of a distribution, and which versions of it will do.
DISTRIBUTION = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
VERSIONS = r"[<>=!~]=?=? ?[\w.*+!-]+(?: ?, ?[<>=!~]=?=? ?[\w.*+!-]+)* ?"
DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])", re.ASCII)
# Policy fields whose paths may be relative to the package's folder: a package can't know where it will be installed.
_OWN_PATHS = ("read", "write", "programs")  # and "cassette", which is one path
_MAX_WORKSPACES_DEEP = 4
_MAX_PERMISSIONS, _MAX_PERMISSION = 16_000, 300  # characters: of all of them, and of one path, host or variable
_OUR_WRAPPERS = "paddock.wrappers"
MAX_DEPTH = 32
MAX_TEXT = 4096
_KINDS = {str: "a string", bool: "true or false", int: "a whole number", dict: "a table", list: "a list"}


@dataclass(frozen=True)
class ManifestEnv:
    """One ``[[env]]``. ``reward_range`` is None if the manifest declares none."""

    spec: EnvSpec
    deterministic: bool = True
    resettable: bool = True
    reward_range: tuple[float, float] | None = None


@dataclass(frozen=True)
class Manifest:
    """What the folder declares. ``folder`` is its real path: absolute, without symlinks."""

    name: str
    version: str
    description: str
    envs: tuple[ManifestEnv, ...]
    permissions: Policy
    folder: Path
    dependencies: tuple[str, ...] = ()  # for pip, as "numpy>=2", in the order of their names
    openenv: OpenEnvFolder | None = None  # of a folder in OpenEnv's shape, which has no paddock.toml
    serial: int | None = None  # of a release, if it does not follow from the version
    expires: str | None = None  # the last day on which it is installed

    def env(self, id: str | None = None) -> ManifestEnv:
        """Return the environment with this id, or without an id the only one."""
        ids = [one.spec.id for one in self.envs]
        if id is None and len(ids) == 1:
            return self.envs[0]
        if id not in ids:
            wanted = "has several environments; name one" if id is None else f"has no environment {brief(id)}"
            below = os.path.relpath(self.folder)
            place = self.folder if below.startswith("..") else "." if below == "." else f"./{below}"
            raise InvalidManifest(
                f"{self.folder / FILE} {wanted}. There are: {', '.join(ids)}. The target is then {place}:{ids[0]}."
            )
        return self.envs[ids.index(id)]

    def spec(self, id: str | None = None) -> EnvSpec:
        """Return the spec with this id, or without an id that of the only environment."""
        return self.env(id).spec

    def permissions_of(self, id: str | None = None) -> Policy:
        """Return what this environment asks for: the package's permissions, with its own reward range if it has one."""
        declared = self.env(id).reward_range
        return self.permissions if declared is None else replace(self.permissions, reward_range=declared)

    def modules(self, id: str | None = None) -> dict[str, Path]:
        """Map the top-level modules that the spec names to their files or package folders: what a worker needs."""
        spec = self.spec(id)
        if self.openenv is not None:
            return {self.folder.name: self.folder}
        entries = [str(spec.entry_point), *(wrapper.entry_point for wrapper in spec.additional_wrappers)]
        found = {}
        for module in (parse_entry(entry)[0] for entry in entries):
            if not _is_ours(module):
                file, top = module_file(self.folder, module), module.partition(".")[0]
                found[top] = self.folder / top if (self.folder / top / "__init__.py").is_file() else file
        return found

    def permissions_of_all(self) -> Policy:
        """Return permissions that are enough for every environment of the manifest."""
        ranges = [self.permissions_of(one.spec.id).reward_range for one in self.envs]
        return replace(self.permissions, reward_range=(min(low for low, _ in ranges), max(high for _, high in ranges)))

    def portable(self, policy: Policy, folder: str = "/@folder") -> Policy:
        """Return the policy as if the package were in ``folder``, to compare versions in different places."""
        return _relocate(policy, str(self.folder), folder)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Read the folder's ``paddock.toml``. InvalidManifest names the file, the key and what was expected."""
    real = Path(os.path.realpath(Path(folder).expanduser()))
    file = real / FILE
    if not real.is_dir():
        raise InvalidManifest(f"There is no folder {brief(str(folder))}.")
    if not os.path.lexists(file):
        if os.path.lexists(real / OPENENV_FILE):
            return _read_openenv_manifest(real)
        raise InvalidManifest(
            f"There is no {FILE} or {OPENENV_FILE} in {brief(str(folder))}. It names the environments: "
            f"docs/secure-environments.md"
        )
    if leads_out(real, file):
        raise InvalidManifest(f"{file} is a link that leads out of the folder. Copy the file.")
    whole = Fields(str(file), read_toml(file))
    package = Fields(f"{file}: [package]", whole.take("package", dict, required=True))
    name = _read_matching(package, "name", _NAME, "letters, digits, '_', '-' and '.', as 'maze' or 'acme/maze'")
    version = _read_matching(package, "version", _VERSION, "a version, as '1.2.0'")
    description = package.take("description", str, "")
    serial = package.count("serial")
    expires = (
        None if "expires" not in package.values else _read_matching(package, "expires", DATE, "a day, as '2027-01-31'")
    )
    package.known.append("expires")
    package.finish()
    tables = whole.tables("env")
    if not 1 <= len(tables) <= MAX_ENVS:
        raise whole.refuse("[[env]]", f"there are {len(tables)}; expected 1 to {MAX_ENVS:,}.")
    envs: dict[str, ManifestEnv] = {}
    for fields in tables:
        env = _read_env(fields, real)
        if env.spec.id in envs:
            raise fields.refuse("id", f"{brief(env.spec.id)} is taken by another [[env]]. Give each its own.")
        envs[env.spec.id] = env
    table = Fields(f"{file}: [permissions]", whole.take("permissions", dict, {}))
    try:
        permissions = Policy.from_dict(_resolve_paths(table, table.values, real, 0))
    except InvalidPolicy as error:
        raise InvalidManifest(f"{table.place}: {error}") from None
    _require_readable(table.place, _relocate(permissions, str(real), "/@folder"))
    dependencies = _read_dependencies(Fields(f"{file}: [dependencies]", whole.take("dependencies", dict, {})))
    whole.finish()
    found = tuple(envs.values())
    return Manifest(name, version, description, found, permissions, real, dependencies, serial=serial, expires=expires)


def _read_dependencies(fields: Fields) -> tuple[str, ...]:
    lines: dict[str, str] = {}
    for name in fields.values:
        versions: str = fields.take(name, str)
        if not re.fullmatch(DISTRIBUTION, name, re.ASCII) or not re.fullmatch(rf"\*|{VERSIONS}", versions, re.ASCII):
            expected = "a distribution and its versions, as numpy = '>=2,<3', or '*' for any."
            raise fields.refuse(brief(name), f"{brief(versions)}; expected {expected}")
        if (normal := normal_name(name)) in lines:
            raise fields.refuse(brief(name), "is there twice, in another spelling. Drop one of them.")
        lines[normal] = name if versions == "*" else f"{name}{versions.replace(' ', '')}"
    return tuple(line for _, line in sorted(lines.items()))


def normal_name(line: str) -> str:
    """Return the name of the distribution that a requirement names, in the form in which names are compared."""
    match = re.match(DISTRIBUTION, line.strip(), re.ASCII)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


def _read_openenv_manifest(folder: Path) -> Manifest:
    """Such a folder asks for no permissions, so it gets the default."""
    from paddock.package.openenv import read_openenv

    found = read_openenv(folder)
    id = re.sub(r"[^\w.-]+", "-", found.name, flags=re.ASCII).strip("-.")
    # OpenEnv promises no repeatable episodes, and leaves the order of calls and the actions to the environment.
    options: Any = {"nondeterministic": True, "order_enforce": False, "disable_env_checker": True}
    try:
        spec = EnvSpec(id, OPENENV_ENTRY, kwargs={"folder": str(folder)}, **options)
    except InvalidId as error:
        raise InvalidManifest(f"{folder / OPENENV_FILE}: name: {error}") from None
    return Manifest(
        found.name, found.version, found.description, (ManifestEnv(spec, False),), Policy(), folder, openenv=found
    )


def _read_matching(fields: Fields, key: str, pattern: re.Pattern[str], expected: str) -> str:
    text: str = fields.take(key, str, required=True)
    if not pattern.fullmatch(text):
        raise fields.refuse(key, f"{brief(text)} is not {expected}.")
    return text


def _read_env(fields: Fields, folder: Path) -> ManifestEnv:
    deterministic: bool = fields.take("deterministic", bool, True)
    varies: bool = fields.take("nondeterministic", bool, not deterministic)
    if "deterministic" in fields.values and varies == deterministic:
        raise fields.refuse("nondeterministic", "says the opposite of 'deterministic'. Drop one of them.")
    try:
        spec = EnvSpec(
            id=fields.take("id", str, required=True),
            entry_point=_read_entry(fields, folder),
            reward_threshold=fields.number("reward_threshold"),
            nondeterministic=varies,
            max_episode_steps=fields.count("max_episode_steps"),
            order_enforce=fields.take("order_enforce", bool, True),
            kwargs=fields.plain("kwargs"),
            additional_wrappers=tuple(_read_wrapper(one, folder) for one in fields.tables("wrappers")),
        )
    except InvalidId as error:
        raise fields.refuse("id", str(error)) from None
    env = ManifestEnv(spec, not varies, fields.take("resettable", bool, True), fields.interval("reward_range"))
    fields.finish()
    return env


def _read_wrapper(fields: Fields, folder: Path) -> WrapperSpec:
    entry = _read_entry(fields, folder, or_ours=True)
    wrapper = WrapperSpec(entry.rpartition(":")[2], entry, fields.plain("kwargs"))
    fields.finish()
    return wrapper


def _read_entry(fields: Fields, folder: Path, *, or_ours: bool = False) -> str:
    text: str = fields.take("entry", str, required=True)
    try:
        module, _ = parse_entry(text)
        if not (or_ours and _is_ours(module)):
            module_file(folder, module)
    except ValueError as error:
        if isinstance(error, InvalidManifest):  # which is a ValueError too
            raise fields.refuse("entry", f"{brief(text)}: {error}") from None
        raise fields.refuse("entry", f"{brief(text)} is not 'module:Name', as 'maze_env:Maze'.") from None
    return text


def _is_ours(module: str) -> bool:
    return module == _OUR_WRAPPERS or module.startswith(_OUR_WRAPPERS + ".")


def _resolve_paths(fields: Fields, plain: Mapping[str, Any], folder: Path, depth: int) -> dict[str, Any]:
    """Return the table with relative paths made absolute, those of a workspace too."""
    if depth > _MAX_WORKSPACES_DEEP:
        raise fields.refuse("workspace", f"is nested deeper than {_MAX_WORKSPACES_DEEP}.")
    table = dict(plain)
    for key in _OWN_PATHS:
        if type(table.get(key)) is list:
            table[key] = [_resolve_path(fields, key, one, folder) for one in table[key]]
    if "cassette" in table:
        table["cassette"] = _resolve_path(fields, "cassette", table["cassette"], folder)
    if type(table.get("workspace")) is dict:
        table["workspace"] = _resolve_paths(fields, table["workspace"], folder, depth + 1)
    return table


def _require_readable(place: str, permissions: Policy) -> None:
    """Whoever grants permissions reads them first, so there may be only as many as a person reads, none cut short."""
    text = json.dumps(permissions.to_dict())
    longest = max(map(len, re.findall(r'"(?:[^"\\]|\\.)*"', text)), default=0)
    if len(text) > _MAX_PERMISSIONS or longest > _MAX_PERMISSION:
        raise InvalidManifest(
            f"{place} has {len(text):,} characters, the longest text of it {longest:,}; at most {_MAX_PERMISSIONS:,} "
            f"and {_MAX_PERMISSION} are read, so that a person can review them. Name folders instead of files."
        )


def _resolve_path(fields: Fields, key: str, text: Any, folder: Path) -> Any:
    if type(text) is not str or text.startswith("/"):
        return text  # Policy says what is wrong with it, if anything is
    if text.startswith("~"):
        raise fields.refuse(key, f"{brief(text)} is a different folder for each user. Begin with '/' or './'.")
    if "\0" in text:
        raise fields.refuse(key, f"{brief(text)} is not a path.")
    path = folder / os.path.normpath(text)
    if leads_out(folder, path):
        raise fields.refuse(key, f"{brief(text)} leads out of the package's folder. Write it as an absolute path.")
    return str(path)


def _relocate(policy: Policy, old: str, new: str) -> Policy:
    def relocate(path: str) -> str:
        return new + path[len(old) :] if covers(old, path) else path

    changes: dict[str, Any] = {key: tuple(map(relocate, getattr(policy, key))) for key in _OWN_PATHS}
    if policy.cassette is not None:
        changes["cassette"] = relocate(policy.cassette)
    if policy.workspace is not None:
        changes["workspace"] = _relocate(policy.workspace, old, new)
    return replace(policy, **changes)


@dataclass
class Fields:
    """A table of the manifest. Take its fields one by one; whatever is left at ``finish`` is an unknown key.

    ``place`` tells the author where the table is: ``paddock.toml: [[env]] number 2``.
    """

    place: str
    values: Mapping[str, Any]
    known: list[str] = field(default_factory=list)

    def refuse(self, key: str, why: str) -> InvalidManifest:
        """Return the error for this key; the caller raises it."""
        return InvalidManifest(f"{self.place}: {key}: {why}")

    def take(self, key: str, kind: type, default: Any = None, *, required: bool = False) -> Any:
        """Return the value, which must be of this kind, or ``default`` if the key is missing."""
        self.known.append(key)
        if key not in self.values:
            if required:
                raise self.refuse(key, f"is missing; expected {_KINDS[kind]}.")
            return default
        value: Any = self.values[key]
        if type(value) is not kind:  # exactly: true is not a whole number
            raise self.refuse(key, f"{brief(value)} is {kind_in_words(value)}; expected {_KINDS[kind]}.")
        if isinstance(value, str) and len(value) > MAX_TEXT:
            raise self.refuse(key, f"has {len(value):,} characters; at most {MAX_TEXT:,} are read.")
        return value

    def number(self, key: str) -> float | None:
        """Take a finite number, whole or not."""
        self.known.append(key)
        value = self.values.get(key)
        if value is None:
            return None
        if type(value) not in (int, float) or not math.isfinite(value):
            raise self.refuse(key, f"{brief(value)} is {kind_in_words(value)}; expected a finite number.")
        return float(value)

    def count(self, key: str) -> int | None:
        """Take a whole number of at least 1."""
        value: int | None = self.take(key, int)
        if value is not None and value < 1:
            raise self.refuse(key, f"{brief(value)} is not 1 or more.")
        return value

    def interval(self, key: str) -> tuple[float, float] | None:
        """Take two numbers, the lower one first; infinity is allowed."""
        value = self.take(key, list)
        if value is None:
            return None
        # NaN is not <= anything, itself included.
        numbers = all(type(one) in (int, float) for one in value)
        if len(value) != 2 or not numbers or not value[0] <= value[1]:
            raise self.refuse(key, f"{brief(value)}; expected two numbers, the lower one first, as [-1.0, 1.0].")
        return float(value[0]), float(value[1])

    def plain(self, key: str) -> dict[str, Any]:
        """Take a table of data that can be sent to another process: strings, numbers, booleans, lists and tables."""
        value: dict[str, Any] = self.take(key, dict, {})
        self._check_plain(value, key, 0)
        return value

    def tables(self, key: str) -> list[Fields]:
        """Take a list of tables."""
        value = self.take(key, list, [])
        for one in value:
            if type(one) is not dict:
                raise self.refuse(key, f"{brief(one)} is {kind_in_words(one)}; expected a list of tables.")
        return [Fields(f"{self.place}, {key} number {at}", one) for at, one in enumerate(value, start=1)]

    def finish(self) -> None:
        """Refuse any key that was not taken."""
        for key in self.values:
            if key not in self.known:
                close = get_close_matches(key[:80], self.known, n=1)
                hint = f" Did you mean {close[0]!r}?" if close else ""
                raise InvalidManifest(
                    f"{self.place}: there is no key {brief(key)}.{hint} There are: {', '.join(self.known)}."
                )

    def _check_plain(self, value: Any, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self.refuse(path[:80], f"is nested deeper than {MAX_DEPTH}.")
        if type(value) is dict:
            for name, item in value.items():
                # A key with $ is a tag in the JSON form of a spec.
                if name.startswith("$") or len(name) > 256:
                    raise self.refuse(
                        path[:80], f"has the key {brief(name)}; expected one without $, at most 256 long."
                    )
                self._check_plain(item, f"{path}.{name}", depth + 1)
        elif type(value) is list:
            for at, item in enumerate(value):
                self._check_plain(item, f"{path}[{at}]", depth + 1)
        elif type(value) not in (str, bool, int, float):
            expected = "expected strings, numbers, true, false, lists and tables."
            raise self.refuse(path[:80], f"{brief(value)} is {kind_in_words(value)}; {expected}")


def brief(value: Any) -> str:
    """Show a value of the manifest: short, on one line, unprintable characters escaped."""
    text = ascii(value) if isinstance(value, str) else repr(value) if type(value) in (int, float, bool, list) else "…"
    return text if len(text) <= 80 else text[:77] + "..."


def kind_in_words(value: Any) -> str:
    """Say what kind of value this is, in the words of the error messages."""
    if type(value) is float:
        return "a number"
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def parse_entry(text: str) -> tuple[str, str]:
    """Split ``package.module:Name`` into module and attribute. ValueError for anything else and for dunder names."""
    module, _, attribute = text.partition(":")
    parts = [*module.split("."), *attribute.split(".")]
    if not all(_PART.fullmatch(part) and not part.startswith("__") for part in parts):
        raise ValueError(text)
    return module, attribute


def module_file(folder: Path, module: str) -> Path:
    """Return the file that ``import module`` would run if ``folder`` were the only place to look. Imports nothing.

    ``folder`` is a real path: absolute and without symlinks. InvalidManifest says what was looked for.
    """
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names or top == "paddock":
        raise InvalidManifest(
            f"the module {top!r} has the name of a module that comes with Python or paddock. Rename it."
        )
    *packages, last = module.split(".")
    place = folder
    for name in packages:
        place = place / name
        if _file_inside(folder, place / "__init__.py") is None:
            raise InvalidManifest(f"the package {_relative(folder, place)} with an __init__.py is not in the folder.")
    names = [f"{last}/__init__.py", f"{last}.py", *(f"{last}{suffix}" for suffix in EXTENSION_SUFFIXES)]
    for name in names:
        if (found := _file_inside(folder, place / name)) is not None:
            return found
    raise InvalidManifest(
        f"the module {module!r} is not in the folder: there is no "
        f"{_relative(folder, place / names[1])} or {_relative(folder, place / names[0])}."
    )


def find_module(module: str) -> Path | None:
    """Return an importable module's file, or its folder if it is a package. Parents are searched, not imported."""
    top, *inner = module.split(".")
    try:
        found = importlib.util.find_spec(top)
    except (ValueError, ImportError):
        return None
    if found is None:
        return None
    if found.submodule_search_locations is None:
        return Path(found.origin) if found.origin and Path(found.origin).is_file() else None
    for folder in map(Path, found.submodule_search_locations):
        place = folder.joinpath(*inner)
        for path in (place, place.with_name(f"{place.name}.py")):
            if path.is_dir() or path.is_file():
                return path
    return None


def leads_out(folder: Path, path: Path) -> bool:
    """Whether the path is outside the folder once its symlinks are followed."""
    real = Path(os.path.realpath(path))
    return real != folder and folder not in real.parents


def _file_inside(folder: Path, file: Path) -> Path | None:
    if not file.is_file():
        return None
    if leads_out(folder, file):
        raise InvalidManifest(f"{_relative(folder, file)} is a link that leads out of the folder. Copy the file.")
    return file


def _relative(folder: Path, path: Path) -> str:
    return path.relative_to(folder).as_posix()


# ── The file. A limit on its size is not enough: one long dotted key takes gigabytes ──

MAX_FILE_BYTES = 1 << 20
_MAX_KEY_PARTS = 64
_MAX_TOML_DEPTH = 64
_INTEGERS = range(-(1 << 63), 1 << 63)  # what TOML allows; the parser also reads longer hexadecimal ones

# TOML's strings and comments. One that does not end takes the rest, so that no text is scanned twice; the parser
# stops there as well. A multi-line string may end in up to five quotes, two of which belong to it.
_STRING = re.compile(
    r'''"""(?:[^\\]|\\.)*?(?:"{3,5}|\Z)|'{3}.*?(?:'{3,5}|\Z)|"(?:[^"\\\n]|\\.)*(?:"|$)|'[^'\n]*(?:'|$)|\#[^\n]*''',
    re.MULTILINE | re.DOTALL,
)
# What a dotted key is made of. Values can be too, but between two dots of different values there is a comma.
_CHAIN = re.compile(r"[\w \t.-]+")


def read_toml(file: Path) -> dict[str, Any]:
    """Return the file's table. InvalidManifest says what is wrong with the file."""
    text = read_text(file)
    # The standard parser keeps every prefix of a dotted key: 200,000 parts take 160 GB.
    if any(chain.group().count(".") >= _MAX_KEY_PARTS for chain in _CHAIN.finditer(_STRING.sub("_", text))):
        raise InvalidManifest(f"{file}: a key has more than {_MAX_KEY_PARTS} parts.")
    try:
        table: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise InvalidManifest(f"{file}: lists or tables are nested too deeply.") from None
    except ValueError as error:  # TOMLDecodeError, or a number of 5,000 digits
        raise InvalidManifest(f"{file} is not TOML: {str(error)[:300]}") from None
    _check_bounds(file, table)
    return table


def _check_bounds(file: Path, table: dict[str, Any]) -> None:
    """Refuse values nested so deeply that recursion over them fails, and integers too long to print."""
    waiting: list[tuple[str, Any, int]] = [("", table, 0)]
    while waiting:
        key, value, depth = waiting.pop()
        if depth > _MAX_TOML_DEPTH:
            raise InvalidManifest(f"{file}: {key[:80]} is nested deeper than {_MAX_TOML_DEPTH}.")
        if isinstance(value, dict):
            waiting += [(f"{key[:80]}.{name}" if key else name, item, depth + 1) for name, item in value.items()]
        elif isinstance(value, list):
            waiting += [(f"{key[:80]}[{at}]", item, depth + 1) for at, item in enumerate(value)]
        elif type(value) is int and value not in _INTEGERS:
            raise InvalidManifest(f"{file}: {key}: an integer of more than 64 bits.")


def read_text(file: Path) -> str:
    """Return the text of a file in a stranger's folder. InvalidManifest if it is large, not regular or not UTF-8."""
    try:
        return read_bounded(file, MAX_FILE_BYTES).decode("utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InvalidManifest(f"{file} is not UTF-8: byte {error.start}.") from None
    except OSError as error:
        raise InvalidManifest(f"{file} can't be read: {error.strerror}.") from None
    except ValueError as error:
        raise InvalidManifest(str(error)) from None
