"""Wrapper stacks are data: through JSON and back, into worker processes and lanes, into an environment's identity."""

import inspect
from functools import partial

import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock import EnvSpec, LaneOptions, WrapperSpec, wrappers
from paddock.errors import InvalidSpec, NoCanonicalForm
from paddock.making import locate, plan, resolve
from paddock.record import environment_digest
from paddock.record.digest import known_digests
from tests.spaces.twins import same
from tests.wrappers.lanes import Wanderer

WANDER = "me/Wander-v0"
# class name, its arguments, the environment's arguments
DATA = [
    ("PassiveEnvChecker", {}, {}),
    ("OrderEnforcing", {"disable_render_order_enforcing": True}, {}),
    ("TimeLimit", {"max_episode_steps": 2}, {}),
    ("Autoreset", {}, {}),
    ("RecordEpisodeStatistics", {"buffer_length": 7, "stats_key": "stats"}, {}),
    ("FilterObservation", {"filter_keys": ("count", "values")}, {"observation": "dict"}),
    ("FilterObservation", {"filter_keys": [1]}, {"observation": "pair"}),
    ("FlattenObservation", {}, {"observation": "dict"}),
    ("GrayscaleObservation", {"keep_dim": True}, {"observation": "picture"}),
    ("ResizeObservation", {"shape": (2, 5)}, {"observation": "picture"}),
    ("ReshapeObservation", {"shape": (2,)}, {"observation": "bounded"}),
    ("RescaleObservation", {"min_obs": -1, "max_obs": 1.5}, {"observation": "bounded"}),
    (
        "RescaleObservation",
        {"min_obs": np.full((2, 1), -2, np.float32), "max_obs": np.float32(9)},
        {"observation": "bounded"},
    ),
    ("DtypeObservation", {"dtype": np.float64}, {"observation": "bounded"}),
    ("DtypeObservation", {"dtype": np.dtype("int32")}, {"observation": "counts"}),
    ("DiscretizeObservation", {"bins": (3, 5), "multidiscrete": True}, {"observation": "bounded"}),
    ("DelayObservation", {"delay": 2}, {}),
    (
        "TimeAwareObservation",
        {"flatten": False, "normalize_time": True, "dict_time_key": "t"},
        {"max_episode_steps": 9},
    ),
    ("FrameStackObservation", {"stack_size": 3, "padding_type": "zero"}, {}),
    ("FrameStackObservation", {"stack_size": 3, "padding_type": np.array([7, 8], np.float32)}, {}),
    ("NormalizeObservation", {"epsilon": 1e-3}, {}),
    ("MaxAndSkipObservation", {"skip": 2}, {}),
    ("ClipAction", {}, {"continuous": True}),
    ("RescaleAction", {"min_action": np.array([-2, 0], np.float32), "max_action": 3}, {"continuous": True}),
    ("DiscretizeAction", {"bins": 3}, {"continuous": True}),
    ("StickyAction", {"repeat_action_probability": 0.5, "repeat_action_duration": (1, 3)}, {}),
    ("RepeatAction", {"num_repeats": 2}, {}),
    ("ClipReward", {"min_reward": -np.inf, "max_reward": 1.0}, {}),
    ("NormalizeReward", {"gamma": 0.9, "epsilon": 1e-4}, {}),
    ("ArrayConversion", {"env_xp": "numpy", "target_xp": "numpy"}, {}),
]
DRAWN = [  # those that want frames
    ("AddRenderObservation", {"render_only": False}),
    ("RenderCollection", {"pop_frames": False}),
    ("AddWhiteNoise", {"probability_of_noise_per_pixel": 0.5}),
    ("ObstructView", {"obstructed_pixels_ratio": 0.5, "obstruction_width": 10}),
    ("HumanRendering", {}),
]
WITH_A_FUNCTION = {
    "TransformObservation": {"func": abs, "observation_space": None},
    "TransformAction": {"func": abs, "action_space": None},
    "TransformReward": {"func": abs},
}
ELSEWHERE = {  # their tests bring what these need: an emulator, an encoder, torch and jax
    "AtariPreprocessing",
    "RecordVideo",
    "JaxToNumpy",
    "JaxToTorch",
    "NumpyToTorch",
    "TorchToNumpy",
}
SHELLS = {"Guard", "OneLane", "OneLaneAction", "OneLaneObservation", "OneLaneReward"}


@pytest.fixture(autouse=True)
def wander(fresh_registry):
    paddock.register(WANDER, "tests.wrappers.lanes:Wanderer")


