"""How many small mistakes in a module its tests notice: ``python -m tests.mutation``, for the judge by default.

A mutant is the module with one change: a comparison turned round, a condition negated, ``and`` for ``or``, a number
that is one off, a raise left out. Each runs in a forked process, with the tests in the order given until one fails.
The last line is the score; mutants that survive are printed, so that a test can be written for each.
"""

import argparse
import ast
import copy
import importlib.util
import os
import random
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np  # noqa: F401 - here, and not once per mutant
import pytest

import paddock.spaces  # noqa: F401

MODULE = "paddock.hosting.judge"
TESTS = (
    *("tests/hosting/test_wall.py", "tests/hosting/test_wall_description.py"),
    *("tests/vector/test_remote_vector.py", "tests/vector/test_walled_lanes.py", "tests/openenv/test_wire.py"),
)
BAR = 0.9
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
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield lambda node: setattr(node, "value", node.value + 1)


def raises(tree):
    """Each statement list and place of a raise."""
    for node in ast.walk(tree):
        for field in ("body", "orelse"):
            statements = getattr(node, field, None)
            for place, one in enumerate(statements if isinstance(statements, list) else ()):
                if isinstance(one, ast.Raise) and one.exc is not None:
                    yield node, field, place


def mutants(source):
    """Every mutant's line and tree, in an order that does not depend on chance."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    for index, node in enumerate(nodes):
        for change_index, _ in enumerate(changes(node)):
            mutant = copy.deepcopy(tree)
            changed = list(ast.walk(mutant))[index]
            list(changes(changed))[change_index](changed)
            yield getattr(node, "lineno", 0), type(node).__name__, mutant
    for number, _ in enumerate(raises(tree)):
        mutant = copy.deepcopy(tree)
        node, field, place = list(raises(mutant))[number]
        line = getattr(node, field)[place].lineno
        getattr(node, field)[place] = ast.copy_location(ast.Pass(), node)
        yield line, "Raise", mutant


def survives(module, file, tree, tests):
    """Whether all tests pass although the module is this one."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
                spec = importlib.util.spec_from_file_location(module, file)
                found = sys.modules[module] = importlib.util.module_from_spec(spec)
                exec(compile(ast.fix_missing_locations(tree), file, "exec"), found.__dict__)
                found.__file__ = str(file)
                parent, _, name = module.rpartition(".")
                setattr(sys.modules[parent], name, found)
                options = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not process and not slow"]
                code = pytest.main([*options, *tests])
        finally:
            os._exit(int(code != 0))
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
    import paddock.hosting

    file = Path(paddock.hosting.__file__).parents[1].parent / f"{asked.module.replace('.', '/')}.py"
    all_mutants = list(mutants(file.read_text()))
    part, parts = map(int, asked.part.split("/"))
    chosen = all_mutants[part::parts]
    if asked.sample is not None:
        chosen = random.Random(1).sample(chosen, min(asked.sample, len(chosen)))
    alive = []
    for line, kind, tree in chosen:
        if survives(asked.module, file, tree, asked.tests):
            alive.append((line, kind))
            print(f"{file.name}:{line}: {kind} survives", flush=True)
    score = 1 - len(alive) / len(chosen)
    print(f"{len(chosen)} mutants, {len(alive)} survive: score {score:.1%}, bar {BAR:.0%}")
    return score < BAR


if __name__ == "__main__":
    sys.exit(main())
