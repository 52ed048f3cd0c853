"""The source files of a target, parsed. They are read as text: nothing is imported, and links out are not followed."""

from __future__ import annotations

import ast
import os
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from io import BytesIO
from pathlib import Path

from paddock.testing.finding import short_path

MAX_FILES = 500
MAX_BYTES = 1 << 20
_COMPILED = (*EXTENSION_SUFFIXES, ".pyc", ".so", ".pyd", ".dll", ".dylib")
_SKIPPED = frozenset({"__pycache__", ".git", ".venv", "node_modules"})


@dataclass(frozen=True)
class Source:
    """One file. ``tree`` is None if it can't be read, and ``fault`` says why. ``name`` is its path for the user."""

    name: str
    lines: tuple[str, ...] = ()
    tree: ast.Module | None = None
    fault: str = ""


def sources_of(path: Path) -> list[Source]:
    """What a module's file, or a package's folder, holds."""
    if not path.is_dir():
        return [_source(path)]
    files = list(_files(path))
    found = [_source(file) for file in files[:MAX_FILES]]
    if len(files) > MAX_FILES:
        found.append(Source(short_path(path), fault=f"there are more than {MAX_FILES} files; the rest was not read"))
    return found


def _files(folder: Path) -> Iterator[Path]:
    """Files with code, in the same order everywhere. ``os.walk`` does not enter folders that are links."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED and not Path(place, name).is_symlink())
        yield from (Path(place, name) for name in sorted(names) if name.endswith((".py", *_COMPILED)))


def _source(path: Path) -> Source:
    name = short_path(path)
    if path.name.endswith(_COMPILED):
        return Source(name, fault="it is compiled")
    if path.is_symlink():
        return Source(name, fault="it is a link")
    try:
        if not path.is_file():
            return Source(name, fault="it is no file")
        with path.open("rb") as stream:
            raw = stream.read(MAX_BYTES + 1)
        if len(raw) > MAX_BYTES:
            return Source(name, fault=f"it is larger than {MAX_BYTES:,} bytes")
        encoding, _ = tokenize.detect_encoding(BytesIO(raw).readline)
        text = raw.decode(encoding)
        with warnings.catch_warnings():  # about escapes in its strings
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except OSError as error:
        return Source(name, fault=f"it can't be read: {error.strerror}")
    except (SyntaxError, ValueError, LookupError, RecursionError, MemoryError) as error:
        return Source(name, fault=f"it can't be parsed: {type(error).__name__}: {str(error)[:200]}")
    return Source(name, tuple(text.split("\n")), tree)
