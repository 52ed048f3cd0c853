"""The source files of a target, parsed, and the names that their code uses. Nothing is imported."""

from __future__ import annotations

import ast
import builtins
import os
import tokenize
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.machinery import EXTENSION_SUFFIXES
from io import BytesIO
from pathlib import Path

from paddock.testing.rules import short_path

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
    """Read a module's file, or all files in a package's folder. Links out of it are not followed."""
    if not path.is_dir():
        return [_source(path)]
    files = list(_files(path))
    found = [_source(file) for file in files[:MAX_FILES]]
    if len(files) > MAX_FILES:
        found.append(Source(short_path(path), fault=f"there are more than {MAX_FILES} files; the rest was not read"))
    return found


def registered_ids(path: Path) -> list[str]:
    """Return the ids that a file's calls of ``register`` spell out."""
    tree = _source(path).tree
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)] if tree is not None else []
    named = [
        [*call.args[:1], *(one.value for one in call.keywords if one.arg == "id")]
        for call in calls
        if (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) == "register"
    ]
    return [one.value for ids in named for one in ids if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _files(folder: Path) -> Iterator[Path]:
    """Yield files with code, in the same order everywhere. ``os.walk`` does not enter folders that are links."""
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
            return Source(name, fault="it is not a regular file")
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


# ── Uses, under full names: ``import numpy as np; np.random.rand()`` uses ``numpy.random.rand`` ──
#
# Scopes are not followed: a name that a file imports anywhere means that everywhere in it. A name that begins with
# ``?.`` has an owner that only a run can tell.

UNKNOWN = "?"
_NOT_RUN = ("__name__ == '__main__'", "TYPE_CHECKING", "typing.TYPE_CHECKING")


@dataclass(frozen=True)
class Use:
    """A name that is imported, called or mentioned. ``functions``: those around it, none at import."""

    name: str
    node: ast.AST
    line: int
    functions: tuple[str, ...] = ()
    call: ast.Call | None = None


class Names:
    """Full names of a file's expressions."""

    def __init__(self, nodes: Iterable[ast.AST]) -> None:
        self._imported: dict[str, str] = {}
        self._own: set[str] = set()
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self._imported.update(_bound(node))
            elif isinstance(node, _DEFINITIONS):
                self._own.add(node.name)
            elif isinstance(node, ast.Name) and not _is_load(node):
                self._own.add(node.id)

    def full(self, node: ast.AST) -> str:
        """Return ``os.path.join`` for that expression. Calls and ``/`` are ignored: ``Path(a) / b`` is a Path."""
        if isinstance(node, ast.Attribute):
            return f"{self.full(node.value)}.{node.attr}"
        if isinstance(node, ast.Call):
            return module_named_in(node) or self.full(node.func)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self.full(node.left)
        return self._first(node.id) if isinstance(node, ast.Name) else UNKNOWN

    def import_of(self, name: str) -> str | None:
        """Return what an import bound this name to."""
        return self._imported.get(name)

    def _first(self, name: str) -> str:
        if name in self._imported:
            return self._imported[name]
        if name in _BUILTINS and name not in self._own:
            return f"builtins.{name}"
        return name if name == "__file__" else f"{UNKNOWN}.{name}"


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_BUILTINS = frozenset(vars(builtins))


def module_named_in(call: ast.Call) -> str | None:
    """Return the module that ``import_module("…")`` or ``__import__("…")`` imports."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args else None
    if name in ("import_module", "__import__") and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return None


def uses_of(tree: ast.Module, names: Names) -> list[Use]:
    """List all uses, in the order of the file, without code that runs only as a script or for type checkers."""
    visitor = _Uses(names)
    visitor.visit(tree)
    return visitor.found


class _Uses(ast.NodeVisitor):
    def __init__(self, names: Names) -> None:
        self.names, self.found = names, list[Use]()
        self._functions: tuple[str, ...] = ()
        self._class = ""

    def _add(self, name: str, node: ast.expr | ast.stmt, call: ast.Call | None = None) -> None:
        if call is not None or not name.startswith(UNKNOWN):  # an unknown name matters only if it is called
            self.found.append(Use(name, node, node.lineno, self._functions, call))

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._add(f"{'.' * node.level}{node.module or ''}.{alias.name}", node)

    def visit_Call(self, node: ast.Call) -> None:
        name = self.names.full(node.func)
        self._add(name, node, node)
        if (module := module_named_in(node)) is not None:
            self._add(module, node)
        self._visit_owner(node.func)
        for part in (*node.args, *node.keywords):
            self.visit(part)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._add(self.names.full(node), node)
        self._visit_owner(node)

    def visit_Name(self, node: ast.Name) -> None:
        if _is_load(node):
            self._add(self.names.full(node), node)

    def _visit_owner(self, node: ast.expr) -> None:
        """Visit the expression that a chain of attributes begins with, unless that is a name."""
        while isinstance(node, ast.Attribute):
            node = node.value
        if not isinstance(node, ast.Name):
            self.visit(node)

    def visit_If(self, node: ast.If) -> None:
        skipped = ast.unparse(node.test) in _NOT_RUN
        for part in (*(() if skipped else (node.test, *node.body)), *node.orelse):
            self.visit(part)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        outer, self._class = self._class, f"{node.name}."
        for statement in node.body:
            self.visit(statement)
        self._class = outer

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        # These run when the function is defined.
        for part in (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)):
            self.visit(part)
        self._within(f"{self._class}{node.name}", node.body)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._within("<lambda>", [node.body])

    def _within(self, name: str, parts: Iterable[ast.AST]) -> None:
        outer, self._functions = self._functions, (*self._functions, name)
        outer_class, self._class = self._class, ""
        for part in parts:
            self.visit(part)
        self._functions, self._class = outer, outer_class


def _bound(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Yield the names that an import binds, and what they mean."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield (alias.name.partition(".")[0],) * 2


def _is_load(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)
