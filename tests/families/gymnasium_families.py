"""Run by test_gymnasium_families.py where the packages are: the same numbers as the library's own, everywhere."""

import copy
import re
from urllib.parse import quote

import ale_py
import gymnasium
import minigrid
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import paddock
from paddock.errors import InvalidSnapshot, SnapshotUnsupported
from paddock.sources import from_gymnasium
from paddock.sources.foreign import open_value
from tests.families.forging import failing_once, filled, forged, integers_of, setting, without
from tests.families.playing import (
    actions,
    check_guard_of_three_steps,
    equal,
    going_on,
    lane_of,
    played,
    same_numbers,
)
from tests.serving import serving
from tests.spaces.twins import same

gymnasium.register_envs(ale_py)
gymnasium.register_envs(minigrid)

BOX2D = ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3"]
MUJOCO = ["HalfCheetah-v5", "Ant-v5", "Hopper-v4", "Humanoid-v5", "Pusher-v5"]
ATARI = ["ALE/Pong-v5", "ALE/Boxing-v5", "PongNoFrameskip-v4"]
MINIGRID = ["MiniGrid-Empty-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0"]
ONE_EACH = ["LunarLander-v3", "HalfCheetah-v5", "ALE/Pong-v5", "MiniGrid-Fetch-5x5-N2-v0"]
TWENTY = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0", "Pendulum-v1"]
TWENTY += ["Blackjack-v1", "CliffWalking-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4"]
TWENTY += ["LunarLanderContinuous-v3", "BipedalWalker-v3", "Ant-v5", "Hopper-v5", "Walker2d-v5"]
TWENTY += ["InvertedPendulum-v5", "Reacher-v5", "ALE/Breakout-v5", "ALE/Freeway-v5", "MiniGrid-Empty-5x5-v0"]
STEPS = {"CarRacing-v3": 8}

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.filterwarnings("ignore:.*Box obs")]


@pytest.mark.parametrize("id", [*BOX2D, *MUJOCO, *ATARI, *MINIGRID])
def test_trajectories_are_the_librarys_own(id):
    env, native = paddock.make(id), gymnasium.make(id)
    chosen = actions(env.action_space, STEPS.get(id, 120))
    assert same(played(env, 5, chosen), played(native, 5, chosen))
    assert env.state().step_count is not None
    assert (env.spec.id, env.spec.max_episode_steps) == (id, native.spec.max_episode_steps)
    env.close(), env.close(), native.close()


@pytest.mark.parametrize("id", ONE_EACH)
def test_the_guard_alone_limits_orders_and_validates(id):
    env = paddock.make(f"gymnasium:{id}", max_episode_steps=3)
    theirs = env.unwrapped.gymnasium_env
    while theirs is not theirs.unwrapped:
        assert type(theirs).__name__ not in ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker")
        theirs = theirs.env
    check_guard_of_three_steps(env)


def native_lanes(id, count, chosen):
    """Results by lane, without the infos: batched infos have a form of their own."""
    found = []
    for lane in range(count):
        env = gymnasium.make(id)
        observations = [env.reset(seed=5 + lane)[0]]
        found.append([observations[0], *(env.step(action)[:4] for action in chosen)])
        env.close()
    return found


@pytest.mark.parametrize("kind", ["loop", "process", "sandbox"])
@pytest.mark.parametrize("id", ONE_EACH)
def test_lanes_are_single_environments(id, kind):
    isolation = None if kind == "loop" else kind
    with paddock.make(id, num_envs=2, isolation=isolation) as lanes:
        chosen = actions(lanes.single_action_space, 12)
        results = [(lanes.reset(seed=5)[0],)]
        for action in chosen:
            results.append(
                lanes.step(np.stack([action] * 2) if isinstance(action, np.ndarray) else np.array([action] * 2))
            )
    for lane, expected in enumerate(native_lanes(id, 2, chosen)):
        assert equal(lane_of(results[0][0], lane), expected[0])
        for batch, (seen, reward, terminated, truncated) in zip(results[1:], expected[1:], strict=True):
            assert equal(lane_of(batch[0], lane), seen)
            assert [part[lane] for part in batch[1:4]] == [reward, terminated, truncated]


