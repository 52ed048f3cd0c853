"""How many small mistakes in a module its tests notice: ``python -m tests.mutation``, for the judge by default.

A mutant is the module with one change: a comparison turned round, a condition negated, ``and`` for ``or``, a number
that is one off, a ``not``, a raise or a call left out. Each runs in a forked process, with the tests in the order given
until one fails. The last line is the score; mutants that survive are printed, so that a test can be written for each.
"""

import argparse
import ast
import importlib.util
import os
import random
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from itertools import islice
from pathlib import Path

import _hypothesis_pytestplugin  # noqa: F401 - here, and not once per mutant
import pytest

import tests.spaces.strategies  # noqa: F401

MODULE = "paddock.hosting.judge"
TESTS = (
    *("tests/hosting/test_judge.py", "tests/hosting/test_wall_description.py", "tests/hosting/test_wall.py"),
    *("tests/vector/test_remote_vector.py", "tests/vector/test_walled_lanes.py", "tests/openenv/test_wire.py"),
)
BAR = 0.9
# The changed line of each mutant that does the same as the module, with the reason.
EQUIVALENT = {
    "raise violation('description', f'it is malformed: {shorten(str(error), 201)}') from None": (
        "msgspec's text names a type and a field, and repeats nothing that came: it has fewer than 200 characters"
    ),
}
SECONDS = 60  # for one mutant: one that hangs is noticed too
SWAPS = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}


def changes(node):
    """The ways to change a node, each a function that changes it in place."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            to = SWAPS.get(type(operator))
            if to is not None:
                yield lambda node, place=place, to=to: node.ops.__setitem__(place, to())
    elif isinstance(node, ast.BoolOp):
        yield lambda node: setattr(node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And())
    elif isinstance(node, ast.If):
        yield lambda node: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield lambda node: setattr(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda node: setattr(node, "value", node.value + 1)


def removable(tree):
    """Each statement list and place of a raise, or of a call whose result is not used: as a rule, a check."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            for place, one in enumerate(statements if isinstance(statements, list) else ()):
                if isinstance(one, ast.Raise) or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)):
                    yield statements, place


def mutants(source):
    """Every mutant's line, code and changed line of code, in an order that does not depend on chance."""
    tree = ast.parse(source)
    before = ast.unparse(tree).splitlines()

    def mutant(line, changed):
        code = ast.unparse(changed)  # not the tree: each child would search all of them for garbage
        lines = zip(before, code.splitlines(), strict=True)
        old, new = next((old.strip(), new.strip()) for old, new in lines if old != new)
        return line, code, f"pass  # {old}" if new == "pass" else new

    for index, node in enumerate(ast.walk(tree)):
        for change_index, _ in enumerate(changes(node)):
            copy = ast.parse(source)
            changed = next(islice(ast.walk(copy), index, None))
            list(changes(changed))[change_index](changed)
            yield mutant(node.lineno, copy)
    for index, (statements, place) in enumerate(removable(tree)):
        copy = ast.parse(source)
        changed, _ = next(islice(removable(copy), index, None))
        changed[place] = ast.Pass()
        yield mutant(statements[place].lineno, copy)


def survives(module, file, code, tests):
    """Whether all tests pass although the module is this one."""
    child = os.fork()
    if child == 0:
        failed = True
        try:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
                spec = importlib.util.spec_from_file_location(module, file)
                found = sys.modules[module] = importlib.util.module_from_spec(spec)
                exec(compile(code, file, "exec"), found.__dict__)
                parent, _, name = module.rpartition(".")
                setattr(sys.modules[parent], name, found)
                options = [
                    *("-qx", "--tb=no", "--assert=plain", "-m", "not process and not slow"),
                    *("-p", "no:cacheprovider", "-p", "no:xdist"),
                ]
                # A file at a time: most mutants need no more than the first, and pytest imports all that it is given.
                failed = any(pytest.main([*options, one]) != 0 for one in tests)
        finally:
            os._exit(failed)
    ends = time.monotonic() + SECONDS
    while time.monotonic() < ends:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status) == 0
        time.sleep(0.02)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--module", default=MODULE)
    parser.add_argument("--sample", type=int, help="only so many mutants, drawn at random")
    parser.add_argument("--part", default="0/1", help="0/2: the first half, to run two at a time")
    parser.add_argument("tests", nargs="*", default=TESTS)
    asked = parser.parse_args()
    # Here, so that what the module needs is not imported once per mutant; nothing that uses the module is.
    file = Path(importlib.import_module(asked.module).__file__)
    source = file.read_text()
    if not survives(asked.module, file, ast.unparse(ast.parse(source)), asked.tests):
        sys.exit("The tests fail without a mutant.")
    part, parts = map(int, asked.part.split("/"))
    # By their code: a condition that is a ``not`` is negated in two ways that are one.
    chosen = list({mutant[1]: mutant for mutant in mutants(source)}.values())[part::parts]
    if asked.sample is not None:
        chosen = random.Random(1).sample(chosen, min(asked.sample, len(chosen)))
    alive, equal = 0, 0
    for line, code, change in chosen:
        if change in EQUIVALENT:
            equal += 1
        elif survives(asked.module, file, code, asked.tests):
            alive += 1
            print(f"{file.name}:{line}: survives: {change}", flush=True)
    score = 1 - alive / (len(chosen) - equal)
    print(f"{len(chosen)} mutants, {equal} change nothing, {alive} survive: score {score:.1%}, bar {BAR:.0%}")
    return score < BAR


if __name__ == "__main__":
    # The forked processes end without cleaning up.
    with tempfile.TemporaryDirectory(prefix="mutants-") as tempfile.tempdir:
        sys.exit(main())
