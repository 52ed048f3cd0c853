"""``paddock init``: what it writes works at once, and nothing that is there already is touched."""

import argparse
import io
import json
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

import paddock as toolkit
from paddock.agentic import CallTool
from paddock.cli import main, serve
from tests.peers import ROOT
from tests.serving import serving

KINDS = {"tools": [], "gym": ["--gym"]}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def made(here):
    """``made("gym")`` is the folder of a new environment."""

    def make(kind):
        with redirect_stdout(io.StringIO()):
            assert main(["init", "my_env", *KINDS[kind]]) == 0
        return here / "my_env"

    return make


def own_tests(folder):
    """A run of the folder's own tests."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
    )


@kinds
def test_files_are_those_that_it_lists(here, paddock, kind):
    told = paddock("init", "my_env", *KINDS[kind], "--json").document
    assert (told["folder"], told["id"]) == ("my_env", "MyEnv-v0")
    written = [path.relative_to(here / "my_env").as_posix() for path in (here / "my_env").rglob("*") if path.is_file()]
    assert sorted(written) == sorted(told["files"])
    assert set(told["files"]) == {
        *("paddock.toml", "pyproject.toml", "my_env.py", "tests/test_my_env.py", "Dockerfile", "README.md"),
    }


@kinds
def test_no_placeholder_is_left(made, kind):
    for path in made(kind).rglob("*.*"):
        assert not re.search(r"@(name|Name|dist|docker)@", path.read_text())


def test_environment_of_tools_has_about_thirty_lines_of_code(made):
    text = (made("tools") / "my_env.py").read_text()
    code = re.sub(r'"""(.|\n)*?"""', "", text)
    assert len([line for line in code.splitlines() if line.strip()]) <= 30


@pytest.mark.process
def test_folder_can_be_installed_and_is_then_a_plugin(made, here):
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*command, "--target", "site", "./" + made("gym").name], cwd=here, check=True, timeout=120)
    ask = "import paddock; env = paddock.make('my_env/MyEnv-v0'); print(env.spec.max_episode_steps, env.reset(seed=1))"
    told = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=here.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here / "site"), str(ROOT / "src")])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (told.stdout.split(maxsplit=1)[0], told.returncode) == ("100", 0), told.stderr


@pytest.mark.process
@kinds
def test_check_finds_nothing(made, paddock, kind):
    made(kind)
    result = paddock("check", "./my_env", "--strict")
    assert (result.code, result.out) == (0, "./my_env: no problems found\n")


@pytest.mark.process
@kinds
def test_run_plays_and_has_a_digest_that_repeats(made, paddock, kind):
    made(kind)
    one, two = (paddock("run", "./my_env", "--episodes", "2", "--seed", "1", "--json").document for _ in range(2))
    assert len(one["episodes"]) == 2 and one["steps"] >= 2
    assert one["trajectory_digest"] == two["trajectory_digest"] is not None


@pytest.mark.process
@kinds
def test_its_own_tests_pass(made, kind):
    done = own_tests(made(kind))
    assert done.returncode == 0, done.stdout
    assert re.search(r"[3-9] passed", done.stdout)


@pytest.mark.process
def test_tests_of_the_scaffold_can_fail(made):
    folder = made("tools")
    module = folder / "my_env.py"
    module.write_text(module.read_text().replace('"answer": a + b', '"answer": a - b'))
    done = own_tests(folder)
    assert done.returncode == 1 and "1 failed" in done.stdout


@pytest.mark.process
def test_tools_are_served(made):
    folder = made("tools")
    with serving("./my_env", cwd=folder.parent) as server, toolkit.make(server.with_token("/MyEnv-v0")) as env:
        observation, info = env.reset(seed=1, options={"split": "test", "index": 3})
        assert observation.content[0].text == info["task"]["prompt"] == "What is 7 + 23? Submit the answer."
        observation, reward, terminated, _, info = env.step(CallTool("submit", {"answer": 30}))
        assert (reward, terminated, info["rubric"]["score"]) == (1.0, True, 1.0)


@pytest.mark.process
def test_gym_style_environment_is_served(made):
    folder = made("gym")
    with serving("./my_env", cwd=folder.parent) as server, toolkit.make(server.with_token("/MyEnv-v0")) as env:
        place, _ = env.reset(seed=1)
        assert env.step(1)[0] == place + 1


@pytest.mark.process
@kinds
def test_code_of_its_readme_runs(made, kind, capsys):
    readme = (made(kind) / "README.md").read_text()
    (code,) = re.findall(r"^```python\n(.*?)^```", readme, re.DOTALL | re.MULTILINE)
    exec(compile(code, "README.md", "exec"), {})


@kinds
def test_container_starts_a_server_with_options_that_exist(made, kind):
    lines = (made(kind) / "Dockerfile").read_text().splitlines()
    (entry,) = (json.loads(line.removeprefix("ENTRYPOINT ")) for line in lines if line.startswith("ENTRYPOINT"))
    assert entry[:3] == ["paddock", "serve", "/env"]
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    parser.parse_args(entry[2:])
    wheels, copied = (line.split()[1:-1] for line in lines if line.startswith("COPY"))
    assert (wheels, copied) == (["wheels"], ["paddock.toml", "my_env.py"])


def test_says_what_to_do_next(here, paddock):
    result = paddock("init", "my_env")
    assert "paddock check ./my_env" in result.out and "pytest ./my_env" in result.out


def test_folder_elsewhere(here, paddock):
    (here / "envs").mkdir()
    assert "paddock check ./envs/maze" in paddock("init", "envs/maze").out
    assert "Maze-v0" in (here / "envs" / "maze" / "paddock.toml").read_text()
    assert f"paddock run {here}/pit" in paddock("init", str(here / "pit")).out


def test_empty_folder_is_filled(here, paddock):
    (here / "maze").mkdir()
    assert paddock("init", "maze").code == 0
    assert (here / "maze" / "maze.py").exists()


@pytest.mark.parametrize("kind", ["folder with a file", "file", "link to a folder", "link to nowhere"])
def test_what_exists_is_not_overwritten(here, paddock, kind):
    (here / "elsewhere").mkdir()
    target = here / "maze"
    if kind == "folder with a file":
        target.mkdir()
        (target / "notes.txt").write_text("mine")
    elif kind == "file":
        target.write_text("mine")
    else:
        target.symlink_to(here / ("elsewhere" if kind == "link to a folder" else "nowhere"))
    before = sorted(here.rglob("*"))
    result = paddock("init", "maze")
    assert result.code == 2 and "maze already exists" in result.err
    assert sorted(here.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("My-Env", "Did you mean 'my_env'?"),
        ("MyEnv", "Did you mean 'my_env'?"),
        ("2d", "can't be the name of an environment"),
        ("a b", "Did you mean 'a_b'?"),
        ("_env", "Did you mean 'env'?"),
        ("maze.py", "Did you mean 'maze_py'?"),
        ("émaze", "can't be the name of an environment"),
        ("x" * 41, "at most 40"),
        ("class", "already means something in Python"),
        ("none", "already means something in Python"),
        ("tool_env", "already means something in Python or paddock"),
        ("json", "There is already a module"),
        ("numpy", "There is already a module"),
        ("paddock", "There is already a module"),
        ("nowhere/maze", "there is no folder nowhere"),
        ("..", "already exists"),
        ("", "already exists"),
    ],
)
def test_name_that_would_not_work_is_refused_before_anything_is_written(here, paddock, name, why):
    (here / "keep").write_text("mine")
    result = paddock("init", name)
    assert result.code == 2 and why in result.err
    assert [path.name for path in here.iterdir()] == ["keep"]


def test_a_folder_whose_name_was_taken_for_an_id_is_found(paddock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert paddock("init", "my_env").code == 0
    found = paddock("run", "my_env")
    assert found.code == 2
    assert "Did you mean ./my_env?" in found.err
    (tmp_path / "empty").mkdir()
    assert "./empty" not in paddock("run", "empty").err
