"""Vector wrappers against Gymnasium's, side by side; where Gymnasium refuses, against n single environments."""

import gymnasium
import numpy as np
import pytest

import paddock
import paddock.gym as gym
from paddock.core.vector_wrapper import (
    VectorActionWrapper,
    VectorObservationWrapper,
    VectorRewardWrapper,
    VectorWrapper,
)
from paddock.errors import NoAsyncCallError, PaddockError
from paddock.spaces import Box
from paddock.vector import AutoresetMode, SyncVectorEnv
from tests.spaces.twins import CATALOGUE
from tests.toys import Counter, Walker
from tests.vector.lockstep import alike

LIBRARIES = [gym, gymnasium]
SAME_STEP = AutoresetMode.SAME_STEP


def cartpoles(library, mode="NextStep", n=3):
    return library.make_vec(
        "CartPole-v1", num_envs=n, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}
    )


def counters(*goals, **options):
    return SyncVectorEnv([lambda goal=goal: Counter(goal) for goal in goals or (2, 3, 4)], **options)


def wrappers(library):
    """The four hooks, and a wrapper that writes `step` alone, as classes over a library's own."""
    vector = library.vector

    class Scaled(vector.VectorObservationWrapper):
        def observations(self, observations):
            return observations * np.float32(3)

    class Mirrored(vector.VectorActionWrapper):
        def actions(self, actions):
            return 1 - actions

    class Shifted(vector.VectorRewardWrapper):
        def rewards(self, rewards):
            return rewards - 0.5

    class Marked(vector.VectorWrapper):
        def step(self, actions):
            observations, rewards, terminations, truncations, infos = self.env.step(actions)
            return observations + np.float32(1), rewards * 2, terminations, truncations, {**infos, "marked": True}

    return {"plain": vector.VectorWrapper, "obs": Scaled, "act": Mirrored, "reward": Shifted, "step": Marked}


KINDS = ["plain", "obs", "act", "reward", "step"]
STACKS = [[kind] for kind in KINDS] + [["obs", "act", "reward", "step"], ["step", "reward", "act", "obs"]]


def stack(library, kinds, env):
    for kind in kinds:
        env = wrappers(library)[kind](env)
    return env


@pytest.mark.parametrize("kinds", STACKS, ids="-".join)
@pytest.mark.parametrize("mode", ["NextStep", "Disabled"])
def test_episodes_through_wrappers_equal_gymnasiums(kinds, mode):
    ours, theirs = (stack(library, kinds, cartpoles(library, mode)) for library in LIBRARIES)
    rng = np.random.default_rng(1)
    assert all(map(alike, ours.reset(seed=4), theirs.reset(seed=4)))
    for _ in range(80):
        actions = rng.integers(2, size=3)
        got, expected = ours.step(actions), theirs.step(actions)
        assert all(map(alike, got, expected))
        over = got[2] | got[3]
        if mode == "Disabled" and over.any():
            both = [env.reset(options={"reset_mask": over.copy()}) for env in (ours, theirs)]
            assert all(map(alike, *both))


@pytest.mark.parametrize("kinds", STACKS, ids="-".join)
@pytest.mark.parametrize("mode", [mode.value for mode in (AutoresetMode.NEXT_STEP, SAME_STEP)])
@pytest.mark.parametrize("way", ["sync", "kernel"])
def test_send_and_recv_through_wrappers_are_the_two_halves_of_step(kinds, mode, way):
    def lanes():
        if way == "sync":
            return cartpoles(gym, mode)
        return paddock.make_vec("CartPole-v1", num_envs=3, lanes=paddock.LaneOptions(autoreset=mode))

    whole, halves = (stack(gym, kinds, lanes()) for _ in range(2))
    whole.reset(seed=2), halves.reset(seed=2)
    rng = np.random.default_rng(3)
    for _ in range(60):
        actions = rng.integers(2, size=3)
        halves.send(actions)
        assert all(map(alike, halves.recv(), whole.step(actions)))
    with pytest.raises(NoAsyncCallError):
        halves.recv()


