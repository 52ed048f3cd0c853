"""Programs that solve the problems of PythonCode, made from the source of the answers that its grader has."""

import ast
import inspect
import threading

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
    """The answers that the module defines and the constants that they need, without the families around them."""
    with _ALONE:
        tree = ast.parse(inspect.getsource(module))
        kept = [node for node in tree.body if _is_needed(node)]
        for node in kept:
            if isinstance(node, ast.FunctionDef):
                node.decorator_list.clear()
        return ast.unparse(ast.Module(kept, []))


def _is_needed(node):
    if isinstance(node, ast.ImportFrom):
        return node.module in ("__future__", "collections", "itertools", "string", "textwrap")
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
        return target.id.startswith("_")
    return isinstance(node, ast.FunctionDef)