def episode(env, seed=3, steps=12):
    """Everything that is seen in so many steps; the seconds of an episode are none of its data."""
    env.action_space.seed(seed)
    seen = [without_seconds(env.reset(seed=seed))]
    for _ in range(steps):
        result = env.step(env.action_space.sample())
        seen.append(without_seconds(result))
        if result[2] or result[3]:
            seen.append(without_seconds(env.reset()))
    return seen


def without_seconds(result):
    return (*result[:-1], {key: value for key, value in result[-1].items() if key not in ("episode", "stats")})


def test_every_wrapper_is_in_a_table():
    classes = {name for name in wrappers.__all__ if inspect.isclass(getattr(wrappers, name))}
    classes = {name for name in classes if issubclass(getattr(wrappers, name), paddock.Wrapper)}
    tables = {row[0] for row in DATA} | {row[0] for row in DRAWN} | set(WITH_A_FUNCTION) | ELSEWHERE | SHELLS
    assert classes == tables


def check_round_trip(env, name):
    again = paddock.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, getattr(wrappers, name))  # the first three are fields of a spec: one guard does their jobs
    assert again.spec == env.spec
    assert again.spec.to_json() == env.spec.to_json()
    assert environment_digest(again.spec) == environment_digest(env.spec)
    assert again.observation_space == env.observation_space
    assert again.action_space == env.action_space
    return again


@pytest.mark.parametrize(("name", "arguments", "of_env"), DATA)
def test_a_stack_goes_through_json_and_plays_the_same_episode(name, arguments, of_env):
    env = paddock.make(WANDER, wrappers=[getattr(wrappers, name).wrapper_spec(**arguments)], **of_env)
    again = check_round_trip(env, name)
    assert same(episode(env), episode(again))