@pytest.mark.parametrize("isolation", ["process", "sandbox"])
@pytest.mark.parametrize("id", ONE_EACH)
def test_apart_from_this_process_it_is_the_same(id, isolation):
    env, native = paddock.make(id, isolation=isolation), gymnasium.make(id)
    with env:
        chosen = actions(env.action_space, 12)
        assert same_numbers(played(env, 5, chosen), played(native, 5, chosen))


def test_a_server_has_them_too(tmp_path):
    with serving(*ONE_EACH[:-1], f"gymnasium:{ONE_EACH[-1]}", cwd=tmp_path) as server:
        assert server.environments == ONE_EACH
        for id in ONE_EACH:
            native = gymnasium.make(id)
            with paddock.make(server.with_token(f"/{quote(id, safe='')}")) as env:
                chosen = actions(env.action_space, 8)
                assert same_numbers(played(env, 5, chosen), played(native, 5, chosen))
                assert env.state().step_count == 8


@pytest.mark.full
def test_twenty_more_through_one_server(tmp_path):
    """Gymnasium's own where paddock has one of that name: by the prefix."""
    with serving(*(f"gymnasium:{id}" for id in TWENTY), cwd=tmp_path) as server:
        for id in TWENTY:
            native = gymnasium.make(id)
            with paddock.make(server.with_token(f"/{quote(id, safe='')}")) as env:
                chosen = actions(env.action_space, 40)
                assert same_numbers(played(env, 7, chosen), played(native, 7, chosen)), id


@pytest.mark.parametrize("id", [*MUJOCO, *ATARI])
def test_snapshots_and_copies_go_on_exactly(id):
    env, other = paddock.make(id), paddock.make(id)
    env.reset(seed=3)
    other.reset(seed=99)
    for one in (env, other):
        going_on(one, actions(one.action_space, 25))
    saved, copied = env.snapshot(), copy.deepcopy(env)
    chosen = [env.action_space.sample() for _ in range(30)]
    expected = going_on(env, chosen)
    other.restore(saved)
    env.restore(saved)
    for one in (env, other, copied):
        assert same(going_on(one, chosen), expected)
    assert same(copied.reset(), env.reset())


@pytest.mark.parametrize("chance", [0.25, 0.9])
def test_an_action_that_the_ale_holds_down_is_part_of_a_snapshot(chance):
    """With sticky actions: after any number of steps, after a reset, with and without a seed."""
    env, other = (paddock.make("ALE/Pong-v5", frameskip=1, repeat_action_probability=chance) for _ in range(2))
    env.reset(seed=2)
    other.reset(seed=7)
    env.action_space.seed(1)
    for trial in range(16):
        for _ in range(trial if trial % 3 else 35):
            env.step(env.action_space.sample())
        if trial % 5 == 4:
            env.reset(seed=trial if trial % 2 else None)
        saved = env.snapshot()
        chosen = [env.action_space.sample() for _ in range(6)]
        expected = [env.step(action) for action in chosen]
        other.restore(saved)
        assert same([other.step(action) for action in chosen], expected), trial
        env.restore(saved)
        assert same([env.step(action) for action in chosen], expected), trial


def test_lanes_and_walled_environments_are_saved_too():
    for options in ({"num_envs": 2}, {"isolation": "sandbox"}):
        env = paddock.make("Ant-v5", **options)
        with env:
            env.reset(seed=3)
            chosen = actions(env.action_space, 6)
            env.step(chosen[0])
            saved = env.snapshot()
            expected = [env.step(action) for action in chosen]
            env.restore(saved)
            assert all(same(a[:4], b[:4]) for a, b in zip(map(env.step, chosen), expected, strict=True))


@pytest.mark.parametrize("id", ["LunarLander-v3", "BipedalWalker-v3"])
def test_what_box2d_can_not_do_is_said(id):
    env = paddock.make(id)
    env.reset(seed=1)
    with pytest.raises(SnapshotUnsupported, match=f"{id} can't save its state"):
        env.snapshot()
    with pytest.raises(SnapshotUnsupported, match=f"{id} can't be copied"):
        copy.deepcopy(env)


