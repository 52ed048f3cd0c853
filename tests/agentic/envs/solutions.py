"""Programs that solve the problems of PythonCode, made from the source of the answers that its grader has."""

import ast
import inspect
import threading

_OURS = ("paddock", "random")
_ALONE = threading.Lock()  # Python 3.11 can't parse in several threads: "AST constructor recursion depth mismatch"


def solution(problem):
    """A program whose ``solve`` is right."""
    answer = problem.family.answer
    call = f"{answer.__name__}(*a, **{problem.parameters!r})"
    return f"{_source(inspect.getmodule(answer))}\ndef solve(*a):\n    return {call}\n"


def nearly(problem, arguments):
    """A program that is wrong for these arguments alone."""
    wrong = "[0]" if isinstance(problem.answer(tuple(arguments)), str) else "'0'"
    result = f"{wrong} if a == {tuple(arguments)!r} else right(*a)"
    return f"{solution(problem)}right = solve\ndef solve(*a):\n    return {result}\n"


def _source(module):
    """What the module defines, without the families and what they need."""
    with _ALONE:
        tree = ast.parse(inspect.getsource(module))
        return ast.unparse(ast.Module([node for node in tree.body if not _is_ours(node)], []))


def _is_ours(node):
    if isinstance(node, ast.ImportFrom):
        return node.module.split(".")[0] in _OURS
    return isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "FAMILIES"
