"""Answers in infos: keys that tell the agent what it is to find out. Seen in the source, and in infos themselves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import Any

from paddock.testing.secure.found import Found

_ANSWERS = re.compile(
    r"(?:^|_)(?:answers?|solutions?|secrets?|hidden(?:_state)?|ground_?truth|expected_(?:answer|output)|gold|flag|"
    r"correct_(?:answer|action)|optimal_action|best_action|next_state|rng_state|seed_state|labels?)(?:_|$)",
    re.IGNORECASE,
)
_DEEPEST = 8


def tells(key: object) -> bool:
    """Whether a key of an info sounds like an answer."""
    return isinstance(key, str) and len(key) <= 200 and bool(_ANSWERS.search(key))


def infos_in_source(nodes: Iterable[ast.AST]) -> Iterator[Found]:
    """Infos that ``reset`` and ``step`` return as literals or fill as ``info[...]``."""
    for node in nodes:
        for key in _keys(node):
            if isinstance(key, ast.Constant) and tells(key.value):
                yield Found("info-tells", f"puts {key.value!r} into an info", key.lineno)


def answers_in(info: Any, path: str = "info", depth: int = 0) -> Iterator[str]:
    """Paths of the keys of an info that sound like answers."""
    if isinstance(info, dict) and depth < _DEEPEST:
        for key, value in info.items():
            place = f"{path}[{str(key)[:80]!r}]"
            if tells(key):
                yield place
            else:
                yield from answers_in(value, place, depth + 1)


def _keys(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in ("reset", "step"):
        returned = (one.value for one in ast.walk(node) if isinstance(one, ast.Return))
        last = (value.elts[-1] for value in returned if isinstance(value, ast.Tuple) and value.elts)
        return [key for literal in last if isinstance(literal, ast.Dict) for key in literal.keys if key is not None]
    if isinstance(node, ast.Assign):
        return [
            *(target.slice for target in node.targets if isinstance(target, ast.Subscript) and _is_info(target.value)),
            *(node.value.keys if isinstance(node.value, ast.Dict) and any(map(_is_info, node.targets)) else ()),
        ]
    return []


def _is_info(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("info", "infos")
