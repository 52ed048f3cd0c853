"""Run by test_physics_lanes.py where MuJoCo and the ALE are: lanes that step together equal the libraries' own."""

import threading
from functools import partial

import ale_py
import gymnasium
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv

import paddock
from paddock import LaneOptions
from paddock.errors import InvalidAction, InvalidSeed, PlanError, ResetNeeded, SnapshotUnsupported
from paddock.sources import mujoco_lanes
from paddock.sources.atari import AtariLanes
from paddock.vector.threads import ThreadVectorEnv
from tests.spaces.twins import same
from tests.vector.lockstep import MODES, assert_alike, played

gymnasium.register_envs(ale_py)

LIMIT = 25
KNOWN = {
    "HalfCheetah-v5": {},
    "Ant-v5": {},
    "Hopper-v5": {},
    "Walker2d-v5": {},
    "Swimmer-v5": {},
    "Humanoid-v5": {},
    "InvertedPendulum-v5": {},
}
SET_UP = [
    ("HalfCheetah-v5", {"ctrl_cost_weight": 0.3, "frame_skip": 2, "exclude_current_positions_from_observation": False}),
    ("Ant-v5", {"include_cfrc_ext_in_observation": False, "healthy_reward": 2, "main_body": "torso"}),
    ("Ant-v5", {"contact_force_range": (-3.0, 2.0), "exclude_current_positions_from_observation": False}),
    ("Hopper-v5", {"terminate_when_unhealthy": False, "forward_reward_weight": 3, "healthy_z_range": (1.2, 9.0)}),
    ("Humanoid-v5", {"include_cinert_in_observation": False, "contact_cost_range": (-np.inf, 1e-5)}),
]

pytestmark = [pytest.mark.filterwarnings("ignore::DeprecationWarning"), pytest.mark.filterwarnings("ignore:.*Box obs")]


def chosen(space, count, seed=7):
    rng = np.random.default_rng(seed)
    return [rng.uniform(space.low, space.high).astype(space.dtype) for _ in range(count)]


def lanes(id, count=3, mode="NextStep", **options):
    return paddock.make_vec(id, count, max_episode_steps=LIMIT, lanes=LaneOptions(autoreset=mode, threads=2), **options)


def loop(id, count=3, mode="NextStep", **options):
    how = LaneOptions(autoreset=mode)
    return paddock.make_vec(id, count, max_episode_steps=LIMIT, backend="loop", lanes=how, **options)


def native_lane(id, seed, actions, **options):
    """One environment of Gymnasium's, begun anew at the step after each end."""
    env = gymnasium.make(id, max_episode_steps=LIMIT, **options)
    seen, over = [(env.reset(seed=seed)[0], 0.0, False, False)], False
    for action in actions:
        result = (env.reset()[0], 0.0, False, False) if over else env.step(action)[:4]
        over = result[2] or result[3]
        seen.append(result)
    env.close()
    return seen


@pytest.mark.parametrize(("id", "options"), [*KNOWN.items(), *SET_UP, ("Pusher-v5", {}), ("Hopper-v4", {})], ids=str)
def test_each_lane_is_gymnasiums_environment_with_its_seed(id, options):
    with lanes(id, **options) as env:
        assert type(env) is ThreadVectorEnv
        assert (env._simulation is not None) == (id in KNOWN)
        actions = chosen(env.action_space, 40)
        results = [(env.reset(seed=5)[0], np.zeros(3), np.zeros(3, bool), np.zeros(3, bool)), *map(env.step, actions)]
    for lane in range(3):
        native = native_lane(id, 5 + lane, [batch[lane] for batch in actions], **options)
        for at, (ours, theirs) in enumerate(zip(results, native, strict=True)):
            found = [np.asarray(part[lane]).tobytes() for part in ours[:4]]
            wanted = [np.asarray(theirs[0]).tobytes(), np.float64(theirs[1]).tobytes()]
            assert found == [*wanted, *(np.bool_(part).tobytes() for part in theirs[2:])], (at, lane)
    assert any((result[2] | result[3]).any() for result in results)


@pytest.mark.parametrize(
    ("id", "mode"), [*(("Ant-v5", mode) for mode in MODES), ("Walker2d-v5", "NextStep"), ("Humanoid-v5", "SameStep")]
)
def test_infos_and_modes_are_those_of_the_loop(id, mode):
    runs = []
    for make in (lanes, loop):
        env = make(id, 4, mode)
        runs.append(played(env, mode, chosen(env.action_space, 40), 3))
    assert_alike(*runs)
    assert any(result[2].any() for result in runs[0] if len(result) == 5)


def test_wrapped_lanes_and_subclasses_are_stepped_by_their_own_step():
    wrapper = paddock.wrappers.ClipReward.wrapper_spec(min_reward=-1.0, max_reward=1.0)
    runs = []
    for make in (lanes, loop):
        env = make("HalfCheetah-v5", wrappers=[wrapper])
        assert getattr(env, "_simulation", None) is None
        runs.append(played(env, "NextStep", chosen(env.action_space, 30), 3))
    assert_alike(*runs)


