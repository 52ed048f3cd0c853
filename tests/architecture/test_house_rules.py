"""House rules that the syntax tree can show: size, names, no needless module, no code from data, no shared randomness.

An exception is a line in this file, never a comment in the source.
"""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "paddock"

parse = functools.cache(ast.parse)

FILE_LINES = 800
FUNCTION_LINES = 60
PACKAGE_MODULES = 22  # directly in one folder: a listing that fits a screen

# A module that one other module of its package needs usually belongs inside that one. These don't, and why.
NEEDED_BY_ONE = {
    # optional dependency: the module imports it at its top
    "paddock.adapters.evaluation": "for loops of your own, without Stable-Baselines3",
    "paddock.adapters.sb3_vec_env": "optional dependency: Stable-Baselines3",
    "paddock.adapters.tianshou_lanes": "optional dependency: Tianshou",
    "paddock.adapters.torchrl_env": "optional dependency: TorchRL",
    # loaded late
    "paddock.agentic.mcp": "loaded late: by an environment that has MCP servers",
    "paddock.agentic.rollouts.table": "loaded late: Rich",
    "paddock.sandbox.inside.boot": "by name: the first code of every worker, by whatever way it was started",
    "paddock.sandbox.inside.template": "its process: what runs in the template, not beside it",
    "paddock.agentic.snapshots": "two ideas: which values can be copied is a format, and no part of an episode",
    # a command of its own, by its name in cli.program
    "paddock.cli.run.episodes": "by name: the loops over one environment and over lanes",
    "paddock.cli.init": "a command; `paddock openenv init` writes its files the same way",
    "paddock.cli.rescore": "a command; `paddock eval` loads rubrics the same way",
    # process entry point
    "paddock.bench.hostile.trial": "process entry point: python -m",
    # named by specs and tables that users have
    "paddock.envs.classic_control.mountain_car": "one file per environment; its entry point is in the catalog",
    "paddock.gym.utils.passive_env_checker": "Gymnasium's module of that name",
    "paddock.openenv.exceptions": "OpenEnv's errors, without pydantic, which openenv.app needs",
    "paddock.openenv.harness": "too long for one file with openenv.harness_turns",
    "paddock.openenv.llm_client": "OpenEnv's module of that name, without pydantic, which openenv.harness needs",
    "paddock.sources.dm_control": "one file per family; saved specs name it",
    "paddock.sources.dm_env": "one file per family; saved specs name it",
    # together they would exceed FILE_LINES
    "paddock.agentic.envs.coding.families": "too long for one file with agentic.envs.python_code",
    "paddock.kernels.env": "too long for one file with kernels.vector; public as KernelEnv",
    "paddock.sandbox.cassette": "too long for one file with sandbox.proxy",
    "paddock.fleet.gateway": "pure: fleet.proxy has its connections, and the simulation drives it without them",
    "paddock.server.openenv": "too long for one file with server.http_api",
    "paddock.vector.process_lanes": "too long for one file with vector.processes",
    "paddock.wrappers.vector_rendering": "too long for one file with wrappers.vector",
    "paddock.agentic.rollouts.progress": "too long for one file with agentic.rollouts.run",
    "paddock.agentic.rollouts.groups": "by name: groups, advantages and samples",
    # a reader looks for it by name
    "paddock.bench.hostile.attacks.kernel": "by name: one file per group of attacks",
    "paddock.bench.hostile.attacks.network": "by name: one file per group of attacks",
    "paddock.bench.hostile.attacks.processes": "by name: one file per group of attacks",
    "paddock.bench.hostile.attacks.protocol": "by name: one file per group of attacks",
    "paddock.bench.hostile.attacks.resources": "by name: one file per group of attacks",
    "paddock.bench.hostile.canaries": "by name: what attacks are after",
    "paddock.bench.hostile.neighbour": "by name: how fair a tier is to others",
    "paddock.wrappers.discretize": "by name: one file per family of wrappers",
    "paddock.wrappers.episode": "by name: one file per family of wrappers",
    "paddock.wrappers.history": "by name: one file per family of wrappers",
    "paddock.wrappers.noise": "by name: one file per family of wrappers",
    "paddock.wrappers.normalize": "by name: one file per family of wrappers",
    "paddock.wrappers.repeat": "by name: one file per family of wrappers",
    "paddock.wrappers.rescale": "by name: one file per family of wrappers",
}

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


