"""House rules that the syntax tree can show: size, names, no code from data, no shared randomness.

An exception is a line in this file, never a comment in the source.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "paddock"

FILE_LINES = 800
FUNCTION_LINES = 60

NAMELESS = {"utils", "common", "misc", "helpers"}
GYMNASIUMS_NAMES = "gym"  # this package mirrors Gymnasium's modules, `utils` among them

# Reading any of these runs code that the bytes choose.
CODE_LOADERS = {"pickle", "_pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
LOADING_CALLS = {"torch.load", "yaml.load", "yaml.unsafe_load"}
# Files, relative to src/paddock. The last one is the program in a workspace, behind a wall made for such code.
LOADS_CODE_ON_PURPOSE: set[str] = {
    "kernels/compile.py",
    "hosting/factories.py",
    "agentic/envs/coding/inside.py",
}

# What numpy.random holds besides draws from the process-wide stream.
OWN_STREAMS = {"Generator", "BitGenerator", "SeedSequence", "PCG64", "PCG64DXSM", "Philox", "SFC64", "MT19937"}
OWN_STREAMS |= {"default_rng", "RandomState", "bit_generator"}


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), path.read_text()


def dotted(node: ast.AST) -> str:
    """``np.random.rand`` for that expression, '' for anything but names joined by dots."""
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, full name) of everything imported, `import_module("…")` included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func).split(".")[-1] in ("import_module", "__import__"):
            yield from ((node.lineno, str(name.value)) for name in node.args[:1] if isinstance(name, ast.Constant))


def code_loading(text: str) -> list[str]:
    tree = ast.parse(text)
    found = [f"{line}: imports {name}" for line, name in imported(tree) if name.split(".")[0] in CODE_LOADERS]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in ("eval", "exec"):
            found.append(f"{node.lineno}: {node.id}")
        elif isinstance(node, ast.Attribute) and dotted(node) in ("builtins.eval", "builtins.exec"):
            found.append(f"{node.lineno}: {dotted(node)}")
        elif isinstance(node, ast.Call):
            pickles = any(word.arg == "allow_pickle" and ast.unparse(word.value) != "False" for word in node.keywords)
            if pickles or dotted(node.func) in LOADING_CALLS:
                found.append(f"{node.lineno}: {ast.unparse(node)}")
    return found


def global_randomness(text: str) -> list[str]:
    """Uses of the random streams that a whole process shares, at import and in functions alike."""
    tree = ast.parse(text)
    found = []
    for line, name in imported(tree):
        inner = name.removeprefix("numpy.random.")
        if name.split(".")[0] == "random" or (inner != name and inner not in OWN_STREAMS):
            found.append(f"{line}: imports {name}")
    for node in ast.walk(tree):
        parts = dotted(node).split(".") if isinstance(node, ast.Attribute) else []
        if parts[:-1] in (["np", "random"], ["numpy", "random"]) and parts[-1] not in OWN_STREAMS:
            found.append(f"{node.lineno}: {'.'.join(parts)}")
    return found


def long_functions(text: str) -> list[str]:
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    lengths = ((node.end_lineno - node.lineno + 1, node.name) for node in functions)
    return [f"{name}: {length} lines" for length, name in lengths if length >= FUNCTION_LINES]


def test_no_module_is_named_for_the_lack_of_a_name():
    names = (file for file, _ in sources() if not file.startswith(f"{GYMNASIUMS_NAMES}/"))
    assert [file for file in names if NAMELESS & set(file.removesuffix(".py").split("/"))] == []


def test_files_are_short():
    lengths = {file: len(text.splitlines()) for file, text in sources()}
    assert {file: length for file, length in lengths.items() if length >= FILE_LINES} == {}


def test_functions_are_short():
    found = {file: long_functions(text) for file, text in sources()}
    assert {file: functions for file, functions in found.items() if functions} == {}


def test_every_module_says_what_it_is():
    assert [file for file, text in sources() if not ast.get_docstring(ast.parse(text))] == []


def test_nothing_runs_code_that_its_input_chooses():
    found = {file: code_loading(text) for file, text in sources() if file not in LOADS_CODE_ON_PURPOSE}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_files_that_load_code_on_purpose_exist_and_do():
    idle = {file for file in LOADS_CODE_ON_PURPOSE if not code_loading((SOURCE / file).read_text())}
    assert idle == set()


def test_nothing_draws_from_the_global_random_streams():
    found = {file: global_randomness(text) for file, text in sources()}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "import pickle as p",
        "def f():\n    from cloudpickle import loads",
        "importlib.import_module('marshal')",
        "from shelve import open",
        "eval('1')",
        "run = exec",
        "builtins.eval('1')",
        "np.load(path, allow_pickle=True)",
        "np.load(path, allow_pickle=flag)",
        "torch.load(path)",
    ],
)
def test_planted_code_loading_is_caught(text):
    assert len(code_loading(text)) == 1


@pytest.mark.parametrize("text", ["model.eval()", "np.load(path, allow_pickle=False)", "import json", "'pickle'"])
def test_harmless_look_alikes_of_code_loading_pass(text):
    assert code_loading(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "import random",
        "from random import choice",
        "def f():\n    return np.random.rand(3)",
        "numpy.random.seed(1)",
        "from numpy.random import normal",
    ],
)
def test_planted_global_randomness_is_caught(text):
    assert len(global_randomness(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "rng: np.random.Generator",
        "np.random.default_rng(1)",
        "from numpy.random import PCG64",
        "self.np_random.random()",
    ],
)
def test_streams_of_ones_own_pass(text):
    assert global_randomness(text) == []


def test_planted_long_function_is_caught():
    body = "    pass\n" * (FUNCTION_LINES - 1)
    assert long_functions(f"def f():\n{body}") == [f"f: {FUNCTION_LINES} lines"]
    assert long_functions(f"def f():\n{body.removesuffix('    pass' + chr(10))}") == []
