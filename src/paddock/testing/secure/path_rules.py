"""Rules on files: which paths, as far as the source names them, are read and written.

A path that the source computes from what it is given is left alone: only its literal beginning can be judged.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Literal

from paddock.testing.secure.declared import Declared
from paddock.testing.secure.found import Found
from paddock.testing.secure.uses import Names, Use

_How = Literal["read", "write"]

BESIDE_THE_CODE = "(beside the code)"
_OPENS = ("builtins.open", "io.open", "gzip.open", "bz2.open", "lzma.open", "codecs.open")
# Functions that change what their argument of this number names.
_WRITES = {
    **dict.fromkeys(("os.mkdir", "os.makedirs", "os.remove", "os.unlink", "os.rmdir", "os.removedirs", "os.chmod"), 0),
    **dict.fromkeys(("os.truncate", "os.mknod", "os.mkfifo", "shutil.rmtree", "sqlite3.connect"), 0),
    **dict.fromkeys(("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"), 1),
    **dict.fromkeys(("os.rename", "os.replace", "os.symlink", "os.link"), 1),
    **dict.fromkeys(("numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt", "torch.save"), 0),
    **dict.fromkeys(("logging.FileHandler", "logging.handlers.RotatingFileHandler"), 0),
}
# Functions that read what their first argument names.
_READS = (
    *("numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "pandas.read_csv", "os.listdir", "os.scandir", "os.walk"),
)
_METHODS: dict[str, _How] = {
    **dict.fromkeys(("write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir"), "write"),
    **dict.fromkeys(("read_text", "read_bytes", "iterdir", "glob", "rglob"), "read"),
}
# What a path passes through on its way: the path is the first argument.
_THROUGH = (
    *("pathlib.Path", "pathlib.PurePath", "builtins.str", "os.fspath", "os.path.join", "os.path.expanduser"),
    *("os.path.expandvars", "os.path.abspath", "os.path.realpath", "os.path.dirname", "os.path.normpath"),
)


def files(uses: Iterable[Use], names: Names, declared: Declared) -> Iterator[Found]:
    """Files that are written or read where nothing is declared."""
    for use in uses:
        if use.call is None or (touched := _touched(use.name, use.call)) is None:
            continue
        how, expression = touched
        path = _beginning(expression, names)
        if path is None:
            continue
        if how == "write" and (path == BESIDE_THE_CODE or not declared.may_write(path)):
            yield Found("writes-elsewhere", f"writes {path!r}", use.line)
        elif how == "read" and path != BESIDE_THE_CODE and not declared.may_read(path):
            yield Found("reads-elsewhere", f"reads {path!r}", use.line)


def _touched(name: str, call: ast.Call) -> tuple[_How, ast.expr] | None:
    """How the call touches a file, and the expression for its path."""
    method = name.rpartition(".")[2]
    if name in _OPENS and call.args:
        return _mode(call, 1), call.args[0]
    if name in _WRITES and len(call.args) > _WRITES[name]:
        return "write", call.args[_WRITES[name]]
    if name in _READS and call.args:
        return "read", call.args[0]
    if not isinstance(call.func, ast.Attribute):
        return None
    if name.startswith("pathlib.Path.") and method == "open":
        return _mode(call, 0), call.func.value
    if method in _METHODS and (name.startswith("pathlib.") or method.endswith(("_text", "_bytes"))):
        return _METHODS[method], call.func.value
    return None


def _mode(call: ast.Call, at: int) -> _How:
    given = [word.value for word in call.keywords if word.arg == "mode"] + list(call.args[at : at + 1])
    mode = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
    return "write" if isinstance(mode, str) and set(mode) & set("wax+") else "read"


def _beginning(node: ast.AST, names: Names) -> str | None:
    """The path, or its literal beginning; None if the source does not tell."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) and node.value else None
    if isinstance(node, ast.JoinedStr):
        return _beginning(node.values[0], names) if node.values else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Div)):
        return _beginning(node.left, names)
    if isinstance(node, ast.Name):
        return BESIDE_THE_CODE if node.id == "__file__" else None
    if isinstance(node, (ast.Attribute, ast.Subscript)):  # .parent, .parents[1]
        return _beginning(node.value, names)
    if isinstance(node, ast.Call):
        return _called(node, names)
    return None


def _called(node: ast.Call, names: Names) -> str | None:
    name = names.full(node.func)
    if name == "pathlib.Path.home":
        return "~"
    if name in ("pathlib.Path.cwd", "os.getcwd"):
        return "."
    if name in _THROUGH and node.args:
        return _beginning(node.args[0], names)
    if isinstance(node.func, ast.Attribute) and name.startswith("pathlib.Path."):
        return _beginning(node.func.value, names)  # .resolve(), .joinpath(…)
    return None
