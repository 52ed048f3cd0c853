"""Run by test_other_libraries.py where dm_control is: its tasks, and environments of dm_env that others wrote."""

import copy

import mujoco
import numpy as np
import pytest
from dm_control import manipulation, suite

import paddock
from paddock.errors import DependencyNotInstalled, InvalidSnapshot, NameNotFound, SnapshotUnsupported, UnsupportedMode
from paddock.sources import from_dm_env
from paddock.spaces import Box, Discrete, Tuple
from tests.families.forging import failing_once, filled, forged, integers_of, setting, without
from tests.families.playing import actions, equal, going_on, played
from tests.families.toy_dm_env import hidden, walk

# A model that is drawn too, a target that is part of the model, and numbers that are no arrays.
TELLING = ["lqr/lqr_2_1", "reacher/easy", "walker/walk"]
OTHERS = [id for id in map("/".join, suite.ALL_TASKS) if id not in TELLING]
TOY = "dm_env:tests.families.toy_dm_env:walk"


def native(id, seed, chosen):
    domain, _, task = id.partition("/")
    load = manipulation.load if domain == "manipulation" else None
    env = load(task, seed=seed) if load else suite.load(domain, task, task_kwargs={"random": seed})
    yield env.reset().observation
    for action in chosen:
        step = env.step(action)
        yield step.observation, step.reward


@pytest.mark.filterwarnings("error::UserWarning")
@pytest.mark.parametrize("id", [*TELLING, *(pytest.param(id, marks=pytest.mark.full) for id in OTHERS)])
def test_every_task_is_the_librarys_own_and_goes_on_from_a_snapshot(id):
    env, other = paddock.make(f"dm_control:{id}"), paddock.make(f"dm_control:{id}")
    chosen = [np.clip(action, -1, 1) for action in actions(env.action_space, 50)]
    played(env, 1, chosen[:5])
    found = played(env, 5, chosen)
    assert equal([found[0][0], *(one[:2] for one in found[1:])], list(native(id, 5, chosen)))
    assert found[-1][0] in env.observation_space
    other.reset(seed=9)
    other.restore(env.snapshot())
    copied = copy.deepcopy(env)
    expected = going_on(env, chosen[:20])
    for one in (other, copied):
        assert equal(going_on(one, chosen[:20]), expected)
    assert equal(other.reset(), env.reset())


def test_manipulation_is_the_librarys_own_and_says_what_it_can_not():
    id = "manipulation/reach_site_features"
    env = paddock.make(f"dm_control:{id}")
    chosen = actions(env.action_space, 10)
    played(env, 1, chosen[:3])
    found = played(env, 5, chosen)
    assert equal([found[0][0], *(one[:2] for one in found[1:])], list(native(id, 5, chosen)))
    with pytest.raises(SnapshotUnsupported, match="those of dm_control's suite can"):
        env.snapshot()
    with pytest.raises(SnapshotUnsupported, match="can't be copied"):
        copy.deepcopy(env)


def test_a_snapshot_of_another_task_or_a_wrong_stream_is_refused():
    env, other = paddock.make("dm_control:cartpole/balance"), paddock.make("dm_control:cartpole/two_poles")
    env.reset(seed=1), other.reset(seed=1)
    with pytest.raises(InvalidSnapshot, match="with this model"):
        env.restore(other.snapshot())
    saved = env.unwrapped.snapshot()
    place = saved.index(b"MT19937")
    at = saved.index((624).to_bytes(2, "big"), place)  # where the stream stands: past the end is not to be read
    broken = saved[:at] + (60000).to_bytes(2, "big") + saved[at + 2 :]
    before = env.unwrapped.snapshot()
    with pytest.raises(InvalidSnapshot):
        env.unwrapped.restore(broken)
    assert env.unwrapped.snapshot() == before


def test_no_address_count_or_setting_comes_from_a_snapshot():
    env = paddock.make("dm_control:ball_in_cup/catch").unwrapped
    env.reset(seed=1)
    good, integers = env.snapshot(), integers_of(env.dm_env.physics.data.ptr)
    assert "moment_rowadr" in integers
    changes = [setting("state", "arrays", name, to=np.full_like(one, 100)) for name, one in integers.items()]
    shapes = integers_of(env.dm_env.physics.model.ptr)
    changes += [setting("model", name, to=shapes[name]) for name in ("jnt_dofadr", "wrap_objid")]
    changes += [filled("model", "geom_size", to=np.nan), filled("state", "numbers", to=np.inf)]
    wrong = {"_step_count": "x", "_n_sub_steps": 20_000_000, "_reset_next_step": None, "step": 1, "task": None}
    changes += [setting("fields", 0, name, to=value) for name, value in wrong.items()]
    changes += map(without, ("who", "state", "model", "fields", "random"))
    for change in changes:
        with pytest.raises(InvalidSnapshot):
            env.restore(forged("dm_control", good, change))
    assert env.snapshot() == good


