"""README and docs are true: their code runs, their links lead somewhere, and what they name exists.

In the pages, ```python blocks of one file share a namespace, one that begins with `# name.py` is also that module, and
```console blocks are commands with their output, in which `...` stands for anything.
"""

import doctest
import html
import importlib
import re
import shlex
import sys
import types
from pathlib import Path

import pytest

import paddock
import paddock.gym
from paddock.cli import demo, main
from paddock.cli.program import COMMANDS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "paddock"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])

FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)\s]+)\)")
MODULE_NAME = re.compile(r"# (?P<name>\w+\.py)\n")
COMMAND = re.compile(r"\$ paddock (?P<words>[^#\n]*)(?:# exit code (?P<code>\d))?\n(?P<printed>(?:(?!\$ ).*\n)*)")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def blocks(page):
    """(kind, line of the first line of code, text) of each fenced block."""
    text = page.read_text(encoding="utf-8")
    return [
        (found["kind"], text.count("\n", 0, found.start("text")) + 1, found["text"]) for found in FENCE.finditer(text)
    ]


def runnable(page):
    return [block for block in blocks(page) if block[0] in ("python", "console")]


@pytest.fixture
def workplace(fresh_registry, tmp_path, monkeypatch):
    """An empty folder to work in, whose modules are forgotten afterwards."""
    before = set(sys.modules)
    monkeypatch.setenv("PADDOCK_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.mark.process
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name_of)
def test_code_of_a_page_runs(page, workplace, capsys):
    namespace = types.ModuleType("__main__").__dict__
    for kind, line, text in runnable(page):
        if kind == "console":
            check_commands(text, f"{name_of(page)}:{line}", capsys)
            continue
        module = MODULE_NAME.match(text)
        if module:
            (workplace / module["name"]).write_text(text)
        # Blank lines before it, so that a traceback shows the line of the page.
        exec(compile("\n" * (line - 1) + text, str(page), "exec"), namespace)


def check_commands(text, place, capsys):
    commands = list(COMMAND.finditer(text))
    assert len(commands) == text.count("$ "), f"{place}: a line that is no `$ paddock ...`"
    for command in commands:
        capsys.readouterr()
        code = main(shlex.split(command["words"]))
        printed = capsys.readouterr().out
        assert code == int(command["code"] or 0), f"{place}: paddock {command['words']}"
        same = re.fullmatch(pattern_of(command["printed"]), printed)
        assert same, f"{place}: paddock {command['words']}printed\n{printed}\nand the page says\n{command['printed']}"


def pattern_of(printed):
    """`...` alone on a line is any number of lines, within a line any text; columns may be wider or narrower."""
    lines = []
    for line in printed.splitlines():
        exact = re.sub(r"(?:\\ ){2,}", " {2,}", re.escape(line)).replace(re.escape("..."), ".*")
        lines.append("(?:.*\n)*" if line == "..." else exact + "\n")
    return "".join(lines)


@pytest.mark.parametrize(
    ("page", "printed", "same"),
    [
        ("a  1\n", "a    1\n", True),
        ("a  1\n", "a 1\n", False),
        ("a 1\n", "a  1\n", False),
        ("a\n...\nz\n", "a\nz\n", True),
        ("a\n...\nz\n", "a\nb c\nd\nz\n", True),
        ("a ... z\n", "a (b) z\n", True),
        ("a ... z\n", "a\nz\n", False),
        ("a\n", "a\nb\n", False),
        ("", "a\n", False),
    ],
)
def test_output_on_a_page_is_compared_closely_enough(page, printed, same):
    assert bool(re.fullmatch(pattern_of(page), printed)) is same


def modules_with_examples():
    for path in sorted(SOURCE.rglob("*.py")):
        if ">>> " in path.read_text(encoding="utf-8"):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.mark.parametrize("name", list(modules_with_examples()))
def test_examples_in_docstrings_hold(name, workplace):
    tried = doctest.testmod(importlib.import_module(name), report=True)
    assert tried.attempted > 0, "the example stands in no docstring that doctest finds"
    assert tried.failed == 0