def test_a_table_that_is_wrong_about_the_installed_version_is_not_used(monkeypatch):
    key = ("gymnasium.envs.mujoco.swimmer_v5", "SwimmerEnv")
    task = mujoco_lanes.TASKS[key]

    def older(env, before, after, actions):
        seen, rewards, over, infos = task.result(env, before, after, actions)
        return seen, np.nextafter(rewards, 9), over, infos

    monkeypatch.setitem(mujoco_lanes.TASKS, key, task._replace(result=older))
    monkeypatch.setattr(mujoco_lanes, "_tried", {})
    runs = []
    for make in (lanes, loop):
        env = make("Swimmer-v5")
        assert getattr(env, "_simulation", None) is None
        runs.append(played(env, "NextStep", chosen(env.action_space, 10), 3))
    assert_alike(*runs)


def test_lanes_that_are_set_up_differently_later_go_their_own_ways():
    runs = []
    for make in (lanes, loop):
        env = make("HalfCheetah-v5")
        seen = [env.reset(seed=1), *map(env.step, chosen(env.action_space, 3))]
        env.set_attr("_ctrl_cost_weight", [0.1, 0.5, 0.9])
        assert getattr(env, "_simulation", None) is None
        seen += map(env.step, chosen(env.action_space, 3, seed=8))
        env.set_attr("_ctrl_cost_weight", 0.2)
        seen += map(env.step, chosen(env.action_space, 3, seed=9))
        runs.append(seen)
        env.close()
    assert_alike(*runs)


def dear_cost(action):
    return 100.0


@pytest.mark.parametrize(
    ("id", "name", "values"),
    [
        ("HalfCheetah-v5", "_ctrl_cost_weight", [np.float32(0.1), np.float32(5), np.float32(0.1)]),
        ("HalfCheetah-v5", "_ctrl_cost_weight", [np.array(0.1), np.array(5.0), np.array(0.1)]),
        ("HalfCheetah-v5", "_ctrl_cost_weight", [1, True, 1.0]),
        ("Ant-v5", "_healthy_z_range", [[0.2, 1.0], [5.0, 6.0], [0.2, 1.0]]),
        ("HalfCheetah-v5", "_ctrl_cost_weight", "heavy"),
        ("HalfCheetah-v5", "control_cost", dear_cost),
        ("HalfCheetah-v5", "step", lambda action: (np.zeros(17), 1.0, False, False, {})),
    ],
    ids=["scalars", "arrays", "kinds", "lists", "useless", "method", "step"],
)
def test_settings_of_any_kind_are_seen(id, name, values):
    runs = []
    for make in (lanes, loop):
        env = make(id, validate=False)
        env.reset(seed=1)
        env.set_attr(name, values)
        assert getattr(env, "_simulation", None) is None
        runs.append([env.reset(seed=1), *map(env.step, chosen(env.action_space, 5))])
        env.close()
    assert_alike(*runs)


def test_lanes_that_are_all_set_up_otherwise_still_step_together():
    runs = []
    for make in (lanes, loop):
        env = make("Ant-v5")
        env.set_attr("_healthy_z_range", [[0.5, 0.7]] * 3)
        env.set_attr("_ctrl_cost_weight", np.float32(0.3))
        assert getattr(env, "_simulation", True) is not None
        runs.append(played(env, "NextStep", chosen(env.action_space, 30), 3))
    assert_alike(*runs)


def test_settings_that_come_with_a_snapshot_are_seen():
    source = loop("HalfCheetah-v5")
    source.set_attr("_ctrl_cost_weight", [0.1, 5.0, 0.1])
    source.reset(seed=1)
    saved, runs = source.snapshot(), []
    source.close()
    for make in (lanes, loop):
        env = make("HalfCheetah-v5")
        env.reset(seed=7)
        env.step(chosen(env.action_space, 1)[0])
        env.restore(saved)
        runs.append([env.step(action) for action in chosen(env.action_space, 4)])
        env.close()
    assert_alike(*runs)


def test_a_snapshot_goes_on_in_lanes_of_either_kind():
    first, second = lanes("Ant-v5", 2), loop("Ant-v5", 2)
    actions = chosen(first.action_space, 20)
    first.reset(seed=4)
    for action in actions[:9]:
        first.step(action)
    saved = first.snapshot()
    assert [one.step_count for one in first.state()] == [9, 9]
    second.reset(seed=0)
    second.restore(saved)
    onward = [first.step(action) for action in actions[9:]]
    assert_alike(onward, [second.step(action) for action in actions[9:]])
    first.restore(saved)
    assert first._simulation is not None
    assert_alike(onward, [first.step(action) for action in actions[9:]])
    first.close(), second.close()


def test_a_simulator_that_fails_ends_its_lane_alone(monkeypatch):
    env = lanes("Hopper-v5", 4)
    env.reset(seed=0)
    actions = chosen(env.action_space, 3)
    env.step(actions[0])
    broken, step = env.envs[2].unwrapped.data, env._simulation._step

    def failing(model, data, frames):
        if data is broken:
            raise RuntimeError("out of memory")
        step(model, data, frames)

    monkeypatch.setattr(env._simulation, "_step", failing)
    *_, truncations, infos = env.step(actions[1])
    assert truncations.tolist() == [False, False, True, False]
    assert "lane 2: out of memory" in infos["lane_error"][2]
    assert infos["_x_position"].tolist() == [True, True, False, True]
    _, _, _, truncations, infos = env.step(actions[2])
    assert not truncations.any() and "lane_error" not in infos
    env.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "paddock lanes"]


