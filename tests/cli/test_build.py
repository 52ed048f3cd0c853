"""paddock build: what the folder holds, what it refuses, and that nothing of the environment runs."""

import hashlib
import json
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from paddock.cli.build import build_image, find_engine
from paddock.cli.build import contents as module
from paddock.cli.build.contents import find_contents, write_own_wheel


@pytest.fixture
def fetched(monkeypatch):
    """No index: what pip would be asked for, and one wheel of ours that stands for what it fetches."""
    asked = []

    def download(wheels, words):
        asked.append(words)
        for word in words:
            if ".whl" in word:
                source = Path(word.partition("[")[0])
                (wheels / source.name).write_bytes(source.read_bytes())

    monkeypatch.setattr(module, "_download", download)
    return asked


@pytest.fixture
def maze(paddock, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))  # build looks for modules in this folder
    assert paddock("init", "--gym", "maze").code == 0
    code = tmp_path / "maze" / "maze.py"
    code.write_text("raise SystemExit('it was imported')\n" + code.read_text())
    return tmp_path / "maze"


def test_the_folder_holds_the_code_and_every_wheel_with_its_hash(paddock, maze, fetched):
    done = paddock(
        "build", "./maze", "--no-build", "--tag", "me/maze:2", "--base", "python@sha256:" + "a" * 64, "--json"
    )
    assert done.code == 0, done.err
    report, out = done.document, Path("maze-image")
    assert (report["image"], report["targets"]) == (None, ["/env/maze"])
    wheel = next((out / "wheels").glob("*.whl"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    line = (out / "wheels" / "requirements.txt").read_text().split()
    assert line == [report["pinned"][0], f"--hash=sha256:{digest}"] and "==" in line[0]
    assert (out / "env" / "maze" / "paddock.toml").is_file() and not list(out.rglob("__pycache__"))
    dockerfile, compose = (out / "Dockerfile").read_text(), (out / "compose.yaml").read_text()
    assert dockerfile.count("python@sha256:" + "a" * 64) == 2 and "@" not in dockerfile.replace("python@sha256", "")
    assert "USER 10001:10001" in dockerfile and "HEALTHCHECK" in dockerfile and "--require-hashes" in dockerfile
    command = json.loads(re.search(r"^CMD (.*)$", dockerfile, re.MULTILINE)[1])
    assert command[:2] == ["serve", "/env/maze"] and "--tls-key" in command
    assert 'image: "me/maze:2"' in compose and "127.0.0.1:8000:8000" in compose and "cap_drop: [ALL]" in compose


def test_building_again_replaces_its_own_files_only(paddock, maze, fetched):
    assert paddock("build", "./maze", "--no-build").code == 0
    Path("maze-image/secrets").mkdir()
    Path("maze-image/env/maze/old.py").write_text("")
    assert paddock("build", "./maze", "--no-build").code == 0
    assert Path("maze-image/secrets").is_dir() and not Path("maze-image/env/maze/old.py").exists()
    Path("other").mkdir()
    Path("other/Dockerfile").write_text("FROM scratch\n")
    refused = paddock("build", "./maze", "--no-build", "--out", "other")
    assert refused.code == 2 and "not overwritten" in refused.err
    Path("notes").mkdir()
    Path("notes/mine.txt").write_text("")
    assert paddock("build", "./maze", "--no-build", "--out", "notes").code == 2


def test_what_a_lock_pins_is_fetched_by_hash_and_nothing_is_resolved(paddock, maze, fetched):
    (maze / "lock").mkdir()
    lock = f"six==1.17.0 --hash=sha256:{'b' * 64}"
    (maze / "lock" / "requirements.txt").write_text(lock + "\n")
    manifest = maze / "paddock.toml"
    manifest.write_text(manifest.read_text() + '\n[dependencies]\nsix = ">=1"\n')
    done = paddock("build", "./maze", "--no-build")
    assert done.code == 0, done.err
    assert fetched[0][:2] == ["--require-hashes", "--no-deps"] and len(fetched) == 2


@pytest.mark.parametrize(("option", "text"), [("--tag", "-x"), ("--tag", "a b"), ("--base", "a\nRUN x")])
def test_a_name_that_is_not_an_image_is_refused(paddock, maze, fetched, option, text):
    refused = paddock("build", "./maze", "--no-build", f"{option}={text}")
    assert refused.code == 2 and "not the name of an image" in refused.err and fetched == []


def test_without_an_engine_it_says_what_to_install(paddock, maze, fetched, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    refused = paddock("build", "./maze", "--json")
    assert refused.code == 2 and refused.document["error"]["code"] == "DEPENDENCY_NOT_INSTALLED"
    assert not Path("maze-image").exists()


@pytest.mark.process
def test_podman_builds_where_docker_does_not_answer_and_its_image_has_a_health_check(tmp_path, monkeypatch):
    """In its own format Podman leaves the health check out."""
    for name, code in (("docker", "exit 1"), ("podman", f'echo "$@" >> {tmp_path}/words')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{code}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")
    build_image(find_engine(), "maze", ["."])
    assert (tmp_path / "words").read_text().splitlines()[-1] == "build --format docker -t maze ."


def test_ids_and_modules_bring_the_code_that_they_need(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "lone_maze.py").write_text("")
    assert find_contents("CartPole-v1").code == {}
    found = find_contents("lone_maze:Maze-v0")
    assert found.targets == ("lone_maze:Maze-v0",) and found.code == {"lone_maze.py": tmp_path / "lone_maze.py"}


def test_our_own_wheel_is_whole_and_always_the_same(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    first, second = write_own_wheel(tmp_path / "one"), write_own_wheel(tmp_path / "two")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
        rows = archive.read(next(name for name in names if name.endswith("/RECORD"))).decode().splitlines()
    assert "paddock/cli/program.py" in names and "paddock/cli/templates/image/Dockerfile.in" in names
    assert {row.partition(",")[0] for row in rows} == set(names)
