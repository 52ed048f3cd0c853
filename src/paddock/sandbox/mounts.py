"""What code behind the wall sees of this machine, as a list of mounts. What is not listed does not exist inside.

Below a folder that such code may write to, every name and every link is its own. So nothing that a policy names may be
found by way of one; a path without such a folder on the way stays where it is, however often it is looked up.
"""

# ruff: noqa: PTH110, PTH112, PTH114, PTH115, PTH116, PTH117, PTH118, PTH119, PTH120, PTH207
# Paths are texts here: arguments of mounts, compared by name.

from __future__ import annotations

import functools
import os
import re
import stat
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from glob import escape, glob
from pathlib import Path
from typing import Literal

from paddock.errors import InvalidPolicy
from paddock.sandbox.policy import Policy, covers

How = Literal["ro", "rw", "dev", "scratch", "proc", "link", "empty", "list"]

TARGET = "/target"  # where the modules of an environment are found inside
SCRATCH = "/tmp"  # noqa: S108 - the one inside, which starts empty and ends with the worker

_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/lib32", "/usr/libx32")
# Links below /usr on most systems, folders on others.
_MERGED_LIBRARIES = ("/lib", "/lib64", "/lib32", "/libx32")
_MERGED_PROGRAMS = ("/bin", "/sbin")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_TAKEN = (SCRATCH, TARGET, "/proc", "/dev", "/sys")
_BOUND: tuple[How, ...] = ("ro", "rw", "dev")  # mounts with a source on this machine
_MOST_LINKS = 40  # on the way to a file, as for the kernel
_STORES = ("/nix/store", "/gnu/store")  # every library has a folder of its own there


@dataclass(frozen=True)
class Mount:
    """``source`` of this machine at ``target`` inside. A "link" leads to ``source``; "proc" and "scratch" have none.

    "empty" hides what a mount above it would show. Of a "list" the names can be read, and nothing else.
    """

    source: str
    target: str
    how: How


@dataclass(frozen=True)
class PythonWorld:
    """The interpreter, and where it finds modules: the standard library, site-packages, paddock; nothing else."""

    executable: str
    libraries: tuple[str, ...]  # the standard library's folder, libpython and other shared libraries
    path: tuple[str, ...]
    package: str  # paddock's own folder

    @classmethod
    def here(cls) -> PythonWorld:
        """That of this process, without its current folder and other entries of its own that are not site-packages."""
        # The interpreter itself: a virtual environment's is a link to it, and its site-packages are on the path anyway.
        executable = getattr(sys, "_base_executable", None) or sys.executable
        entries = tuple(entry for entry in sys.path if os.path.isabs(entry) and os.path.exists(entry))
        real = tuple(os.path.realpath(entry) for entry in entries)  # a link may lead elsewhere by now
        return _world(executable, sys.base_prefix, sys.base_exec_prefix, entries, real)


@functools.lru_cache(maxsize=8)
def _world(
    executable: str, prefix: str, exec_prefix: str, entries: tuple[str, ...], real_entries: tuple[str, ...]
) -> PythonWorld:
    libraries = _libraries(os.path.realpath(prefix), os.path.realpath(exec_prefix))
    package = str(Path(__file__).resolve().parent.parent)
    packages = ("site-packages", "dist-packages", "python{}{}.zip".format(*sys.version_info))
    path = []
    for entry, real in zip(entries, real_entries, strict=True):
        if os.path.basename(entry) in packages or any(
            covers(one, entry) or covers(os.path.realpath(one), real) for one in (*libraries, *_LIBRARIES)
        ):
            path.append(os.path.normpath(entry))
    if os.path.dirname(package) not in path:
        path.append(os.path.dirname(package))
    return PythonWorld(os.path.realpath(executable), libraries, tuple(dict.fromkeys(path)), package)


