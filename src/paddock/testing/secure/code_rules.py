"""Rules that look at the names that code uses: processes, data as code, clocks, variables and the like."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from paddock.testing.secure.declared import Declared
from paddock.testing.secure.found import Found
from paddock.testing.secure.tables import (
    AROUND,
    CLOCK,
    EFFECTS,
    ENDS,
    FILE_METHODS,
    NATIVE,
    NETWORK,
    OTHERS,
    OWN_STREAMS,
    PROCESSES,
    RANDOM,
    RUN_DATA,
    VARIABLES,
    WAITS,
    entry_for,
    within,
)
from paddock.testing.secure.uses import Names, Use, module_named_in

_TABLES = {
    "starts-processes": PROCESSES,
    "runs-data": RUN_DATA,
    "native-code": NATIVE,
    "looks-around": AROUND,
    "changes-others": OTHERS,
    "waits": WAITS,
    "ends-process": ENDS,
}
# Drawing and closing are not part of the dynamics: a clock there changes no result.
_BESIDE = ("render", "_render", "close", "__del__")


def used_names(uses: Iterable[Use]) -> Iterator[Found]:
    """Each name that a table lists, whatever is declared."""
    for use in uses:
        for rule, table in _TABLES.items():
            if (entry := entry_for(use.name, table)) is not None:
                yield Found(rule, f"uses {entry.rstrip('.')}", use.line)
        if _keyword(use.call, "allow_pickle") not in (None, False):
            yield Found("runs-data", "loads with allow_pickle", use.line)


def import_effects(uses: list[Use]) -> Iterator[Found]:
    """Calls that have effects and run at import: at the top of the file, or in its functions that are called there."""
    run = _called_at_import(uses)
    for use in uses:
        if use.call is None or not (use.functions == () or use.functions[0] in run):
            continue
        method = use.name.rpartition(".")[2]
        entry = entry_for(use.name, EFFECTS) or entry_for(use.name, PROCESSES) or entry_for(use.name, NETWORK)
        if entry is not None or method in FILE_METHODS:
            yield Found(
                "import-effects", f"calls {use.name.removeprefix('builtins.').removeprefix('?.')} at import", use.line
            )


def hidden_input(uses: Iterable[Use], declared: Declared) -> Iterator[Found]:
    """Clocks and random streams that no seed controls."""
    if not declared.deterministic:
        return
    for use in uses:
        if any(name.rpartition(".")[2].startswith(_BESIDE) for name in use.functions) or _is_of_a_result(use):
            continue
        if entry_for(use.name, CLOCK):
            yield Found("hidden-input", f"reads the clock with {use.name}", use.line)
        elif (
            use.name == "numpy.random.default_rng" and use.call is not None and not (use.call.args or use.call.keywords)
        ):
            yield Found("hidden-input", "makes a stream without a seed", use.line)
        elif entry_for(use.name, RANDOM) and not any(within(use.name, own) for own in OWN_STREAMS):
            yield Found("hidden-input", f"draws from {use.name}", use.line)


def _is_of_a_result(use: Use) -> bool:
    """``draw().astype``: what it belongs to is the result of a call, and that call is a use of its own."""
    owner = use.node.func if isinstance(use.node, ast.Call) else use.node
    while isinstance(owner, ast.Attribute):
        owner = owner.value
    return isinstance(owner, ast.Call) and module_named_in(owner) is None


def variables(nodes: Iterable[ast.AST], uses: Iterable[Use], names: Names, declared: Declared) -> Iterator[Found]:
    """Environment variables, but for those that are declared and named where they are read."""
    known = declared.policy.variables
    fine = set()
    for node in nodes:
        named: ast.AST | None = None
        if (
            isinstance(node, ast.Subscript)
            and names.full(node.value) == "os.environ"
            and isinstance(node.ctx, ast.Load)
        ):
            named = node.slice
        elif isinstance(node, ast.Call) and names.full(node.func) in ("os.getenv", "os.environ.get") and node.args:
            named = node.args[0]
        if isinstance(named, ast.Constant) and named.value in known:
            fine.add(node.lineno)  # type: ignore[attr-defined]  # both kinds of node have one
    for use in uses:
        if (
            entry_for(use.name, VARIABLES)
            and use.line not in fine
            and not isinstance(use.node, (ast.Import, ast.ImportFrom))
        ):
            yield Found("environment-variables", f"uses {use.name}", use.line)


def changed_modules(nodes: Iterable[ast.AST], names: Names, own: frozenset[str]) -> Iterator[Found]:
    """Assignments to attributes and entries of what was imported from elsewhere."""
    for node in nodes:
        for target in _targets(node):
            owner = target
            while isinstance(owner, (ast.Attribute, ast.Subscript)):
                owner = owner.value
            root = names.imported(owner.id) if isinstance(owner, ast.Name) and owner is not target else None
            # os.environ has a rule of its own.
            if root is None or root.startswith(".") or root.partition(".")[0] in own or _is_environ(target, names):
                continue
            yield Found("changes-others", f"changes {_told(target, names)}", target.lineno)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.Assign, ast.Delete)):
        return node.targets
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("setattr", "delattr")
        and node.args
    ):
        first = node.args[0]
        return (
            [ast.copy_location(ast.Attribute(first, "…", ast.Store()), node)] if not isinstance(first, ast.Call) else []
        )
    return []


def _is_environ(target: ast.expr, names: Names) -> bool:
    return isinstance(target, ast.Subscript) and names.full(target.value) in ("os.environ", "os.environb")


def _told(target: ast.expr, names: Names) -> str:
    return f"{_told(target.value, names)}[…]" if isinstance(target, ast.Subscript) else names.full(target)


def _called_at_import(uses: list[Use]) -> set[str]:
    """Functions of this file that an import runs, directly or through one another."""
    calls: dict[str | None, set[str]] = {}
    for use in uses:
        if use.call is not None and use.name.startswith("?.") and use.name.count(".") == 1:
            name = use.name[2:]
            calls.setdefault(use.functions[0] if use.functions else None, set()).update((name, f"{name}.__init__"))
    run: set[str] = set()
    waiting = [*calls.get(None, ())]
    while waiting:
        name = waiting.pop()
        if name not in run:
            run.add(name)
            waiting += calls.get(name, ())
    return run


def _keyword(call: ast.Call | None, name: str) -> object:
    """The constant that is passed under this name, True for an expression, None if it is not passed."""
    for keyword in () if call is None else call.keywords:
        if keyword.arg == name:
            return keyword.value.value if isinstance(keyword.value, ast.Constant) else True
    return None