@pytest.mark.parametrize(("name", "arguments"), DRAWN)
def test_a_stack_with_frames_goes_through_json(name, arguments, monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    stack = [getattr(wrappers, name).wrapper_spec(**arguments)]
    env = paddock.make("CartPole-v1", render_mode="rgb_array", wrappers=stack)
    again = check_round_trip(env, name)
    env.close()
    again.close()


@pytest.mark.parametrize("name", WITH_A_FUNCTION)
def test_a_wrapper_with_a_function_has_no_json_and_says_so(name):
    env = paddock.make(WANDER, wrappers=[partial(getattr(wrappers, name), **WITH_A_FUNCTION[name])], continuous=True)
    with pytest.raises(InvalidSpec, match=f"Callable found in {WANDER}.{name}.kwargs.func"):
        env.spec.to_json()
    with pytest.raises(NoCanonicalForm, match=f"{name}.kwargs.func"):
        environment_digest(env.spec)
    assert type(paddock.make(env.spec)) is getattr(wrappers, name)  # in this process the function itself is at hand


def test_a_wrapper_of_the_users_own_that_records_nothing_is_named():
    class Mine(paddock.Wrapper):
        pass

    env = paddock.make(WANDER, wrappers=[Mine])
    read = EnvSpec.from_json(env.spec.to_json())
    with pytest.raises(InvalidSpec, match="Mine"):
        paddock.make(read)
    with pytest.raises(NoCanonicalForm, match="Mine.kwargs were not recorded"):
        environment_digest(read)


# The arguments themselves.


@pytest.mark.parametrize(
    "value",
    [
        np.array([[1.5, np.inf], [-np.inf, np.nan]], np.float32),
        np.array([[], []], np.int16),
        np.array(2**64 - 1, np.uint64),
        np.array([True, False]),
        np.float16,
        float("nan"),
        [1, (2, {"a": np.arange(3)})],
    ],
    ids=str,
)
def test_arguments_come_back_as_they_were(value):
    spec = EnvSpec("X-v0", "a:b", kwargs={"value": value})
    assert EnvSpec.from_json(spec.to_json()) == spec
    assert spec != EnvSpec("X-v0", "a:b", kwargs={"value": 7})


@pytest.mark.parametrize(
    "value",
    [
        '{"$array": {"dtype": "float32", "shape": [2], "data": [1]}}',
        '{"$array": {"dtype": "float32", "shape": [-1], "data": []}}',
        '{"$array": {"dtype": "object", "shape": [], "data": [1]}}',
        '{"$array": {"dtype": "uint8", "shape": [1], "data": [256]}}',
        '{"$array": {"dtype": "int64", "shape": [1], "data": [true]}}',
        '{"$array": {"dtype": "float64", "shape": [1], "data": ["1e5"]}}',
        '{"$array": {"dtype": "float64", "shape": [1], "data": {"inf": 1}}}',
        '{"$array": {"dtype": "float64", "shape": [0, 9999999999999999999], "data": []}}',
        '{"$array": {"dtype": "int8", "shape": [], "data": [1], "more": 1}}',
        '{"$array": []}',
        '{"$dtype": "O"}',
        '{"$dtype": ["float32"]}',
        '{"$float": "7"}',
        '{"$float": "inf", "more": 1}',
        '{"$import": "os"}',
    ],
)
@pytest.mark.parametrize("where", ["kwargs", "wrapper"])
def test_malformed_tags_are_one_clear_error(value, where):
    wrapper = f'[{{"name": "W", "entry_point": "a:W", "kwargs": {{"x": {value}}}}}]'
    place = f'"kwargs": {{"x": {value}}}' if where == "kwargs" else f'"additional_wrappers": {wrapper}'
    with pytest.raises(InvalidSpec, match=r"kwargs\.x has the tag"):
        EnvSpec.from_json(f'{{"id": "X-v0", {place}}}')


def test_an_argument_that_looks_like_a_tag_is_refused_when_written():
    with pytest.raises(InvalidSpec, match="begin with \\$"):
        EnvSpec("X-v0", "a:b", kwargs={"deep": {"$array": 1}}).to_json()


# Across processes.

STACK = [
    wrappers.RescaleObservation.wrapper_spec(min_obs=np.zeros((2, 1), np.float32), max_obs=1.0),
    wrappers.FrameStackObservation.wrapper_spec(stack_size=2),
    wrappers.ClipReward.wrapper_spec(min_reward=-1.0),
]


@pytest.mark.process
def test_a_stack_crosses_into_a_worker_process_and_is_in_the_spec_there():
    here = paddock.make(WANDER, wrappers=STACK, observation="bounded")
    with paddock.make(WANDER, wrappers=STACK, observation="bounded", isolation="process") as there:
        assert there.spec == here.spec
        assert there.observation_space == here.observation_space
        assert environment_digest(there.spec) == environment_digest(here.spec)
        assert same(episode(there), episode(here))
        text = there.spec.to_json()
    with paddock.make(EnvSpec.from_json(text), isolation="process") as again:
        assert again.spec == here.spec
        assert same(episode(again), episode(here))


@pytest.mark.process
def test_a_function_crosses_but_the_spec_says_that_it_cannot_be_made_again():
    stack = [lambda env: wrappers.TransformReward(env, lambda reward: 7.0)]
    with paddock.make(WANDER, wrappers=stack, isolation="process") as env:
        env.reset(seed=0)
        assert env.step(0)[1] == 7.0
        (entry,) = env.spec.additional_wrappers
        assert (entry.name, entry.kwargs) == ("<lambda>", None)
        with pytest.raises(InvalidSpec, match="<lambda>"):
            paddock.make(env.spec)


@pytest.mark.process
@pytest.mark.parametrize(
    ("wrapper", "kwargs"),
    [
        (wrappers.ClipAction, {}),
        (partial(wrappers.RepeatAction, num_repeats=2), {"num_repeats": 2}),
        (wrappers.RepeatAction.wrapper_spec(num_repeats=2), {"num_repeats": 2}),
    ],
    ids=["class", "partial", "data"],
)
def test_of_a_class_registered_here_the_worker_has_no_json_and_the_stack_is_in_the_spec_all_the_same(wrapper, kwargs):
    paddock.register("me/Here-v0", Wanderer)
    with paddock.make("me/Here-v0", continuous=True, wrappers=[wrapper], isolation="process") as env:
        (entry,) = env.spec.additional_wrappers
        assert entry.kwargs == kwargs
        assert type(paddock.make(env.spec)).__name__ == entry.name


# Lanes.


@pytest.mark.process
@pytest.mark.parametrize(
    "how",
    [{"backend": "loop"}, {"isolation": "process", "lanes": LaneOptions(workers=1)}],
    ids=["loop", "process"],
)
def test_wrappers_of_make_vec_go_into_each_lane_and_stand_in_the_spec(how):
    single = paddock.make(WANDER, wrappers=STACK, observation="bounded")
    with paddock.make_vec(WANDER, 2, wrappers=STACK, observation="bounded", **how) as lanes:
        assert lanes.single_observation_space == single.observation_space
        assert lanes.spec.additional_wrappers == single.spec.additional_wrappers
        assert environment_digest(lanes.spec) == environment_digest(single.spec)
        observations, _ = lanes.reset(seed=5)
        text = lanes.spec.to_json()
    with paddock.make(EnvSpec.from_json(text)) as again:
        assert type(again) is type(lanes)
        assert np.array_equal(again.reset(seed=5)[0], observations)
    assert np.array_equal(single.reset(seed=5)[0], observations[0])


def test_lanes_that_would_be_compiled_step_in_a_loop_when_each_has_wrappers(seed):
    stack = [wrappers.FrameStackObservation.wrapper_spec(stack_size=2)]
    lanes = paddock.make_vec("CartPole-v1", 3, wrappers=stack)
    around = wrappers.vector.FrameStackObservation(paddock.make_vec("CartPole-v1", 3), 2)
    assert np.array_equal(lanes.reset(seed=seed)[0], around.reset(seed=seed)[0])
    lanes.action_space.seed(seed)
    for _ in range(40):
        actions = lanes.action_space.sample()
        assert same(lanes.step(actions)[:4], around.step(actions)[:4])
    with pytest.raises(paddock.PlanError, match="wrappers of one lane"):
        paddock.make_vec("CartPole-v1", 3, backend="compiled", wrappers=stack)


def test_a_plan_says_that_wrappers_of_lanes_cost_speed():
    def told(id, **kwargs):
        return dict(plan(resolve(locate(id)), num_envs=3, **kwargs).lines()).get("speed", "")

    assert "paddock.wrappers.vector" in told("CartPole-v1", wrappers=[wrappers.ClipReward.wrapper_spec(min_reward=0)])
    assert told("CartPole-v1") == told(WANDER, wrappers=[wrappers.ClipAction]) == ""


def test_frames_of_lanes_are_in_the_spec_too():
    for how in ({"backend": "loop"}, {"backend": "compiled"}):
        lanes = paddock.make_vec("CartPole-v1", 2, render_mode="rgb_array", **how)
        assert paddock.make(EnvSpec.from_json(lanes.spec.to_json())).render_mode == "rgb_array"


def test_gymnasiums_make_vec_keeps_them_too():
    lanes = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync", wrappers=[gym.wrappers.FlattenObservation])
    again = gym.make_vec(EnvSpec.from_json(lanes.spec.to_json()))
    assert [type(env) for env in again.envs] == [gym.wrappers.FlattenObservation] * 2


# Wrappers that an environment comes with.


def dressed():
    return wrappers.ClipReward(Wanderer(), 0.0, 1.0)


def test_an_entry_point_may_return_a_wrapped_environment():
    paddock.register("me/Dressed-v0", "tests.wrappers.test_stacks_as_data:dressed")
    env = paddock.make("me/Dressed-v0", wrappers=[wrappers.RepeatAction.wrapper_spec(num_repeats=2)])
    assert [entry.name for entry in env.spec.additional_wrappers] == ["ClipReward", "RepeatAction"]
    again = paddock.make(EnvSpec.from_json(env.spec.to_json()))
    assert str(again) == str(env)
    assert again.spec == env.spec


def test_a_spec_that_contradicts_what_the_environment_comes_with_is_refused():
    paddock.register("me/Dressed-v0", "tests.wrappers.test_stacks_as_data:dressed")
    spec = paddock.make("me/Dressed-v0").spec
    spec.additional_wrappers = (WrapperSpec("TimeLimit", "paddock.wrappers:TimeLimit", {"max_episode_steps": 4}),)
    with pytest.raises(InvalidSpec, match="comes with the wrappers"):
        paddock.make(spec)


# Identity.


def test_identity_changes_with_each_wrapper_argument_and_with_their_order():
    def identity(*stack, **kwargs):
        return environment_digest(paddock.make(WANDER, wrappers=stack, **kwargs).spec)

    clip, repeat = (wrappers.ClipReward.wrapper_spec(max_reward=high) for high in (1.0, 2.0)), wrappers.RepeatAction
    low, high = clip
    twice = repeat.wrapper_spec(num_repeats=2)
    found = [
        identity(),
        identity(low),
        identity(high),
        identity(low, twice),
        identity(twice, low),
        identity(chance=0.5),
        identity(wrappers.ClipReward.wrapper_spec(max_reward=1)),
    ]
    assert len(set(found)) == len(found)
    assert identity(low) == identity(partial(wrappers.ClipReward, max_reward=1.0))
    # Golden values: records that were written keep their meaning only while these hold.
    spec = EnvSpec("me/X-v0", "a:B", kwargs={"n": 1}, additional_wrappers=(WrapperSpec("W", "a:W", {"x": (1, 2.5)}),))
    assert known_digests(spec) == (environment_digest(spec), VERSION_1)
    assert environment_digest(spec) == VERSION_2


VERSION_1 = "3b3c474188cd05ec8debe9480bd20afb924ce477c22e2f7c907d2691e48c5f14"
VERSION_2 = "75e194d41a297a821fdc87718f132a218034ba6b2f9cb66dcf60b4c79bffda45"