def without_code(page):
    return re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """The anchors of a page's headings, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_lead_somewhere(page):
    broken = []
    for target in (found["target"] for found in LINK.finditer(without_code(page))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        place = page.parent / file if file else page
        if not place.exists() or (anchor and anchor not in anchors(place)):
            broken.append(target)
    assert not broken


def test_every_page_of_docs_is_in_the_index():
    linked = {found["target"] for found in LINK.finditer(without_code(DOCS / "index.md"))}
    assert {page.name for page in DOCS.glob("*.md")} - {"index.md"} == linked


def test_design_names_every_package_and_module_of_the_top_level():
    design = (DOCS / "design.md").read_text(encoding="utf-8")
    tree = design.partition("## Where things are")[2].partition("\n## ")[0]
    packages = [f"{path.parent.name}/" for path in SOURCE.glob("*/__init__.py")]
    names = [*packages, *(path.name for path in SOURCE.iterdir() if path.is_file())]
    assert [name for name in names if not re.search(rf"^  {re.escape(name)}\s", tree, re.MULTILINE)] == []


def test_files_named_in_code_spans_exist():
    wrong = []
    for page in (ROOT / "README.md", DOCS / "design.md", DOCS / "differences.md", DOCS / "index.md"):
        for path in re.findall(r"`((?:tests|benchmarks|scripts|docs)/[\w./-]+)`", page.read_text(encoding="utf-8")):
            if not (ROOT / path).exists():
                wrong.append(f"{page.name}: {path}")
    assert not wrong


def test_tests_named_in_differences_exist():
    page = (DOCS / "differences.md").read_text(encoding="utf-8")
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    defined = re.findall(r"def (test_\w+)", tests)
    named = re.findall(r"`(test_\w+)(\*?)`", page)
    assert len(named) > 40
    missing = [n for n, rest in named if not any(d.startswith(n) if rest else d == n for d in defined)]
    assert not missing


def test_readme_shows_the_two_commands_and_make_has_them():
    readme, targets = (ROOT / "README.md").read_text(encoding="utf-8"), (ROOT / "Makefile").read_text()
    for command in ("run", "test"):
        assert re.search(rf"^make {command}\b", readme, re.MULTILINE)
        assert re.search(rf"^{command}:", targets, re.MULTILINE)


def test_readme_has_an_example_of_ten_lines():
    example = next(text for kind, _, text in blocks(ROOT / "README.md") if kind == "python")
    assert len([line for line in example.splitlines() if line]) <= 10


def test_readme_speaks_truly_of_to_gymnasium():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "`paddock.to_gymnasium(env)` gives one with Gymnasium's own spaces." in readme
    assert ("This function arrives with" in readme) is not hasattr(paddock, "to_gymnasium")


def test_readme_speaks_truly_of_what_the_door_of_gymnasium_checks():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert "it checks the type and shape of actions, NaN, and the range of a Discrete;" in readme
    assert "only `paddock.make` checks the bounds of a Box." in readme
    pendulum, cart = paddock.gym.make("Pendulum-v1"), paddock.gym.make("CartPole-v1")
    pendulum.reset(seed=1)
    pendulum.step([5.0])  # outside Box(-2, 2), as in Gymnasium
    for env, action in ((pendulum, [1.0, 1.0]), (pendulum, ["a"]), (pendulum, [float("nan")]), (cart, 2), (cart, 0.5)):
        env.reset(seed=1)
        with pytest.raises(paddock.InvalidAction):
            env.step(action)
    with paddock.make("Pendulum-v1") as env, pytest.raises(paddock.InvalidAction, match="bounds"):
        env.reset(seed=1)
        env.step([5.0])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_page_of_the_command_line_has_every_command_and_option(command, capsys, monkeypatch):
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    section = re.search(rf"^## `paddock {command.name}\b.*?(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section, f"docs/cli.md has no section on paddock {command.name}"
    assert f"`paddock {command.name}" in (ROOT / "README.md").read_text(encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "1000")  # no option is broken at a hyphen
    assert main([command.name, "--help"]) == 0
    options = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out))
    assert "--json" in options
    options -= {"--help", "--json"}
    assert {option for option in options if option not in section[0]} == set()


def test_picture_shows_the_demo_of_today():
    drawing = (DOCS / "demo.svg").read_text(encoding="utf-8").partition("</style>")[2]
    shown = html.unescape(re.sub(r"<[^>]+>", "", drawing)).replace("\xa0", " ")
    expected = [*demo.HEADER, *demo.FOOTER, *(stop.name for stop in demo.STOPS), "agentic", *demo.NEXT]
    assert [text for text in expected if text not in shown] == [], "record it again: scripts/record-demo"
    assert "http" not in drawing
