"""A package's folder, written for one test."""

import pytest

GOOD = """
[package]
name = "maze"
version = "1.2.0"

[[env]]
id = "Maze-v0"
entry = "maze_env:Maze"
"""


@pytest.fixture
def package(tmp_path):
    """``package(toml)``: a folder with this manifest and a module maze_env, which must never be imported."""

    def write(toml=GOOD, *, modules=("maze_env.py",)):
        folder = tmp_path / "maze"
        folder.mkdir(exist_ok=True)
        for name in modules:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text("raise SystemExit('imported')\n")
        if toml is not None:
            (folder / "paddock.toml").write_text(toml)
        return folder

    return write