@functools.cache
def _libraries(*prefixes: str) -> tuple[str, ...]:
    """What the interpreter needs of its prefixes, and no more of them: a prefix may be ~/.local, or a home folder."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}{'t' if 't' in getattr(sys, 'abiflags', '') else ''}"
    paths: list[str] = []
    for prefix in dict.fromkeys(prefixes):
        if os.path.isdir(f"{prefix}/conda-meta"):
            paths.append(f"{prefix}/lib")  # every package's libraries are in there
            continue
        for folder in (f"{prefix}/lib", f"{prefix}/lib64"):
            if not os.path.islink(folder):
                paths.append(f"{folder}/python{version}")
                if os.path.realpath(folder) not in (*_LIBRARIES, *_MERGED_LIBRARIES):  # those are shown anyway
                    paths += sorted(glob(f"{escape(folder)}/lib*.so*"))
    with suppress(OSError):  # it may have been linked with a libpython that lies elsewhere
        maps = Path("/proc/self/maps").read_text(errors="surrogateescape")
        paths += re.findall(r"(/.*/libpython[^/]*)$", maps, re.MULTILINE)
    return tuple(one for one in dict.fromkeys(paths) if os.path.exists(one))


def list_mounts(
    policy: Policy, world: PythonWorld, modules: Mapping[str, str] | None = None, *, program: bool = False
) -> list[Mount]:
    """The mounts for ``policy``, parents before what lies below them, with every link in a source followed.

    ``program``: what runs is not part of paddock, and sees of paddock only what puts up its wall: the rest holds
    graders and the answers to what agents are asked. InvalidPolicy: a source does not exist, or what may be written to
    could lead it elsewhere.
    """
    for name in ("read", "write"):
        for one in getattr(policy, name):
            if any(covers(reserved, one) if reserved != SCRATCH else one == reserved for reserved in _TAKEN):
                raise InvalidPolicy(
                    f"Policy({name}=…): {one!r} can't be used: inside the sandbox that path is something else."
                )
    mounts = [Mount("", SCRATCH, "scratch"), *_system(policy), *_python(world), *_modules(modules or {})]
    granted = any(covers(one, world.package) for one in (*policy.read, *policy.write))
    mounts += _hide_paddock(world, mounts) if program and not granted else [Mount(world.package, world.package, "ro")]
    for name in ("read", "programs"):
        mounts += [Mount(_existing(name, one), one, "ro") for one in getattr(policy, name)]
    mounts += [Mount(_existing("write", one), one, "rw") for one in policy.write]
    mounts += [Mount(_existing("devices", one), one, "dev") for one in policy.devices]
    if policy.processes > 1 or policy.programs:  # for a lone worker /proc would only be more to attack
        mounts.append(Mount("", "/proc", "proc"))
    changeable = writable_paths(policy)
    check_paths(policy, changeable)
    # Before mounts are left out that one above shows already: it must show what was meant.
    real = {
        one.source: resolve_fixed("What it needs to run", one.source, changeable) for one in mounts if one.how in _BOUND
    }
    return [replace(one, source=real[one.source]) if one.how in _BOUND else one for one in _in_order(tuple(mounts))]


def in_place(mounts: Iterable[Mount]) -> list[Mount]:
    """The same without namespaces: everything is where it is on this machine, and what is hidden is left out."""
    mounts = list(mounts)
    real = [Mount(one.source, one.source, one.how) for one in mounts if one.source and one.how != "link"]
    for hidden in mounts:
        if hidden.how == "empty":
            place = os.path.realpath(hidden.target)
            real = [part for one in real for part in _around(one, place)]
    return real


def _around(one: Mount, hidden: str) -> Iterable[Mount]:
    if one.how not in ("ro", "list") or not covers(one.source, hidden):
        yield one
    elif one.source != hidden:
        yield Mount(one.source, one.source, "list")
        for entry in sorted(os.scandir(one.source), key=lambda entry: entry.name):
            # A link leads to what is listed itself, or to what was not shown before.
            if one.how == "ro" and not entry.is_symlink():
                yield from _around(Mount(entry.path, entry.path, "ro"), hidden)


def inside_path(name: str, source: str) -> str:
    """Where the module ``name`` from the file or folder ``source`` is found behind namespaces."""
    return f"{TARGET}/{name}" if os.path.isdir(source) else f"{TARGET}/{name}/{os.path.basename(source)}"


def private(mounts: Iterable[Mount]) -> list[str]:
    """The targets of those that only their owner may use: another uid sees them and can do nothing with them."""
    targets = []
    for one in mounts:
        if one.how in ("ro", "rw"):
            about = os.stat(one.source)
            needs = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(about.st_mode) else 0)
            needs |= stat.S_IWOTH if one.how == "rw" else 0
            if about.st_mode & needs != needs:
                targets.append(one.target)
    return targets


def _system(policy: Policy) -> Iterable[Mount]:
    for folder in (*_LIBRARIES, *_STORES):
        if os.path.isdir(folder) and not os.path.islink(folder):
            yield Mount(folder, folder, "ro")
    for folder in (*_MERGED_LIBRARIES, *(_MERGED_PROGRAMS if policy.programs else ())):
        if os.path.islink(folder):
            yield Mount(os.path.relpath(os.path.realpath(folder), "/"), folder, "link")
        elif os.path.isdir(folder) and folder in _MERGED_LIBRARIES:
            yield Mount(folder, folder, "ro")
    if os.path.exists("/etc/ld.so.cache"):
        yield Mount("/etc/ld.so.cache", "/etc/ld.so.cache", "ro")
    for device in DEVICES:
        yield Mount(device, device, "dev")


def _python(world: PythonWorld) -> Iterable[Mount]:
    for one in (world.executable, *world.libraries):
        yield Mount(one, one, "ro")
    beside = os.path.dirname(world.package)
    for entry in world.path:
        if entry != beside or os.path.basename(entry) in ("site-packages", "dist-packages"):
            yield Mount(entry, entry, "ro")


def _hide_paddock(world: PythonWorld, mounts: Iterable[Mount]) -> list[Mount]:
    """Hide paddock wherever it would be seen, except for what puts up the wall, which any path to it may start."""
    paths = [world.package]
    for one in mounts:
        # lib64 is a link to lib in many virtual environments, and both are shown.
        source = os.path.realpath(one.source) if one.how == "ro" else ""
        below = any(covers(library, one.target) and library != one.target for library in world.libraries)
        if source and covers(source, world.package) and not below:
            paths.append(one.target + world.package[len(source) :])
    hidden = list(paths)
    # Other copies of paddock know the same answers: this one may be a checkout, or in a virtual environment.
    own = [one for library in (*_LIBRARIES, *world.libraries) for one in glob(f"{escape(library)}/python*/*-packages")]
    own += [one for library in world.libraries for one in glob(f"{escape(library)}/*-packages")]
    for folder in dict.fromkeys((*world.path, *own)):
        place = os.path.join(folder, os.path.basename(world.package))
        real = os.path.realpath(place)
        if os.path.isdir(real) and real != world.package:
            # A library's folder is shown as a whole, links and all: what they lead to is hidden by its own name.
            whole = next((library for library in world.libraries if covers(library, folder)), folder)
            hidden.append(place if os.path.realpath(whole) + place[len(whole) :] == real else real)
    inner = os.path.join("sandbox", "inside")
    boot = [Mount(os.path.join(world.package, inner), os.path.join(one, inner), "ro") for one in dict.fromkeys(paths)]
    return [*(Mount("", one, "empty") for one in dict.fromkeys(hidden)), *boot]


def _modules(modules: Mapping[str, str]) -> Iterable[Mount]:
    for name, source in modules.items():
        if not name.isidentifier():
            raise InvalidPolicy(f"{name!r} is not the name of a top-level module.")
        if not os.path.isabs(source) or not os.path.exists(source):
            raise InvalidPolicy(f"The module {name!r} is not at {source!r}: expected an absolute path that exists.")
        yield Mount(source, inside_path(name, source), "ro")


def _existing(name: str, path: str) -> str:
    if not os.path.exists(path):
        raise InvalidPolicy(f"Policy({name}=…): {path!r} does not exist here. Make it first, or leave it out.")
    return path


@functools.lru_cache(maxsize=64)
def _in_order(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """Parents first, the later of two for one place, and none that a mount above it shows already."""
    links = {one.target: one.source for one in mounts if one.how == "link"}
    chosen: dict[str, Mount] = {}
    for one in mounts:
        target = one.target
        link = next((link for link in links if one.how != "link" and covers(link, target)), None)
        if link is not None:
            target = "/" + links[link] + target[len(link) :]
        # What may be written stays so, whatever comes after it.
        if not (target in chosen and chosen[target].how == "rw" and one.how == "ro"):
            chosen[target] = Mount(one.source, target, one.how)
    result: list[Mount] = []
    for one in sorted(chosen.values(), key=lambda mount: mount.target.split("/")):
        above = next((other for other in reversed(result) if covers(other.target, one.target)), None)
        if one.how == "empty" and above is None:
            continue  # nothing would show it
        if above is None or above.how != one.how or above.source + one.target[len(above.target) :] != one.source:
            result.append(one)
    return tuple(result)


def follow_links(path: str) -> tuple[str, list[str]]:
    """Where ``path`` leads, and each folder in which a name was looked up on the way."""
    here, names, folders, links = "/", path.split("/")[::-1], [], 0
    while names:
        name = names.pop()
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        folders.append(here)
        there = os.path.join(here, name)
        try:
            leads = os.readlink(there)
        except OSError:  # not a link, or nothing at all
            here = there
            continue
        links += 1
        if links > _MOST_LINKS:
            raise InvalidPolicy(f"{path!r} is a loop of more than {_MOST_LINKS} links. Name the file or folder itself.")
        here = "/" if leads.startswith("/") else here
        names += leads.split("/")[::-1]
    return here, folders


def writable_paths(policy: Policy) -> dict[str, str]:
    """What an environment with ``policy``, or its workspaces, may write to: where it is, and the name for it."""
    below = {} if policy.workspace is None else writable_paths(policy.workspace)
    return {**below, **{follow_links(one)[0]: one for one in policy.write}}


def resolve_fixed(name: str, path: str, writable: Mapping[str, str]) -> str:
    """Where ``path`` leads; InvalidPolicy if that is through what may be written to. ``name`` says whose path it is."""
    real, folders = follow_links(path)
    for root, named in writable.items():
        if any(covers(root, folder) for folder in folders):
            raise InvalidPolicy(
                f"{name}: {path!r} lies below {named!r}, which may be written to: what is written there could be a "
                f"link to any other place. Name only {named!r} itself, or something outside of it."
            )
    return real


def check_paths(policy: Policy, writable: Mapping[str, str]) -> None:
    """InvalidPolicy if anything that ``policy`` names, or its workspaces', could be led elsewhere."""
    for name in ("read", "write", "programs", "devices"):
        for one in getattr(policy, name):
            resolve_fixed(f"Policy({name}=…)", one, writable)
    if policy.cassette is not None:
        real = resolve_fixed("Policy(cassette=…)", policy.cassette, writable)
        # The trusted side writes to it, and believes what it says.
        if any(covers(root, real) for root in writable):
            raise InvalidPolicy(f"Policy(cassette={policy.cassette!r}) may be written to as well. Put it elsewhere.")
    if policy.workspace is not None:
        check_paths(policy.workspace, writable)


def find_escapes(request: Policy, grant: Policy) -> list[str]:
    """Paths of ``request`` that are within ``grant`` by name alone: a link leads out of what was granted."""
    either = (*grant.read, *grant.write)
    pairs = [(request.read, either), (request.write, grant.write)]
    pairs += [(request.programs, grant.programs), (request.devices, grant.devices)]
    return [
        path
        for wanted, allowed in pairs
        for path in wanted
        if not any(covers(one, path) and covers(follow_links(one)[0], follow_links(path)[0]) for one in allowed)
    ]