def needed_by_one(texts: Mapping[str, str]) -> dict[str, str]:
    """{module: the one module that imports it}, for those whose only importer is in the same package below paddock.

    ``texts`` has the source of each file by its path below ``src/paddock``. An ``__init__.py`` is no importer: what it
    re-exports is needed by users, or by nobody. Nor is an import for the type checker alone. A module that none imports
    is reached by its name: a table, a command, an entry point, a public path.
    """
    modules = {module_of(file) for file in texts}
    importers: dict[str, set[str]] = {module: set() for module in modules}
    for file, text in texts.items():
        if file.endswith("__init__.py"):
            continue
        for _, name in imported(without_type_checking(text)):
            while name not in modules and "." in name:
                name = name.rpartition(".")[0]
            if name in modules and name != module_of(file):
                importers[name].add(module_of(file))
    singles = {module: min(found) for module, found in importers.items() if len(found) == 1}
    files = {module_of(file) for file in texts if not file.endswith("__init__.py")}
    return {one: by for one, by in singles.items() if one in files and one.split(".")[1] == by.split(".")[1]}


def module_of(file: str) -> str:
    """``core/env.py`` is paddock.core.env."""
    return ".".join(["paddock", *file.removesuffix(".py").removesuffix("__init__").strip("/").split("/")]).rstrip(".")


def without_type_checking(text: str) -> ast.Module:
    tree = ast.parse(text)  # a tree of its own, for it is changed
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and dotted(node.test).split(".")[-1] == "TYPE_CHECKING":
            node.body = []
    return tree


def code_loading(text: str) -> list[str]:
    tree = parse(text)
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
    tree = parse(text)
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
    functions = (node for node in ast.walk(parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
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


@pytest.fixture(scope="module")
def single():
    return needed_by_one(dict(sources()))


def test_a_module_that_one_other_needs_has_a_reason_of_its_own(single):
    found = {module: by for module, by in single.items() if module not in NEEDED_BY_ONE}
    assert found == {}, "merge each into its importer, or add a line with the reason to NEEDED_BY_ONE"


def test_every_reason_is_still_needed(single):
    assert NEEDED_BY_ONE.keys() - single.keys() == set()


def test_the_listing_of_a_package_fits_a_screen():
    sizes = Counter(file.rpartition("/")[0] for file, _ in sources())
    assert {folder: size for folder, size in sizes.items() if size > PACKAGE_MODULES} == {}


def test_every_module_says_what_it_is():
    assert [file for file, text in sources() if not ast.get_docstring(parse(text))] == []


def test_nothing_runs_code_that_its_input_chooses():
    found = {file: code_loading(text) for file, text in sources() if file not in LOADS_CODE_ON_PURPOSE}
    assert {file: lines for file, lines in found.items() if lines} == {}


def test_files_that_load_code_on_purpose_exist_and_do():
    idle = {file for file in LOADS_CODE_ON_PURPOSE if not code_loading((SOURCE / file).read_text())}
    assert idle == set()


SEEDS_THEM = "testing/perturbed.py"  # to see whether an environment draws from them


def test_nothing_draws_from_the_global_random_streams():
    found = {file: global_randomness(text) for file, text in sources() if file != SEEDS_THEM}
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


LID = {"box/lid.py": "", "box/case.py": "from paddock.box.lid import Lid"}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="alone"),
        pytest.param({"box/case.py": "def f():\n    import paddock.box.lid"}, id="in a function"),
        pytest.param({"box/__init__.py": "from paddock.box.lid import Lid"}, id="a package re-exports it"),
        pytest.param({"jar.py": "if TYPE_CHECKING:\n    from paddock.box.lid import Lid"}, id="for the type checker"),
    ],
)
def test_planted_needless_module_is_caught(more):
    assert needed_by_one(LID | more) == {"paddock.box.lid": "paddock.box.case"}


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"jar.py": "from paddock.box.lid import Lid"}, id="two importers"),
        pytest.param({"box/case.py": "", "jar.py": "from paddock.box import lid"}, id="of another package"),
        pytest.param({"box/case.py": ""}, id="none"),
    ],
)
def test_needed_module_is_left_alone(more):
    assert needed_by_one(LID | more) == {}


# In programs that tests write as text, too. What tests share is in a module that is no test.
TEST_IMPORTS = re.compile(
    r"\bimport +[\w.]*\btest_\w+|\bfrom +[\w.]*\btest_\w+ +import\b|\bfrom +[\w.]+ +import +.*\btest_\w+"
)


def test_no_test_file_imports_another():
    found = {str(path): TEST_IMPORTS.findall(path.read_text()) for path in Path(__file__).parents[1].rglob("*.py")}
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "text",
    [
        "from tests.server.{} import call",
        "from .{} import call",
        "from tests.server import clients, {}",
        "import tests.server.{}",
        "    import {}",
        "program = 'import sys; from tests.server.{} import hold; hold()'",
    ],
)
def test_planted_import_of_a_test_file_is_caught(text):
    assert TEST_IMPORTS.search(text.format("test_tools"))
    assert not TEST_IMPORTS.search(text.format("tool_tests"))
