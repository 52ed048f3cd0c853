"""Dependencies of a folder: what its files ask for, and how to install that into a folder of its own.

Only wheels are installed, because anything else would run its build outside the wall. So a requirement that names a URL
or a path is refused.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from paddock.errors import DependencyNotInstalled, InvalidManifest
from paddock.package import DISTRIBUTION, FILE, LOCK, VERSIONS, normal_name, read_manifest, read_text, read_toml
from paddock.package.openenv import inside, parse
from paddock.trust.files import home_folder

_REQUIREMENTS = ("requirements.txt", "server/requirements.txt")
_OPENENV = ("openenv", "openenv-core")  # ours stands for it in the worker, unless it is installed beside paddock
_SERVER_ONLY = ("fastapi", "uvicorn")  # paddock's own server needs neither
_WITH_OPENENV = ("fastapi", "fastmcp", "gradio", "httpx", "pydantic", "requests", "uvicorn", "websockets")
_MAX_BYTES = 1 << 22  # of code whose imports are read
_MAX_CONDITIONS = 32  # of one package of a lock; with more it is installed without any
# pip heeds --only-binary for packages of an index, and still builds what a wheel's metadata names by URL. So it may
# start no program at all; wheels need none.
PIP = """
import runpy, sys
def refuse(event, _):
    if event in ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"):
        raise PermissionError("it needs a build or another program, and only wheels are installed")
sys.addaudithook(refuse)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
OPTIONS = ("--quiet", "--no-input", "--disable-pip-version-check", "--only-binary", ":all:")
_MARKER = r";(?!.* -)[ -?A-\[\]-~]*"  # without an option of pip, and what a terminal can be shown as it is
_REQUIREMENT = re.compile(
    rf"{DISTRIBUTION} ?(?:\[[\w ,.-]*\])? ?(?:\({VERSIONS}\)|{VERSIONS})?(?:{_MARKER})?", re.ASCII
)
_HASH = re.compile(r"\s*--hash=(sha256:[0-9a-f]{64})(?=\s|$)")


@dataclass(frozen=True)
class Wanted:
    """What a folder asks for, as lines for pip. ``locked``: each line has its hashes, and nothing is resolved.

    ``files``: where it is written. ``left_out``: what is not installed, because paddock stands for it.
    """

    lines: tuple[str, ...]
    locked: bool
    files: tuple[str, ...]
    left_out: tuple[str, ...]

    @property
    def place(self) -> Path:
        """The folder for exactly this, on this Python."""
        python = [sys.implementation.cache_tag, sys.platform, os.uname().machine if hasattr(os, "uname") else ""]
        digest = sha256(json.dumps([python, self.locked, self.lines]).encode()).hexdigest()
        return _root() / digest[:32]

    @property
    def names(self) -> list[str]:
        """The lines without their hashes."""
        return [_HASH.sub("", line) for line in self.lines]

    def sentences(self) -> Iterator[str]:
        """Say what would be installed, and from where."""
        how = "by hash, as locked" if self.locked else "with what they need"
        yield f"To install, as {' and '.join(self.files)} asks, wheels only, {how}, into {self.place}:"
        yield from (f"  {name}" for name in self.names)
        if self.left_out:
            yield f"Left out, because paddock stands for them: {', '.join(self.left_out)}"


def find_wanted(folder: str | os.PathLike[str]) -> Wanted:
    """Read what the folder asks for.

    With a ``paddock.toml``: its lock, or what it declares. In OpenEnv's form: ``uv.lock``, requirements with hashes, or
    pyproject.toml and requirements.
    """
    real = Path(os.path.realpath(folder))
    if (real / FILE).is_file():
        return _read_declared(real)
    imported = _imports(real)
    lock = real / "uv.lock"
    if lock.is_file():
        try:
            lines, left_out = _read_lock(inside(real, lock), imported)
        except (TypeError, AttributeError, KeyError):
            raise InvalidManifest(f"{lock} is not a lock as uv writes it.") from None
        return Wanted(tuple(lines), True, (lock.name,), tuple(left_out))
    found: dict[str, list[str]] = {}
    project = real / "pyproject.toml"
    if project.is_file():
        listed = read_toml(inside(real, project)).get("project", {})
        listed = listed.get("dependencies", []) if isinstance(listed, dict) else []
        found[project.name] = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    for name in _REQUIREMENTS:
        if (real / name).is_file():
            found[name] = _read_requirements(inside(real, real / name))
            if any("--hash=" in line for line in found[name]):  # a lock: it names everything
                found = {name: found[name]}
                break
    locked = any("--hash=" in line for lines in found.values() for line in lines)
    lines, left_out = _choose([(name, line) for name, lines in found.items() for line in lines], imported, locked)
    return Wanted(tuple(lines), locked, tuple(found), tuple(left_out))


