"""What goes into the folder of an image: the code of the environments, and every wheel with its hash.

Nothing of the environments is imported or run. Only wheels are fetched, so nothing is built on this machine.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution, packages_distributions
from pathlib import Path

from paddock.errors import DependencyNotInstalled, InvalidManifest
from paddock.package.dependencies import OPTIONS, PIP, find_wanted

DISTRIBUTION = "paddock-rl"
_LEFT_OUT = shutil.ignore_patterns(".git", "__pycache__", ".venv", ".tox", "*.pyc", "*-image")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # of every file in our wheel: the same code is the same wheel
_GLIBC = range(17, 29)  # 2.17 to 2.28: wheels for these run in every image of the last years


@dataclass(frozen=True)
class Contents:
    """What goes into an image. ``targets`` are for ``paddock serve``, there; ``code``: files and folders below /env."""

    name: str
    targets: tuple[str, ...]
    code: dict[str, Path]
    requirements: tuple[str, ...]
    locked: tuple[str, ...] = ()


def find_contents(text: str) -> Contents:
    """Find what serving ``text`` takes: a folder, an id, ``module:Id-v0``, or a distribution with environments."""
    from paddock.making.payload import pack
    from paddock.making.plan import plan
    from paddock.making.target import locate, split_folder

    if (split := split_folder(text)) is not None:
        folder, id = Path(split[0]).expanduser().resolve(), split[1]
        wanted = find_wanted(folder)
        served = f"/env/{folder.name}" + (f":{id}" if id is not None else "")
        lines = wanted.lines
        return Contents(
            folder.name,
            (served,),
            {folder.name: folder},
            () if wanted.locked else lines,
            lines if wanted.locked else (),
        )
    if (ids := _plugins_of(text)) and ":" not in text:
        return Contents(text, tuple(ids), {}, (_pin(distribution(text)),))
    target = locate(text)
    files = {Path(path).name: Path(path) for path in pack(plan(target)).modules.values()}
    top = {target.module.partition(".")[0]} if target.module is not None else set()
    if target.spec is not None and isinstance(target.spec.entry_point, str):
        top.add(target.spec.entry_point.partition(":")[0].partition(".")[0])
    owners = packages_distributions()
    found = {_pin(distribution(owners[one][0])) for one in top - {"paddock"} if one in owners}
    return Contents(text.rpartition(":")[2].rpartition("/")[2], (text,), files, tuple(sorted(found)))


def _plugins_of(name: str) -> list[str]:
    try:
        return sorted(one.name for one in distribution(name).entry_points if one.group == "paddock.envs")
    except Exception:  # no such distribution, or not a name of one
        return []


def _pin(found: Distribution) -> str:
    return f"{found.metadata['Name']}=={found.version}"


def fill_folder(contents: Contents, out: Path) -> list[str]:
    """Write ``wheels/`` with ``requirements.txt`` and ``env/``; return the pinned requirements."""
    out = out.absolute()
    for name in ("wheels", "env"):
        shutil.rmtree(out / name, ignore_errors=True)
        (out / name).mkdir(parents=True)
    for name, path in contents.code.items():
        _copy(path, out / "env" / name, out)
    with tempfile.TemporaryDirectory(prefix="paddock-wheel-") as folder:
        own = write_own_wheel(Path(folder))
        # Of locked requirements each one is named, with its hashes; of the others pip finds what they need.
        if contents.locked:
            asked = Path(folder, "locked.txt")
            asked.write_text("".join(f"{line}\n" for line in contents.locked), encoding="utf-8")
            _download(out / "wheels", ["--require-hashes", "--no-deps", "-r", str(asked)])
        _download(out / "wheels", [*contents.requirements, f"{own}[server]"])
    lines = [f"{_pinned(wheel)} --hash=sha256:{_digest(wheel)}" for wheel in sorted((out / "wheels").glob("*.whl"))]
    _refuse_two_versions(lines)
    (out / "wheels" / "requirements.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return [line.partition(" ")[0] for line in lines]


def _download(wheels: Path, words: list[str]) -> None:
    machine = platform.machine()
    places = [f"manylinux_2_{minor}_{machine}" for minor in _GLIBC] + [f"linux_{machine}", "any"]
    python = "{}.{}".format(*sys.version_info)
    # For the image's platform, which is Linux with this machine's processor and Python.
    where = [word for place in places for word in ("--platform", place)] + ["--python-version", python]
    command = [sys.executable, "-I", "-c", PIP, "download", *OPTIONS, *where, "--dest", str(wheels), *words]
    done = subprocess.run(  # noqa: S603 - this Python, and checked lines
        command, cwd=wheels, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = "\n".join(line for line in done.stderr.splitlines() if "WARNING" not in line)[-2000:]
        raise DependencyNotInstalled(f"pip could not fetch the image's wheels:\n{said}")


def _pinned(wheel: Path) -> str:
    name, version = wheel.name.split("-")[:2]
    return f"{name}=={version}"


def _refuse_two_versions(lines: Iterable[str]) -> None:
    found: dict[str, str] = {}
    for line in lines:
        name, _, version = line.partition(" ")[0].partition("==")
        if found.setdefault(name.lower(), version) != version:
            raise InvalidManifest(
                f"The lock has {name} {version} or {found[name.lower()]}, and paddock's server needs the other one. "
                f"Lock it again, with a version that both accept."
            )


def _digest(wheel: Path) -> str:
    return hashlib.sha256(wheel.read_bytes()).hexdigest()


def _copy(source: Path, target: Path, out: Path) -> None:
    """Copy a file or folder so that anyone in the image may read it. What leads out of it is copied as a link."""
    if source.is_file():
        shutil.copyfile(source, target)
    else:
        inside = out.resolve()

        def left_out(folder: str, names: list[str]) -> set[str]:
            skipped = _LEFT_OUT(folder, names)
            return skipped | {name for name in names if Path(folder, name).resolve() == inside}

        shutil.copytree(source, target, symlinks=True, ignore=left_out)
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)


# ── Our own wheel, from the code that runs: paddock is on no index ──


def write_own_wheel(folder: Path) -> Path:
    """Pack the paddock that runs into a wheel in ``folder``, and return its path. The same code is the same wheel."""
    installed = distribution(DISTRIBUTION)
    home = Path(__file__).parents[2]
    info = f"paddock_rl-{installed.version}.dist-info"
    files = {f"paddock/{path.relative_to(home).as_posix()}": path.read_bytes() for path in _own_files(home)}
    for name in ("METADATA", "entry_points.txt"):
        files[f"{info}/{name}"] = (installed.read_text(name) or "").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: paddock\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([name, f"sha256={digest}", len(data)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode()
    wheel = folder / f"paddock_rl-{installed.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.compress_type = 0o644 << 16, zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _own_files(home: Path) -> Iterator[Path]:
    for path in sorted(home.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path
