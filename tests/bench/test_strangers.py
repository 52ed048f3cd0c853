"""What a bundle or a suite of a stranger can't do: run code outside of the wall, take all memory, crash the reader."""

import json
import os
import shutil
import sys
from contextlib import closing
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from paddock.bench.bundle import LOG, PLAN, START, read_bundle, sign_bundle, write_json
from paddock.bench.log import LINES, LogWriter, bits
from paddock.bench.plan import make_environment, make_plan, place_of
from paddock.bench.play import _act
from paddock.bench.suites import Suite, SuiteTask, read_suite
from paddock.core.env import isolation_of
from paddock.core.registry import registry
from paddock.core.spec import EnvSpec, WrapperSpec
from paddock.errors import InvalidSuite, PlanError
from paddock.record.digest import environment_digest
from tests.bench.forging import KEY, forge, run, verify


def with_spec(**changes):
    """A plan whose one task has another spec, under its right digest."""

    def plan(plan):
        (task,) = plan.tasks
        spec = replace(EnvSpec.from_json(task.spec), **changes)
        task = msgspec.structs.replace(task, spec=spec.to_json(), environment=environment_digest(spec))
        return msgspec.structs.replace(plan, tasks=(task,))

    return plan


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    return run(tmp_path_factory.mktemp("honest") / "b")


@pytest.mark.process
def test_a_vector_entry_point_of_a_plan_is_not_imported(bundle, tmp_path, monkeypatch):
    (tmp_path / "of_a_stranger.py").write_text("def lanes(**kwargs): raise RuntimeError('it ran')\n")
    monkeypatch.syspath_prepend(tmp_path)
    found = verify(forge(bundle, tmp_path / "f", plan=with_spec(vector_entry_point="of_a_stranger:lanes")))
    assert found.reason is not None and "of_a_stranger" not in sys.modules


def wrapper(name, **kwargs):
    return {"additional_wrappers": (WrapperSpec(name, f"paddock.wrappers:{name}", kwargs),)}


@pytest.mark.process
@pytest.mark.parametrize(
    "spec",
    [
        wrapper("FrameStackObservation", bogus=1),
        wrapper("FrameStackObservation", stack_size=1 << 50),
        {"additional_wrappers": 2000 * wrapper("ClipAction")["additional_wrappers"]},
        {"kwargs": {"bogus": 1}},
        {"kwargs": {"num_envs": 10**12}},
        {"id": "FrozenLake-v1", "kwargs": {"map_name": "nowhere"}},
        {"id": "MountainCar-v0", "kwargs": {"goal_velocity": 10**400}},
    ],
)
def test_arguments_that_fit_nothing_are_a_verdict(bundle, tmp_path, spec):
    if "id" in spec:
        spec = {**spec, "entry_point": registry[spec["id"]].entry_point, "vector_entry_point": None}
    assert verify(forge(bundle, tmp_path / "f", plan=with_spec(**spec))).reason == "irreproducible"


@pytest.mark.process
@pytest.mark.parametrize(
    ("spec", "isolation"),
    [
        ({}, "none"),
        (wrapper("TimeLimit", max_episode_steps=9), "none"),
        ({"kwargs": {"sutton_barto_reward": True}}, "none"),
        (wrapper("RepeatAction", num_repeats=1 << 60), "sandbox"),  # never returns from a step
        (wrapper("FrameStackObservation", stack_size=2), "sandbox"),
        ({"kwargs": {"render_mode": "rgb_array_list"}}, "sandbox"),  # keeps every frame
    ],
)
def test_arguments_that_may_take_all_time_or_memory_are_behind_a_wall(bundle, spec, isolation):
    (task,) = with_spec(**spec)(bundle.plan).tasks
    with closing(make_environment(task)) as env:
        assert isolation_of(env) == isolation


@pytest.mark.parametrize("place", ["/", "~/maze", "../maze", "./a/../..", "./.."])
def test_a_plan_leads_to_no_path_of_this_machine(bundle, tmp_path, place):
    def plan(plan):
        return msgspec.structs.replace(plan, tasks=(msgspec.structs.replace(plan.tasks[0], target=place),))

    found = verify(forge(bundle, tmp_path / "f", plan=plan))
    assert found.reason == "irreproducible" and "--env" in found.message


def test_a_plan_may_name_a_folder_beside_the_verifier(bundle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "maze").mkdir()
    task = msgspec.structs.replace(bundle.plan.tasks[0], target="./maze:acme/Maze-v0")
    assert place_of(task, None) == task.target