def seen(env, way):
    """The first observation of lane 0 after one step, taken one way or the other."""
    env.reset()
    if way == "step":
        return env.step([0, 0, 0])[0][0, 0]
    env.send([0, 0, 0])
    return env.recv()[0][0, 0]


def times(factor):
    def step(self, actions):
        observations, *rest = super(written, self).step(actions)
        return (observations * factor, *rest)

    written = type("Times", (VectorWrapper,), {"step": step})
    return written


class Tens(VectorWrapper):
    """Writes one half alone."""

    def recv(self):
        observations, *rest = super().recv()
        return (observations * 10, *rest)


class StepOverHalf(Tens):
    def step(self, actions):
        observations, *rest = super().step(actions)
        return (observations + 1, *rest)


class HalfOverStepOverHalf(StepOverHalf):
    def recv(self):
        observations, *rest = super().recv()
        return (observations * 2, *rest)


class Unchanged(HalfOverStepOverHalf):
    pass


class PlainMixin:
    def step(self, actions):
        observations, *rest = super().step(actions)
        return (observations + 7, *rest)


class MixedIn(PlainMixin, Tens):
    pass


class StepAndSend(VectorWrapper):
    """Writes both ways itself, so nothing is written for it."""

    def step(self, actions):
        observations, *rest = self.env.step(actions)
        return (observations + 3, *rest)

    def send(self, actions):
        self.env.send(actions)


class HookAndStep(VectorObservationWrapper):
    def observations(self, observations):
        return observations + 5

    def step(self, actions):
        observations, *rest = super().step(actions)
        return (observations * 100, *rest)


@pytest.mark.parametrize("way", ["step", "halves"])
@pytest.mark.parametrize(
    ("wrapper", "expected"),
    [
        (times(4), 4),
        (Tens, 10),
        (StepOverHalf, 11),
        (HalfOverStepOverHalf, 22),
        (Unchanged, 22),
        (MixedIn, 17),
        (HookAndStep, 600),
    ],
)
def test_what_a_subclass_writes_holds_both_ways(wrapper, expected, way):
    assert seen(wrapper(counters()), way) == expected
    assert seen(Tens(wrapper(counters())), way) == expected * 10
    assert seen(wrapper(VectorWrapper(counters())), way) == expected


def test_a_subclass_that_writes_both_ways_is_left_alone():
    assert seen(StepAndSend(counters()), "step") == 4
    assert seen(StepAndSend(counters()), "halves") == 1


def test_a_lane_environment_with_a_step_and_no_halves_can_be_wrapped():
    class StepOnly(paddock.VectorEnv):
        metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        num_envs = 2

        def step(self, actions):
            return np.ones(2), np.ones(2), np.zeros(2, bool), np.zeros(2, bool), {}

    assert stack(gym, ["reward", "step"], StepOnly()).step([0, 0])[1].tolist() == [1, 1]


@pytest.mark.parametrize("name", ["num_envs", "render_mode", "closed", "np_random_seed"])
def test_attributes_are_those_of_what_is_wrapped(name):
    values = []
    for library in LIBRARIES:
        env = stack(library, ["plain", "reward"], cartpoles(library))
        env.reset(seed=3)
        assert getattr(env, name) == getattr(env.unwrapped, name)
        values.append(getattr(env, name))
    assert values[0] == values[1]


def test_representation_and_spec_equal_gymnasiums():
    ours, theirs = (stack(library, ["plain", "obs"], cartpoles(library)) for library in LIBRARIES)
    assert repr(ours) == repr(theirs) == "<Scaled, <VectorWrapper, SyncVectorEnv(CartPole-v1, num_envs=3)>>"
    assert ours.spec is ours.unwrapped.spec
    assert ours.spec.id == theirs.spec.id
    assert ours.unwrapped is ours.env.env


