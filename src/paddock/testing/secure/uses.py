"""What a file's code uses, under full names: ``import numpy as np; np.random.rand()`` uses ``numpy.random.rand``.

Scopes are not followed: a name that a file imports anywhere means that everywhere in the file. What begins with ``?.``
has an owner that only a run can tell.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

UNKNOWN = "?"
_NOT_RUN = ("__name__ == '__main__'", "TYPE_CHECKING", "typing.TYPE_CHECKING")


@dataclass(frozen=True)
class Use:
    """A name that is imported, called or mentioned. ``functions``: those that it stands in, none at import."""

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
            elif isinstance(node, ast.Name) and not _loaded(node):
                self._own.add(node.id)

    def full(self, node: ast.AST) -> str:
        """``os.path.join`` for that expression. Calls and ``/`` are passed over: ``Path(a) / b`` is a Path."""
        if isinstance(node, ast.Attribute):
            return f"{self.full(node.value)}.{node.attr}"
        if isinstance(node, ast.Call):
            return module_named_in(node) or self.full(node.func)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            return self.full(node.left)
        return self._first(node.id) if isinstance(node, ast.Name) else UNKNOWN

    def imported(self, name: str) -> str | None:
        """What an import bound this name to."""
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
    """The module that ``import_module("…")`` or ``__import__("…")`` imports."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    first = call.args[0] if call.args else None
    if name in ("import_module", "__import__") and isinstance(first, ast.Constant) and isinstance(first.value, str):
        return first.value
    return None


def uses_of(tree: ast.Module, names: Names) -> list[Use]:
    """All uses, in the order of the file; what only runs as a script or for type checkers is left out."""
    visitor = _Uses(names)
    visitor.visit(tree)
    return visitor.found


class _Uses(ast.NodeVisitor):
    def __init__(self, names: Names) -> None:
        self.names, self.found = names, list[Use]()
        self._functions: tuple[str, ...] = ()
        self._class = ""

    def _add(self, name: str, node: ast.expr | ast.stmt, call: ast.Call | None = None) -> None:
        if call is not None or not name.startswith(UNKNOWN):  # what nobody knows tells something only when called
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
        if _loaded(node):
            self._add(self.names.full(node), node)

    def _visit_owner(self, node: ast.expr) -> None:
        """The expression that a chain of attributes begins with, unless that is a name."""
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
    """Names that an import binds, and what they are."""
    for alias in node.names:
        if isinstance(node, ast.ImportFrom):
            yield alias.asname or alias.name, f"{'.' * node.level}{node.module or ''}.{alias.name}"
        elif alias.asname:
            yield alias.asname, alias.name
        else:
            yield (alias.name.partition(".")[0],) * 2


def _loaded(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)