def _read_declared(folder: Path) -> Wanted:
    declared = read_manifest(folder).dependencies
    lock = folder / LOCK
    if not lock.is_file():
        return Wanted(declared, False, (FILE,), ())
    lines = tuple(_check(LOCK, line, locked=True) for line in _read_requirements(inside(folder, lock)))
    for line in lines:
        exact = line.partition(";")[0]
        if "==" not in exact or "*" in exact:
            raise InvalidManifest(f"{lock}: {line[:80]!r} is not pinned. Expected name==version and its hashes.")
    names = set(map(normal_name, lines))
    if missing := [line for line in declared if normal_name(line) not in names]:
        raise InvalidManifest(f"{lock} does not lock {', '.join(missing)}, which {FILE} declares. Lock it again.")
    return Wanted(lines, True, (LOCK,), ())


def find_unmet(declared: Iterable[str], libraries: str | None) -> Iterator[str]:
    """Say which of these requirements the folder's code would not find, or find in another version.

    What is installed beside paddock comes first when it imports, so that counts before ``libraries``.
    """
    for line in declared:
        name = normal_name(line)
        beside = next(iter(distributions(name=name)), None)
        own = None if libraries is None else next(iter(distributions(name=name, path=[libraries])), None)
        found = beside or own
        if found is None:
            yield f"{line}, which is not installed for it"
        elif not _is_among(found.version, re.sub(DISTRIBUTION, "", line, count=1)):
            place = " beside paddock, where it is found first" if beside is not None else ""
            yield f"{line}, and {found.version} is installed{place}"


def _is_among(version: str, versions: str) -> bool:
    """Whether a version is among those by its release number: 2.0rc1 counts as 2.0."""
    have = _release(version)
    for operator, text in re.findall(r"([<>=!~]=?=?)([^,]+)", versions):
        want = _release(text)
        count = len(want)
        a, b = ((*numbers, 0, 0, 0, 0, 0)[:5] for numbers in (have, want))
        same = a[:count] == want if ".*" in text else a == b
        compatible = a >= b and a[: count - 1] == want[:-1]
        found = {"==": same, "!=": not same, ">=": a >= b, "<=": a <= b, ">": a > b, "<": a < b, "~=": compatible}
        if not found.get(operator, True):
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"\s*v?(?:\d+!)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, found[1].split("."))) if found else ()


def install(wanted: Wanted, place: Path | None = None) -> Path:
    """Install into ``place``, unless that is done already, and return the folder. One that exists is whole."""
    place = place or wanted.place
    if place.is_dir():
        return place
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=place.parent))
    try:
        (work / "libraries").mkdir(mode=0o755)
        (work / "asked.txt").write_text("".join(f"{line}\n" for line in wanted.lines), encoding="utf-8")
        locked = ["--require-hashes", "--no-deps"] if wanted.locked else []
        files = ["--target", str(work / "libraries"), "-r", str(work / "asked.txt")]
        command = [sys.executable, "-I", "-c", PIP, "install", *OPTIONS, *locked, *files]
        # In a folder of ours: pip reads no file of the folder that asks.
        done = subprocess.run(  # noqa: S603 - this Python, and a file of checked lines
            command, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = "\n".join(line for line in done.stderr.splitlines() if "WARNING" not in line)[-2000:]
            raise DependencyNotInstalled(f"pip could not install what {', '.join(wanted.files)} asks for:\n{said}")
        if not place.is_dir():
            (work / "libraries").rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return place


def _root() -> Path:
    own = os.environ.get("PADDOCK_CACHE")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home_folder() / ".cache") / "paddock"
    return (Path(own) if own and own != "none" else cache).absolute() / "libraries"


# ── What is written ──


def _choose(listed: list[tuple[str, str]], imported: set[str], locked: bool) -> tuple[list[str], list[str]]:
    """Return the requirements to install, and the names of those that paddock stands for."""
    lines: list[str] = []
    left_out: list[str] = []
    for file, line in listed:
        name = normal_name(line)
        if name in _OPENENV or (name in _SERVER_ONLY and name not in imported):
            left_out.append(name)
        else:
            lines.append(_check(file, line, locked))
    if left_out and not locked:  # OpenEnv brings these along, and the folder's code uses them
        have = {normal_name(line) for line in lines}
        lines += [name for name in _WITH_OPENENV if name in imported and name not in have]
    return list(dict.fromkeys(lines)), list(dict.fromkeys(left_out))


