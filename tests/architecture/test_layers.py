"""Imports go down the layers of docs/design.md, never up or sideways. Lazy imports inside functions count as well:
they hide a cycle, they do not remove it."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "paddock"

LAYERS = (
    ("errors", "seeding", "aliases"),
    ("spaces", "sandbox"),
    ("core", "record", "trust"),
    ("wrappers", "kernels", "envs", "hosting", "package"),
    ("vector", "sources", "agentic", "testing"),
    ("making",),
    ("server", "bench", "adapters"),
    ("studio", "gym", "openenv", "fleet"),
    ("cli",),
)
LAYER = {name: number for number, names in enumerate(LAYERS) for name in names}
SIDEWAYS = {("envs", "kernels"), ("record", "core"), ("core", "trust"), ("seeding", "errors")}
ONLY = {"sandbox": {"errors"}}  # knows no RL
ROOT = ""  # paddock/__init__.py: the public names
ENTRANCES = {ROOT, "__main__"}  # these stand above all layers
FREE_NAMES = {"paddock.__version__"}  # a fact, not a door
# What must offer `paddock.make` although it stands below: `spec.make()`, a method of Gymnasium's, and
# `paddock.agentic.rollout`, which makes an environment for each of its threads. An environment's digest asks
# `paddock.registry` whether it is built in.
THROUGH_THE_ROOT = {
    ("paddock.core.spec", "paddock"),
    ("paddock.agentic.rollouts.run", "paddock"),
    ("paddock.record.digest", "paddock"),
}


class ImportsOf(ast.NodeVisitor):
    """Collect (line, dotted name, at module level?) of each import of paddock in one module."""

    def __init__(self, module: str, is_package: bool) -> None:
        self.package = module.split(".") if is_package else module.split(".")[:-1]
        self.depth = 0
        self.found: list[tuple[int, str, bool]] = []

    def add(self, node: ast.AST, name: str) -> None:
        if name.split(".")[0] == "paddock":
            self.found.append((node.lineno, name, self.depth == 0))

    def absolute(self, level: int, name: str) -> str:
        if level == 0:
            return name
        parts = self.package[: len(self.package) - level + 1]
        return ".".join([*parts, name] if name else parts)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.add(node, alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        origin = self.absolute(node.level, node.module or "")
        for alias in node.names:
            self.add(node, f"{origin}.{alias.name}")

    def visit_Call(self, node: ast.Call) -> None:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in ("import_module", "__import__") and node.args:
            self.add(node, self.literal(node.args[0]))
        self.generic_visit(node)

    def literal(self, argument: ast.expr) -> str:
        """The module named by a string, or by the fixed beginning of an f-string; '' for what only a run can tell."""
        if isinstance(argument, ast.JoinedStr) and argument.values:
            argument = argument.values[0]
        text = argument.value if isinstance(argument, ast.Constant) else ""
        if not isinstance(text, str):
            return ""
        name = text.lstrip(".")
        return self.absolute(len(text) - len(name), name)

    def visit_If(self, node: ast.If) -> None:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            for statement in node.orelse:
                self.visit(statement)
        else:
            self.generic_visit(node)

    def visit_function(self, node: ast.AST) -> None:
        self.depth += 1
        self.generic_visit(node)
        self.depth -= 1

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = visit_function


def violations(module: str, text: str, *, is_package: bool = False) -> Iterator[str]:
    """One sentence for each import in ``text`` that the layers forbid."""
    visitor = ImportsOf(module, is_package)
    visitor.visit(ast.parse(text))
    own = room(module)
    for line, name, eager in visitor.found:
        free = name in FREE_NAMES or ((module, name) in THROUGH_THE_ROOT and not eager)
        reason = None if free else objection(own, room(name), eager)
        if reason:
            yield f"{module}:{line}: imports {name}: {reason}"


def room(name: str) -> str:
    """``paddock.spaces.box`` is in the room ``spaces``; a name of the root itself is in the root."""
    first = [*name.split("."), ROOT][1]
    return first if first in LAYER or first == "__main__" else ROOT


def objection(own: str, other: str, eager: bool) -> str | None:
    if own in ENTRANCES:
        # `import paddock` must stay light: only the errors may come with it.
        return "the root imports lazily" if own == ROOT and eager and other not in (ROOT, "errors") else None
    if own == other:
        return None
    if other in ENTRANCES:
        return None if own == "cli" else "the root stands above all layers; import from where the name lives"
    if own in ONLY:
        return None if other in ONLY[own] else f"{own} may import {sorted(ONLY[own])} alone"
    if (own, other) in SIDEWAYS or LAYER[other] < LAYER[own]:
        return None
    return f"{own} is in layer {LAYER[own]}, {other} in layer {LAYER[other]}: import downward only"


def module_of(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_every_import_goes_down_the_layers():
    found = [
        sentence
        for path in sorted(SOURCE.rglob("*.py"))
        for sentence in violations(module_of(path), path.read_text(), is_package=path.name == "__init__.py")
    ]
    assert found == []


def test_every_module_below_the_root_has_a_layer():
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in SOURCE.rglob("*.py")}
    assert rooms - {"__init__", "__main__"} <= LAYER.keys()


@pytest.mark.parametrize(
    ("module", "text"),
    [
        pytest.param("paddock.spaces.box", "import paddock.core.env", id="upward"),
        pytest.param("paddock.spaces.box", "from paddock.core import Env", id="upward, from"),
        pytest.param("paddock.spaces.box", "from paddock import core", id="upward, through the root"),
        pytest.param("paddock.spaces.box", "from ..core import env", id="upward, relative"),
        pytest.param("paddock.spaces.box", "def f():\n    from paddock.core import Env", id="upward, in a function"),
        pytest.param("paddock.spaces.box", "f = lambda: __import__('paddock.core')", id="upward, in a lambda"),
        pytest.param("paddock.core.env", "import importlib\nimportlib.import_module('paddock.making')", id="hidden"),
        pytest.param("paddock.core.env", "import_module('..making', __package__)", id="hidden, relative"),
        pytest.param("paddock.core.env", "import_module(f'paddock.gym.{name}')", id="hidden, in an f-string"),
        pytest.param("paddock.core.env", "import_module(f'paddock.{name}')", id="hidden, anywhere"),
        pytest.param("paddock.core.env", "import paddock", id="the root"),
        pytest.param("paddock.core.env", "from paddock import make", id="a name of the root"),
        pytest.param("paddock.core.spec", "import paddock", id="the root, not lazily"),
        pytest.param("paddock.core.env", "try:\n    import paddock.vector\nexcept ImportError: pass", id="in a try"),
        pytest.param("paddock.core.env", "if TYPE_CHECKING: pass\nelse:\n    import paddock.vector", id="in an else"),
        pytest.param("paddock.kernels.lane", "import paddock.envs", id="sideways, the wrong way"),
        pytest.param("paddock.vector.lanes", "import paddock.agentic", id="sideways"),
        pytest.param("paddock.sandbox.launching", "import paddock.seeding", id="sandbox knows errors alone"),
        pytest.param("paddock", "from paddock.spaces import Space", id="eager in the root"),
    ],
)
def test_planted_violation_is_caught(module, text):
    assert len(list(violations(module, text, is_package=module == "paddock"))) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        pytest.param("paddock.core.env", "from paddock.spaces import Space", id="downward"),
        pytest.param("paddock.core.env", "from .spec import EnvSpec", id="within a package"),
        pytest.param("paddock.core.env", "from paddock import __version__", id="the version"),
        pytest.param("paddock.core.env", "import numpy\nimport_module('numpy')\nimport_module(name)", id="others"),
        pytest.param(
            "paddock.core.env",
            "if TYPE_CHECKING:\n    from paddock.vector import VectorEnv\nelse:\n    import numpy",
            id="for the type checker",
        ),
        pytest.param("paddock.envs.cartpole", "from paddock.kernels import kernel", id="envs to kernels"),
        pytest.param("paddock.record.trace", "from paddock.core import Env", id="record to core"),
        pytest.param("paddock.sandbox.launching", "from paddock.errors import PaddockError", id="sandbox to errors"),
        pytest.param("paddock", "def __getattr__(name):\n    import paddock.making", id="lazy in the root"),
        pytest.param("paddock.__main__", "from paddock.cli import main", id="the command line's entrance"),
    ],
)
def test_allowed_import_is_left_alone(module, text):
    assert list(violations(module, text, is_package=module == "paddock")) == []


def test_layers_in_design_are_the_enforced_ones():
    design = (SOURCE.parents[1] / "docs" / "design.md").read_text(encoding="utf-8")
    rows = re.findall(r"^(\d)  (\w+(?:  \w+)*)$", design.partition("## Layers")[2], re.MULTILINE)
    assert [tuple(names.split("  ")) for _, names in reversed(rows)] == list(LAYERS)
    assert [int(number) for number, _ in rows] == list(reversed(range(len(LAYERS))))