SPACES = ["observation_space", "action_space", "single_observation_space", "single_action_space"]


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "theirs"])
def test_spaces_and_metadata_can_be_overridden_without_changing_what_is_wrapped(library):
    env = library.vector.VectorWrapper(cartpoles(library))
    own = library.spaces.Box(-5, 5, (2,))
    for name in SPACES:
        inner = getattr(env.env, name)
        assert getattr(env, name) is inner
        setattr(env, name, own)
        assert getattr(env, name) is own
        assert getattr(env.env, name) is inner
    assert env.metadata is env.env.metadata
    env.metadata = {"mine": 1}
    assert env.metadata == {"mine": 1}
    assert "mine" not in env.env.metadata


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "theirs"])
@pytest.mark.parametrize("name", ["num_envs", "spec", "render_mode", "unwrapped", "np_random_seed"])
def test_attributes_that_only_what_is_wrapped_can_set(library, name):
    env = library.vector.VectorWrapper(cartpoles(library))
    with pytest.raises(AttributeError):
        setattr(env, name, 1)


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "theirs"])
def test_an_assigned_generator_reaches_what_is_wrapped(library):
    env = library.vector.VectorWrapper(library.vector.VectorWrapper(library.vector.VectorEnv()))
    env.np_random = generator = np.random.default_rng(5)
    assert env.unwrapped.np_random is env.np_random is generator
    assert env.np_random_seed == -1


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "theirs"])
@pytest.mark.parametrize("kind", KINDS)
def test_wrappers_wrap_vector_environments_only(library, kind):
    with pytest.raises(TypeError, match="Expected env to be a `gymnasium.vector.VectorEnv` but got"):
        wrappers(library)[kind](library.make("CartPole-v1"))


def test_the_refusal_is_one_of_our_errors():
    with pytest.raises(PaddockError, match="make_vec"):
        VectorWrapper("CartPole-v1")


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "theirs"])
def test_an_observation_wrapper_warns_about_an_unknown_autoreset_mode(library):
    lanes = library.vector.VectorEnv()
    lanes.num_envs = 1
    with pytest.warns(UserWarning, match="is missing `autoreset_mode` metadata key"):
        wrappers(library)["obs"](lanes)


@pytest.mark.parametrize("wrapper", [VectorObservationWrapper, VectorActionWrapper, VectorRewardWrapper])
def test_a_hook_that_is_not_written_says_so(wrapper):
    env = wrapper(counters())
    with pytest.raises(NotImplementedError):
        env.reset()
        env.step([0, 0, 0])


@pytest.mark.parametrize("library", LIBRARIES, ids=["ours", "theirs"])
def test_closing_a_wrapper_closes_what_is_wrapped_once(library):
    calls = []

    class Lanes(library.vector.VectorEnv):
        def close_extras(self, **kwargs):
            calls.append(kwargs)

    env = stack(library, ["plain", "reward"], Lanes())
    env.close(timeout=3)
    env.close()
    assert calls == [{"timeout": 3}]
    assert env.closed
    assert env.unwrapped.closed
    env.close_extras(again=True)
    assert calls[1:] == [{"again": True}]
    env.closed = False
    assert env.unwrapped.closed is False


def test_a_wrapper_is_a_context_manager():
    with VectorWrapper(counters()) as env:
        env.reset()
    assert [lane.closed for lane in env.unwrapped.envs] == [1, 1, 1]


def test_lanes_are_asked_through_wrappers():
    env = stack(gym, ["plain", "reward"], counters(2, 3))
    assert env.get_attr("goal") == (2, 3)
    assert env.call("has_wrapper_attr", "goal") == (True, True)
    env.set_attr("goal", [7, 8])
    assert [lane.goal for lane in env.unwrapped.envs] == [7, 8]


def test_lanes_that_cannot_be_asked_say_so_and_other_attributes_are_not_forwarded():
    env = VectorWrapper(paddock.VectorEnv())
    for name in ("call", "get_attr"):
        with pytest.raises(AttributeError, match=f"'VectorEnv' object has no attribute '{name}'"):
            getattr(env, name)("goal")
    for library in LIBRARIES:
        with pytest.raises(AttributeError):
            _ = library.vector.VectorWrapper(cartpoles(library)).envs