def test_a_spec_read_back_makes_such_lanes_again():
    with lanes("Hopper-v5", 2, reset_noise_scale=0.0) as env, paddock.make(env.spec) as again:
        assert type(again) is ThreadVectorEnv
        assert same(env.reset(seed=1), again.reset(seed=1))


GAME = {"max_num_frames_per_episode": 80, "noop_max": 7}


@pytest.mark.parametrize("mode", MODES)
def test_lanes_of_the_ale_are_its_own(mode):
    env = paddock.make_vec("ALE/Pong-v5", 2, backend="ale", lanes=LaneOptions(autoreset=mode, threads=2), **GAME)
    theirs = "SameStep" if mode == "SameStep" else "NextStep"
    native = AtariVectorEnv("pong", 2, repeat_action_probability=0.25, autoreset_mode=theirs, **GAME)
    assert type(env) is AtariLanes
    first, begun = env.reset(seed=4)
    assert env.observation_space.contains(first) and same(first, native.reset(seed=4)[0])
    assert begun["_lives"].all()
    for actions in np.random.default_rng(0).integers(6, size=(45, 2)):
        ours, expected = env.step(actions), native.step(actions)
        assert all(same(*pair) for pair in zip(ours[:1] + ours[2:4], expected[:1] + expected[2:4], strict=True))
        assert ours[1].dtype == np.float64 and ours[1].tolist() == expected[1].tolist()
        over = ours[2] | ours[3]
        if mode == "SameStep" and over.any():
            assert ours[4]["_final_obs"].tolist() == over.tolist()
            lane = int(np.argmax(over))
            assert same(ours[4]["final_obs"][lane], expected[4]["final_obs"][lane])
        if mode == "Disabled" and over.any():
            with pytest.raises(ResetNeeded, match=f"lane {np.argmax(over)}"):
                env.step(actions)
            again = {"reset_mask": over}
            assert same(env.reset(options=again)[0], native.reset(options=again)[0])
    assert max(one.step_count for one in env.state()) <= 20 and env.state()[0].episode_id.endswith("-0-3")
    env.close(), env.close()


def test_a_lane_of_the_ale_sees_what_one_environment_shows_frame_by_frame():
    settings = {"noop_max": 0, "use_fire_reset": False, "reward_clipping": False, "repeat_action_probability": 0.0}
    env = paddock.make_vec("ALE/Breakout-v5", 2, backend="ale", img_height=210, img_width=160, **settings)
    actions = np.random.default_rng(3).integers(env.single_action_space.n, size=(50, 2))
    first, steps = env.reset(seed=9)[0], [env.step(batch) for batch in actions]
    for lane in range(2):
        one = gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0, obs_type="grayscale")
        blank = np.zeros((210, 160), np.uint8)
        stack = [blank, blank, blank, one.reset(seed=0)[0]]
        assert same(first[lane], np.stack(stack))
        for ours, action in zip(steps, actions[:, lane], strict=True):
            frames = [one.step(action) for _ in range(4)]
            stack = [*stack[1:], np.maximum(frames[2][0], frames[3][0])]
            assert same(ours[0][lane], np.stack(stack))
            assert ours[1][lane] == sum(frame[1] for frame in frames) and not ours[2][lane]
        one.close()
    env.close()


def test_an_action_that_would_end_the_process_is_refused():
    with paddock.make_vec("ALE/Pong-v5", 2, backend="ale") as env:
        with pytest.raises(ResetNeeded):
            env.step(np.array([0, 1]))
        env.reset(seed=0)
        for bad in ([0, 6], [0, -1], [0], [0.0, 1.0]):
            with pytest.raises(InvalidAction, match="2 integers of Discrete"):
                env.step(np.array(bad))
        assert env.step(np.array([0, 1]))[0].shape == (2, 4, 84, 84)


def test_what_the_ales_lanes_have_not_is_refused():
    make = partial(paddock.make_vec, "ALE/Pong-v5", 2, backend="ale")
    for options in ({"num_threads": 2}, {"batch_size": 1}, {"obs_type": "ram"}, {"frameskip": (2, 5)}):
        with pytest.raises(PlanError):
            make(**options)
    with make() as env, pytest.raises(InvalidSeed, match="2147483648"):
        env.reset(seed=2**31 - 1)
    with make() as env:
        for ask in (env.snapshot, partial(env.restore, b"")):
            with pytest.raises(SnapshotUnsupported, match="backend='loop'"):
                ask()


def test_a_spec_of_the_ales_lanes_makes_them_again():
    with paddock.make_vec("ALE/Pong-v5", 2, backend="ale", img_width=40) as env, paddock.make(env.spec) as again:
        assert type(again) is AtariLanes
        assert same(env.reset(seed=3)[0], again.reset(seed=3)[0])