def test_a_copy_of_a_grid_goes_on_from_where_it_is():
    env = paddock.make("MiniGrid-Fetch-5x5-N2-v0")
    env.reset(seed=1)
    for action in (0, 1, 2):
        env.step(action)
    other = copy.deepcopy(env)
    chosen = [0, 2, 1, 2, 2]
    assert same([other.step(action) for action in chosen], [env.step(action) for action in chosen])


def test_a_snapshot_of_something_else_changes_nothing():
    cheetah, ant, pong, boxing = (
        paddock.make(id) for id in ("HalfCheetah-v5", "Ant-v5", "ALE/Pong-v5", "ALE/Boxing-v5")
    )
    for env in (cheetah, ant, pong, boxing):
        env.reset(seed=1)
    for env, wrong in ((cheetah, ant), (ant, pong), (pong, boxing), (boxing, cheetah)):
        before = env.unwrapped.snapshot()
        with pytest.raises(InvalidSnapshot):
            env.restore(wrong.snapshot())
        assert env.unwrapped.snapshot() == before


@pytest.mark.parametrize("id", ["Ant-v5", "ALE/Pong-v5"])
def test_no_broken_snapshot_is_taken(id):
    env = paddock.make(id)
    env.reset(seed=1)
    good = bytearray(env.snapshot())
    random = np.random.default_rng(4)
    for _ in range(60):
        bad = bytes(good[: random.integers(len(good) - 1)])
        with pytest.raises(InvalidSnapshot):
            env.restore(bad)
    env.step(env.action_space.sample())


@pytest.mark.parametrize("id", ["Humanoid-v5", "HalfCheetah-v5"])
def test_no_address_or_count_of_mujocos_comes_from_a_snapshot(id):
    """It would follow them out of its memory."""
    env = paddock.make(id).unwrapped
    env.reset(seed=1)
    good, integers = env.snapshot(), integers_of(env.data)
    assert "ten_wrapnum" in integers
    for name, array in integers.items():
        bad = forged("gymnasium", good, setting("state", "arrays", name, to=np.full_like(array, 100)))
        with pytest.raises(InvalidSnapshot, match="another model"):
            env.restore(bad)
    assert env.snapshot() == good


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("path", [("numbers",), ("arrays", "xpos")])
def test_a_state_that_is_not_finite_is_refused(path, number):
    env = paddock.make("Hopper-v5").unwrapped
    env.reset(seed=1)
    good = env.snapshot()
    with pytest.raises(InvalidSnapshot, match=f"not finite, in .*{path[-1][:2] if len(path) > 1 else 'state'}"):
        env.restore(forged("gymnasium", good, filled("state", *path, to=number)))
    assert env.snapshot() == good


def test_what_sleeps_is_not_saved():
    """By the number of its neighbour, which no snapshot may tell."""
    env = paddock.make("Hopper-v5").unwrapped
    env.reset(seed=1)
    good = env.snapshot()
    env.model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    for use in (env.snapshot, lambda: env.restore(good)):
        with pytest.raises(SnapshotUnsupported, match="sleeping"):
            use()


def test_what_mujoco_can_not_compute_from_is_refused_and_changes_nothing(monkeypatch):
    env = paddock.make("Hopper-v5").unwrapped
    env.reset(seed=1)
    first = env.snapshot()
    env.step(env.action_space.sample())
    before = env.snapshot()
    monkeypatch.setattr(mujoco, "mj_forward", failing_once(mujoco.mj_forward, mujoco.FatalError("no")))
    with pytest.raises(InvalidSnapshot, match="can't go on from this snapshot: no"):
        env.restore(first)
    assert env.snapshot() == before


