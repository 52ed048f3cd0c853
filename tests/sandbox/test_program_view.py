"""A program beside an environment sees of paddock what puts up its wall. The rest holds answers, and graders."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from paddock.sandbox import Machine, Policy
from paddock.sandbox.plan import Call, Exec, plan
from tests.sandbox.as_user import as_user
from tests.sandbox.program_looks import PACKAGE, PYTHON, look
from tests.sandbox.workers import needs_linux

pytestmark = needs_linux
WAYS = [*(["bwrap"] if Machine.here().bwrap is not None else []), "native", "landlock"]
LOOKS = str(Path(__file__).with_name("program_looks.py"))
NOTHING = {"boot": True, "answers": False, "init": False, "makes": False, "library": True}


@pytest.mark.process
def test_a_checkout_is_hidden():
    for way in WAYS:
        found = look(way)
        assert {name: found[name] for name in NOTHING} == NOTHING, way


@pytest.mark.process
def test_an_installed_paddock_is_hidden_and_what_lies_beside_it_is_not(tmp_path):
    """In site-packages, which a program may use."""
    installed = tmp_path / "site-packages"
    shutil.copytree(PACKAGE, installed / "paddock", ignore=shutil.ignore_patterns("__pycache__"))
    (installed / "beside.txt").write_text("")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder.name.startswith("pytest"):
            folder.chmod(0o755)  # pytest's folders are private; a program has another uid
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(installed), *filter(None, sys.path)])}
    done = subprocess.run([sys.executable, LOOKS, *WAYS], env=variables, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {way: {**NOTHING, "beside": True} for way in WAYS}


@pytest.mark.process
def test_it_is_hidden_by_every_way_to_it_and_so_is_a_second_copy(tmp_path):
    """Virtual environments have a lib64 that leads to lib, and Python's path may have both."""
    for name in ("lib", "other"):
        shutil.copytree(
            PACKAGE, tmp_path / name / "site-packages/paddock", ignore=shutil.ignore_patterns("__pycache__")
        )
    (tmp_path / "lib64").symlink_to("lib")
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005 and folder.name.startswith("pytest"):
            folder.chmod(0o755)
    entries = [str(tmp_path / name / "site-packages") for name in ("lib64", "lib", "other")]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([*entries, *filter(None, sys.path)])}
    for seen_from in entries:
        variables["LOOK_AT"] = f"{seen_from}/paddock"
        done = subprocess.run(
            [sys.executable, LOOKS, *WAYS], env=variables, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        for way, found in json.loads(done.stdout).items():
            shown = [found[name] for name in ("answers", "init", "makes")]
            assert (shown, found["library"]) == ([False] * 3, True), (way, seen_from)


@pytest.mark.process
def test_it_is_hidden_from_an_ordinary_users_program_too():
    done = as_user([sys.executable, LOOKS, *WAYS], PYTHONPATH=os.pathsep.join(filter(None, sys.path)))
    assert done.returncode == 0, done.stderr
    for way, found in json.loads(done.stdout).items():
        assert {name: found[name] for name in NOTHING} == NOTHING, way


@pytest.mark.process
def test_who_grants_the_folder_shows_it():
    found = look("native", read=(PACKAGE,))
    assert (found["answers"], found["makes"]) == (True, False)


def test_an_environments_worker_has_all_of_paddock():
    def shown(program, **policy):
        return [
            (one.source, one.how) for one in plan(program, Policy(**policy)).mounts if one.source.startswith(PACKAGE)
        ]

    inner = f"{PACKAGE}/sandbox/inside"
    if (PACKAGE, "ro") not in shown(Call("nothing")):
        pytest.skip("paddock is installed where all of site-packages is shown: runs in a checkout")
    assert shown(Exec((PYTHON,)), programs=(PYTHON,)) == [(inner, "ro")]