def test_state_and_frames_come_through():
    env = stack(gym, ["plain", "reward"], SyncVectorEnv([lambda: Walker(9)] * 2))
    env.reset()
    env.step([0, 0])
    assert [one.public["score"] for one in env.state()] == [1, 1]
    painted = VectorWrapper(gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync", render_mode="rgb_array"))
    painted.reset(seed=1)
    assert len(painted.render()) == 2


def test_a_snapshot_taken_through_wrappers_goes_on_where_it_was():
    env = stack(gym, ["obs", "reward"], paddock.make_vec("CartPole-v1", num_envs=3))
    env.reset(seed=1)
    env.step([0, 1, 0])
    snapshot = env.snapshot()
    first = [env.step([1, 1, 0]) for _ in range(5)]
    env.restore(snapshot)
    again = [env.step([1, 1, 0]) for _ in range(5)]
    assert all(alike(a, b) for one, other in zip(first, again, strict=True) for a, b in zip(one, other, strict=True))


def test_infos_added_through_a_wrapper_keep_their_values():
    env = VectorWrapper(counters(2, 3))
    infos = env._add_info(env._add_info({}, {"x": 1}, 0), {"x": 2.7}, 1)
    assert infos["x"].tolist() == [1, 2.7]


def test_a_partial_reset_through_wrappers_leaves_the_options_alone():
    env = stack(gym, ["obs", "reward"], counters(9, 9, autoreset_mode="Disabled"))
    env.reset()
    env.step([0, 0])
    options = {"reset_mask": np.array([True, False])}
    assert env.reset(options=options)[0][:, 0].tolist() == [0, 3]
    assert list(options) == ["reset_mask"]


class Squared(VectorObservationWrapper):
    def observations(self, observations):
        return observations**2 + 1


def test_under_same_step_the_last_observations_are_changed_too():
    with pytest.raises(ValueError, match="Expected autoreset_mode to be NEXT_STEP or DISABLED"):
        wrappers(gymnasium)["obs"](cartpoles(gymnasium, "SameStep"))
    env = Squared(counters(2, 3, 3, autoreset_mode=SAME_STEP))
    env.reset()
    assert "final_obs" not in env.step([0, 0, 0])[4]
    observations, *_, infos = env.step([0, 0, 0])
    assert observations[:, 0].tolist() == [1, 5, 5]
    assert infos["_final_obs"].tolist() == [True, False, False]
    assert [None if one is None else one.tolist() for one in infos["final_obs"]] == [[5], None, None]


def test_n_lanes_are_n_single_wrapped_environments():
    class SquaredOne(paddock.ObservationWrapper):
        def observation(self, observation):
            return observation**2 + 1

    goals = (2, 3, 5)
    wrapped_lanes = SyncVectorEnv([lambda g=g: SquaredOne(Counter(g)) for g in goals], autoreset_mode=SAME_STEP)
    wrapped_batch = Squared(counters(*goals, autoreset_mode=SAME_STEP))
    assert all(map(alike, wrapped_batch.reset(), wrapped_lanes.reset()))
    for _ in range(31):
        assert all(map(alike, wrapped_batch.step([0, 0, 0]), wrapped_lanes.step([0, 0, 0])))


class Sampler(paddock.Env):
    """Observations drawn from a space; episodes of ``goal`` steps."""

    def __init__(self, name, goal):
        self.observation_space, self.action_space = CATALOGUE[name](), paddock.spaces.Discrete(2)
        self.observation_space.seed(goal)
        self.goal, self.count = goal, 0

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self.count += 1
        return self.observation_space.sample(), 0.0, self.count >= self.goal, False, {}


class Identity(VectorObservationWrapper):
    def observations(self, observations):
        return observations


# A batch of scalars is taken apart into NumPy's scalars, a batch of empty tuples into nothing: no rows like the lanes'.
@pytest.mark.parametrize("name", [name for name in CATALOGUE if name not in ("box-scalar", "tuple-empty")])
def test_last_observations_of_every_space_pass_through_the_batch_unchanged(name):
    def lanes():
        return SyncVectorEnv([lambda goal=goal: Sampler(name, goal) for goal in (1, 2, 3)], autoreset_mode=SAME_STEP)

    wrapped, bare = Identity(lanes()), lanes()
    assert all(map(alike, wrapped.reset(), bare.reset()))
    for _ in range(6):
        assert all(map(alike, wrapped.step([0, 0, 0]), bare.step([0, 0, 0])))


def test_last_observations_of_kernel_lanes_pass_through_unchanged():
    def lanes(id):
        return paddock.make_vec(id, num_envs=4, lanes=paddock.LaneOptions(autoreset=SAME_STEP))

    for id in ("CartPole-v1", "FrozenLake-v1", "Blackjack-v1"):
        wrapped, bare = Identity(lanes(id)), lanes(id)
        wrapped.reset(seed=1), bare.reset(seed=1)
        rng = np.random.default_rng(2)
        ends = 0
        for _ in range(40):
            actions = rng.integers(2, size=4)
            got, expected = wrapped.step(actions), bare.step(actions)
            for one, other in zip(got[:4], expected[:4], strict=True):
                assert alike(one, other)
            ends += "final_obs" in expected[4]
            for one, other in zip(got[4].get("final_obs", ()), expected[4].get("final_obs", ()), strict=True):
                assert one is other is None or np.array_equal(one, other)
        assert ends


def test_what_depends_on_the_lane_meets_its_own_lane():
    class Weighted(VectorObservationWrapper):
        weights = np.array([[1.0], [10.0], [100.0]])

        def observations(self, observations):
            return observations * self.weights

    env = Weighted(counters(9, 1, 1, autoreset_mode=SAME_STEP))
    env.reset()
    *_, infos = env.step([0, 0, 0])
    assert [infos["final_obs"][lane].tolist() for lane in (1, 2)] == [[10], [100]]


def test_a_buffer_that_is_written_again_does_not_change_last_observations():
    class Buffered(VectorObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.buffer = np.zeros((2, 1))

        def observations(self, observations):
            return np.multiply(observations, 2, out=self.buffer)

    env = Buffered(counters(1, 9, autoreset_mode=SAME_STEP))
    env.reset()
    observations, *_, infos = env.step([0, 0])
    assert observations[:, 0].tolist() == [0, 2]
    assert infos["final_obs"][0].tolist() == [2]


def test_a_wrapper_that_learns_sees_each_observation_once():
    class Listening(VectorObservationWrapper):
        heard = ()

        def observations(self, observations):
            self.heard += tuple(observations[:, 0])
            return observations

        def final_observations(self, observations, ended):
            self.heard += tuple(observations[ended, 0])
            return observations

    env = Listening(counters(1, 9, autoreset_mode=SAME_STEP))
    env.reset()
    env.step([0, 0])
    assert env.heard == (0, 0, 1, 0, 1)  # the reset, lane 0's last, then the batch


def test_last_observations_take_the_form_of_the_wrappers_own_space():
    class Named(VectorObservationWrapper):
        def __init__(self, env):
            super().__init__(env)
            self.single_observation_space = paddock.spaces.Dict(count=Box(0, np.inf, (1,), np.float64))
            self.observation_space = paddock.spaces.batch_space(self.single_observation_space, self.num_envs)

        def observations(self, observations):
            return {"count": observations}

    env = Named(VectorWrapper(counters(1, 9, autoreset_mode=SAME_STEP)))
    env.reset()
    *_, infos = env.step([0, 0])
    assert infos["final_obs"][0] == {"count": np.array([1.0])}
    assert infos["final_obs"][0] in env.single_observation_space


def test_infos_that_only_bear_that_name_are_left_alone():
    class Own(Counter):
        def step(self, action):
            return (*super().step(action)[:4], {"final_obs": "mine"})

    env = Squared(SyncVectorEnv([Own, Own]))
    env.reset()
    assert env.step([0, 0])[4]["final_obs"].tolist() == ["mine", "mine"]


def test_what_is_wrapped_keeps_its_own_infos():
    inner = []

    class Keeping(VectorWrapper):
        def step(self, actions):
            inner.append(super().step(actions))
            return inner[-1]

    env = Squared(Keeping(counters(2, 9, autoreset_mode=SAME_STEP)))
    env.reset()
    env.step([0, 0])
    *_, infos = env.step([0, 0])
    assert (infos["final_obs"][0].tolist(), inner[-1][4]["final_obs"][0].tolist()) == ([5], [2])