def _check(file: str, line: str, locked: bool) -> str:
    bare = " ".join(_HASH.sub("", line).split())
    if not _REQUIREMENT.fullmatch(bare):
        raise InvalidManifest(
            f"{file}: {line[:120]!r}: only packages of the index are installed, as 'name>=1.0'. A URL, a path or an "
            f"option would run or choose code outside the wall: install it yourself, or set it in pip's configuration."
        )
    if locked and "--hash=" not in line:
        raise InvalidManifest(f"{file}: {line[:120]!r} has no hash, but others have. Lock all of them.")
    return " ".join([bare, *(f"--hash={one}" for one in _HASH.findall(line))])


def _read_requirements(file: Path) -> list[str]:
    lines = (re.sub(r"(?:^|\s)#.*", "", line).strip() for line in read_text(file).replace("\\\n", " ").splitlines())
    return [line for line in lines if line]


def _read_lock(file: Path, imported: set[str]) -> tuple[list[str], list[str]]:
    """Return the packages of a ``uv.lock`` that the folder's own needs, each with its hashes."""
    packages: dict[str, list[dict[str, Any]]] = {}
    for one in read_toml(file).get("package", []):
        packages.setdefault(normal_name(one["name"]), []).append(one)
    roots = [one for versions in packages.values() for one in versions if {"editable", "virtual"} & set(one["source"])]
    if len(roots) != 1:
        raise InvalidManifest(f"{file}: expected one package whose source is this folder, found {len(roots)}.")
    direct = roots[0].get("dependencies", [])
    brought = [{"name": name} for name in _WITH_OPENENV if name in imported and name in packages]
    left_out: list[str] = []
    reached: dict[
        str, tuple[dict[str, Any], list[frozenset[str]]]
    ] = {}  # by version and extras: under which conditions
    waiting = [(edge, frozenset[str]()) for edge in [*direct, *brought]]
    while waiting:
        edge, condition = waiting.pop()
        name = normal_name(edge["name"])
        if name in _OPENENV or (name in _SERVER_ONLY and name not in imported and edge in direct):
            left_out.append(name)
            continue
        condition = condition | {edge["marker"]} if "marker" in edge else condition
        versions = [one for one in packages.get(name, []) if edge.get("version", one["version"]) == one["version"]]
        if not versions:
            raise InvalidManifest(f"{file}: {name} is needed, but not locked.")
        for one in versions:
            extras = edge.get("extra", [])
            _, known = reached.setdefault(f"{name}=={one['version']} {extras}", (one, []))
            if any(weaker <= condition for weaker in known):
                continue
            known.append(condition if len(known) < _MAX_CONDITIONS else frozenset())
            optional = [one.get("optional-dependencies", {}).get(extra, []) for extra in extras]
            waiting += [(below, known[-1]) for edges in (one.get("dependencies", []), *optional) for below in edges]
    return _lock_lines(file, reached), list(dict.fromkeys(left_out))


def _lock_lines(file: Path, reached: dict[str, tuple[dict[str, Any], list[frozenset[str]]]]) -> list[str]:
    conditions: dict[str, list[frozenset[str]]] = {}
    hashes: dict[str, list[str]] = {}
    for key, (package, known) in sorted(reached.items()):
        pinned = key.partition(" ")[0]
        conditions.setdefault(pinned, []).extend(known)
        hashes[pinned] = [wheel["hash"] for wheel in package.get("wheels", [])]
        if "registry" not in package["source"] or not hashes[pinned]:
            raise InvalidManifest(f"{file}: {pinned} has no wheel of an index. Only wheels are installed.")
    lines = []
    for pinned, known in conditions.items():
        alternatives = (" and ".join(f"({one})" for one in sorted(markers)) for markers in known)
        marker = "" if frozenset() in known else f" ; {' or '.join(alternatives)}"
        lines.append(_check(file.name, f"{pinned}{marker} {' '.join(f'--hash={one}' for one in hashes[pinned])}", True))
    return lines


def _imports(folder: Path) -> set[str]:
    """Return the top-level names that the folder's code imports when it is imported, not inside functions."""
    found: set[str] = set()
    left_bytes = _MAX_BYTES
    for file in [*sorted(folder.glob("*.py")), *sorted(folder.glob("server/**/*.py"))]:
        left_bytes -= file.stat().st_size
        if left_bytes < 0:
            break
        waiting: list[ast.AST] = list(parse(inside(folder, file)).body)
        while waiting:
            node = waiting.pop()
            if isinstance(node, ast.Import):
                found.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0] if node.level == 0 else "")
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.expr):
                waiting += ast.iter_child_nodes(node)
    return found