def test_rows_of_another_form_than_the_environments_are_tampered(bundle, tmp_path):
    """Rows of half a megabyte each would be as many as fit into the memory of a verifier."""

    task = msgspec.structs.replace(bundle.plan.tasks[0], actions=("<i8", (1 << 16,)))

    def rows(number, rows):
        table = np.zeros(2, task.row)
        table["flags"][-1] = rows["flags"][-1]
        return table

    plan = msgspec.structs.replace(bundle.plan, tasks=(task,))
    forged = forge(bundle, tmp_path / "f", plan=lambda _: plan, rows=rows)
    assert "plan's actions" in verify(forged).message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("spaces", "0" * 64),
        ("agentic", True),
        ("environment", "0" * 64),
        ("package", "0" * 64),
        ("target", "Acrobot-v1"),
    ],
)
def test_a_plan_that_lies_about_its_environment_is_tampered(tmp_path, monkeypatch, field, value):
    """Also if the run was made with that plan: runs with equal fields would be compared."""

    def lie(*arguments, **options):
        plan = make_plan(*arguments, **options)
        return msgspec.structs.replace(plan, tasks=(msgspec.structs.replace(plan.tasks[0], **{field: value}),))

    monkeypatch.setattr("paddock.bench.run.make_plan", lie)
    monkeypatch.setattr("paddock.bench.play._converse", _act)
    assert verify(run(tmp_path / "b").path).reason == "tampered"


@pytest.mark.parametrize("shape", [(-2, -2), (1,) * 70])
def test_shapes_that_numpy_does_not_know_are_a_verdict(bundle, tmp_path, shape):
    folder = tmp_path / "f"
    shutil.copytree(bundle.path, folder)
    task = msgspec.structs.replace(bundle.plan.tasks[0], actions=("<i8", shape))
    (folder / PLAN).unlink()
    write_json(folder / PLAN, msgspec.structs.replace(bundle.plan, tasks=(task,)))
    assert verify(folder).reason == "malformed"


def test_an_action_that_no_space_has_is_a_verdict(tmp_path):
    bundle = run(tmp_path / "b", Suite("echo", [SuiteTask("paddock/Echo", name="echo", episodes=1, max_steps=3)]))
    folder = tmp_path / "f"
    folder.mkdir()
    for name in (PLAN, START):
        shutil.copy(bundle.path / name, folder)
    (episode,) = bundle.episodes
    begin, _ = next(bundle.log.load([episode]))
    with closing(LogWriter(folder / LOG, bundle.plan_digest, bundle.start.nonce)) as log:
        log.begin(0, 0, episode.seed, begin.observation)
        log.add([(0, LINES, json.dumps([{"type": "nothing"}, 0, bits(0.0), 1]).encode())])
        log.end(0, "complete", 1, 0.0)
    sign_bundle(folder, bundle.plan, bundle.start, read_bundle(folder, partial=True).log, KEY)
    found = verify(folder)
    assert (found.reason, found.episode, found.step) == ("tampered", 0, 1)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path), lambda path: None])
def test_a_log_that_is_no_file_is_refused_at_once(bundle, tmp_path, make):
    folder = tmp_path / "f"
    shutil.copytree(bundle.path, folder)
    (folder / LOG).unlink()
    make(folder / LOG)
    assert verify(folder).reason == "malformed"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'name = "a"\n[[task]]\nenv = "x"\nkwargs.{".".join("a" * 200)} = 1\n', "64 parts"),  # 200,000: 100 GB
        (f'name = "a"\n[[task]]\nenv = "x"\nepisodes = {"9" * 5000}\n', "not TOML"),
        ('name = "a"\n[[task]]\nenv = "Pendulum-v1"\nfloor = -500.0\n', "pays for failing"),
        ('name = "a"\n[[task]]\nenv = "Pendulum-v1"\nfailure = nan\n', "finite"),
        ('name = "x/../../../elsewhere"\n[[task]]\nenv = "CartPole-v1"\n', "expected letters"),
    ],
)
def test_suites_that_would_do_harm_are_refused(tmp_path, text, words):
    file = tmp_path / "suite.toml"
    file.write_text(text)
    with pytest.raises(InvalidSuite, match=words):
        read_suite(str(file))


def test_a_log_of_more_frames_than_a_reader_keeps_is_refused(bundle, monkeypatch):
    monkeypatch.setattr("paddock.bench.log.MOST_FRAMES", 2)
    assert verify(bundle.path).reason == "malformed"


def test_a_place_for_a_task_that_is_not_in_the_bundle_is_a_mistake(bundle):
    with pytest.raises(PlanError, match="no task of this name. It has: cartpole"):
        verify(bundle.path, targets={"maze": "./maze"})