@pytest.mark.parametrize(("id", "counted"), [("HalfCheetah-v5", "frame_skip"), ("ALE/Pong-v5", "_frameskip")])
def test_fields_are_those_that_it_has_and_of_their_kinds(id, counted):
    env = paddock.make(id).unwrapped
    env.reset(seed=1)
    good = env.snapshot()
    hidden = ["step", "reset", "close", "unwrapped", "np_random", "_np_random", "spec", "action_space", "__class__"]
    changes = [setting("fields", 0, name, to="boo") for name in [*hidden, "_np_random_seed", counted]]
    changes += [setting("fields", 0, name, to=None) for name in hidden]
    changes += [setting("fields", 0, counted, to=number) for number in (20_000, None, True)]
    changes += [setting("fields", 0, to={}), setting("fields", to=[]), *map(without, ("who", "state", "fields"))]
    for change in changes:
        with pytest.raises(InvalidSnapshot):
            env.restore(forged("gymnasium", good, change))
    assert env.snapshot() == good


def test_a_field_that_the_first_reset_makes_comes_with_a_snapshot():
    env, fresh = paddock.make("Reacher-v5").unwrapped, paddock.make("Reacher-v5").unwrapped
    env.reset(seed=1)
    fresh.restore(env.snapshot())
    assert same(fresh.step(np.ones(2, np.float32)), env.step(np.ones(2, np.float32)))


def broken_states(bits):
    """A stream that can't be read, a length, a count of memory, a device's own numbers, a bank; and less or more."""
    count, number, bank = (bits.index(name) + len(name) for name in (b"M6532", b"TIASound", b"CartridgeF8"))
    text = re.search(rb"(?:\d+ ){624}", bits).start()
    far = (200 << 8).to_bytes(4, "little")
    for place, new in [(text + 100, b"x"), (text - 4, far), (count, far), (bank, far), (number - 12, far)]:
        yield bits[:place] + new + bits[place + len(new) :]
    at = bits.index(b"M6502Low") + 8 + 6 * 4  # a yes or no, which it raises about when half is read
    yield bits[:at] + b"\0" + bits[at + 1 :]
    yield from (bits[:-1], bits * 2, bytes(len(bits)), b"")


@pytest.mark.parametrize("chance", [0.0, 0.25])
def test_a_broken_state_of_the_ale_is_refused_and_changes_nothing(chance):
    env = paddock.make("ALE/Asteroids-v5", repeat_action_probability=chance).unwrapped
    env.reset(seed=1)
    first = env.snapshot()
    for _ in range(30):
        env.step(2)
    before, bits = env.snapshot(), open_value("gymnasium", first)["state"]["bits"]
    for number, bad in enumerate(broken_states(bits)):
        with pytest.raises(InvalidSnapshot):
            env.restore(forged("gymnasium", first, setting("state", "bits", to=bad)))
        assert env.snapshot() == before, number


def test_a_wrapper_of_gymnasiums_between_is_saved_with_it():
    env = from_gymnasium(gymnasium.make("Hopper-v5", max_episode_steps=9))
    env.reset(seed=1)
    chosen = [action * 0 for action in actions(env.action_space, 8)]
    env.step(chosen[0])
    saved = env.snapshot()
    flags = [env.step(action)[3] for action in chosen]
    env.restore(saved)
    assert [env.step(action)[3] for action in chosen] == flags == [False] * 7 + [True]


def test_simulators_can_be_reached():
    assert paddock.make("ALE/Pong-v5").unwrapped.ale.lives() == 0
    env = paddock.make("HalfCheetah-v5")
    assert env.unwrapped.data.qpos.shape == (9,)
    assert env.get_wrapper_attr("frame_skip") == 5


@pytest.mark.parametrize("id", ["LunarLander-v3", "ALE/Pong-v5", "MiniGrid-Empty-5x5-v0"])
def test_pictures_are_the_librarys_own(id):
    env, native = paddock.make(id, render_mode="rgb_array"), gymnasium.make(id, render_mode="rgb_array")
    env.reset(seed=1), native.reset(seed=1)
    assert same(env.render(), native.render())


@pytest.mark.filterwarnings("ignore")  # infinite bounds and the like: the native ones are warned of too
@pytest.mark.parametrize("id", ONE_EACH)
def test_back_in_gymnasium_its_checker_passes(id):
    check_env(paddock.to_gymnasium(paddock.make(id)), skip_render_check=True)


def test_a_window_without_a_display_is_refused_and_not_fatal(monkeypatch):
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(paddock.errors.DependencyNotInstalled, match="no display"):
        paddock.make("Hopper-v5", render_mode="human")