def test_a_model_that_mujoco_can_not_compute_is_put_back(monkeypatch):
    env = paddock.make("dm_control:reacher/easy").unwrapped
    env.reset(seed=1)
    first = env.snapshot()
    env.reset(seed=2)
    before = env.snapshot()
    monkeypatch.setattr(mujoco, "mj_forward", failing_once(mujoco.mj_forward, mujoco.FatalError("no")))
    with pytest.raises(InvalidSnapshot, match="can't go on from this snapshot: no"):
        env.restore(first)
    assert env.snapshot() == before


def test_pictures_are_the_librarys_own():
    size = {"height": 24, "width": 32, "camera_id": 0}
    env = paddock.make("dm_control:cartpole/balance", render_mode="rgb_array", render_kwargs=size)
    theirs = suite.load("cartpole", "balance", task_kwargs={"random": 1})
    env.reset(seed=1), theirs.reset()
    assert np.array_equal(env.render(), theirs.physics.render(**size))
    assert env.metadata["render_fps"] == 100
    with pytest.raises(UnsupportedMode):
        paddock.make("dm_control:cartpole/balance").unwrapped.render()


@pytest.mark.parametrize("name", ["cartpol/balance", "cartpole/balanc", "cartpole"])
def test_a_name_that_it_has_not_is_told_with_those_that_it_has(name):
    with pytest.raises(NameNotFound, match="cartpole"):
        paddock.make(f"dm_control:{name}")


@pytest.mark.parametrize(("discount", "flags"), [(0.0, (True, False)), (0.5, (False, True)), (1.0, (False, True))])
def test_only_an_end_without_discount_is_a_termination(discount, flags):
    env = paddock.make(TOY, length=2, discount=discount)
    env.reset(seed=1)
    _, reward, *running, info = env.step(2)
    assert (reward, running, info) == (2.0, [False, False], {"discount": 0.9})
    _, reward, *ended, info = env.step(0)
    assert (reward, tuple(ended), info) == (1.0, flags, {"discount": discount})


def test_specs_become_spaces_and_values_their_members():
    env = from_dm_env(walk(3))
    spaces = env.observation_space.spaces
    assert list(spaces) == ["place", "parts", "left"]
    assert (spaces["place"], env.action_space) == (Discrete(4), Discrete(3))
    assert spaces["parts"] == Tuple([Box(0, 1, (), np.float32), Box(0, 1, (2,), bool)])
    assert spaces["left"].dtype == np.int64
    assert env.reset(seed=1)[0] in env.observation_space
    assert env.step(1)[0] in env.observation_space


@pytest.mark.parametrize("isolation", [None, "sandbox"])
def test_a_function_with_a_seed_makes_it_anew_for_a_seed(isolation):
    with paddock.make(TOY, isolation=isolation) as env:
        env.reset(seed=7)
        env.step(1)
        places = [env.reset(seed=7)[0]["place"], *(env.reset()[0]["place"] for _ in range(5))]
    stream = np.random.RandomState(7)
    assert places == [stream.randint(4) for _ in range(6)]


def test_an_object_is_seeded_by_its_stream_or_says_that_it_is_not():
    env = from_dm_env(walk(3))
    assert env.reset(seed=7)[0]["place"] == np.random.RandomState(7).randint(4)
    with pytest.warns(UserWarning, match="seeds nothing"):
        from_dm_env(hidden()).reset(seed=7)


def test_what_it_can_not_do_is_said():
    env = from_dm_env(walk(3))
    env.reset(seed=1)
    with pytest.raises(SnapshotUnsupported, match="Walk can't save its state"):
        env.snapshot()
    with pytest.raises(UnsupportedMode, match="can't be drawn"):
        from_dm_env(walk(3), render_mode="rgb_array")
    with pytest.raises(TypeError, match="Expected a dm_env.Environment, got dict"):
        from_dm_env({})
    env.close(), env.close()
    assert env.unwrapped.dm_env.closed == 1
    other = copy.deepcopy(from_dm_env(walk(3)))
    assert other.reset(seed=1)[0] in other.observation_space


def test_a_step_after_the_end_without_a_guard_begins_anew():
    env = paddock.make(TOY, length=1).unwrapped
    env.reset(seed=1)
    assert env.step(0)[2]
    assert env.step(0)[1:4] == (0.0, False, False)


def test_beside_a_mujoco_that_it_does_not_know_the_command_is_told(monkeypatch):
    monkeypatch.setattr("paddock.sources.dm_control.import_mujoco", lambda: suite.no_such_thing)
    with pytest.raises(DependencyNotInstalled, match="pip install dm-control 'mujoco<4' packaging"):
        paddock.make("dm_control:cartpole/balance")
