"""Numbers, names, + - * // %, assignments and print(...): anything else is an error."""

import ast
import operator

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def run(code, names):
    """Return what the code prints; ``names`` keeps its variables."""
    printed = []
    for statement in ast.parse(code).body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            names[statement.targets[0].id] = _value(statement.value, names)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            if getattr(statement.value.func, "id", None) != "print":
                raise NameError("only print can be called")
            printed.append(" ".join(str(_value(one, names)) for one in statement.value.args))
        else:
            raise SyntaxError(f"{type(statement).__name__} is not allowed")
    return "".join(f"{line}\n" for line in printed)


def _value(node, names):
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
        return node.value
    if isinstance(node, ast.Name):
        return names[node.id]
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_value(node.left, names), _value(node.right, names))
    raise SyntaxError(f"{type(node).__name__} is not allowed")
