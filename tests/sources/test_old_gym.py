"""Environments with the interfaces of OpenAI's Gym, told by what they do. The real ones are in tests/families."""

import copy

import gymnasium.spaces as theirs
import numpy as np
import pytest

import paddock
from paddock.errors import DependencyNotInstalled, InvalidSeed, SnapshotUnsupported, WrongClass
from paddock.sources import from_gym
from paddock.sources.old_gym import modernize_metadata


class Lamp:
    """Four values a step; only what every Gym demands of an environment."""

    observation_space = theirs.Tuple((theirs.Discrete(50), theirs.Dict({"a": theirs.Discrete(3)})))
    action_space = theirs.Discrete(3, start=1)
    closings = 0
    limit = None

    def reset(self):
        self.count = 0
        return self._seen()

    def _seen(self):
        return self.count, {"a": self.count % 3}

    def step(self, action):
        self.count += 1
        info = {} if self.limit is None else {"TimeLimit.truncated": self.limit}
        return self._seen(), float(action), np.bool_(self.count == 3), info

    def close(self):
        self.closings += 1


class Seeded(Lamp):
    """As between 0.22 and 0.25."""

    def reset(self, *, seed=None, return_info=False, options=None):
        self.given = seed, options
        seen = super().reset()
        return (seen, {"seed": seed}) if return_info else seen


class OfFive(Lamp):
    """As 0.26."""

    observation_space = theirs.Discrete(50)

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return 0, {"seed": seed}

    def step(self, action):
        self.count += 1
        self.last = (self.count, 1.0, False, self.count == 3, {})
        return self.last


@pytest.mark.parametrize(("limit", "flags"), [(None, (True, False)), (False, (True, False)), (True, (False, True))])
def test_one_flag_becomes_two_by_what_the_limit_says(limit, flags):
    lamp = Lamp()
    env = from_gym(lamp)
    assert env.reset() == ((0, {"a": 0}), {})  # a pair, but all of it is the observation
    lamp.limit = limit
    found = [env.step(1)[2:4] for _ in range(3)]
    assert found == [(False, False), (False, False), flags]
    assert all(type(flag) is bool for pair in found for flag in pair)


def test_results_of_five_are_passed_on_by_the_environment_itself():
    lamp = OfFive()
    env = from_gym(lamp)
    assert env.reset(seed=4) == (0, {"seed": 4})
    assert env.step(1) is lamp.last
    assert env.unwrapped.step == lamp.step


def test_seeds_and_options_go_where_the_environment_takes_them():
    lamp = Seeded()
    env = from_gym(lamp)
    assert env.reset(seed=np.int64(3), options={"b": 1}) == ((0, {"a": 0}), {"seed": 3})
    assert lamp.given == (3, {"b": 1}) and type(lamp.given[0]) is int
    with pytest.raises(InvalidSeed, match="takes no seed"):
        from_gym(Lamp()).reset(seed=1)


def test_a_generator_from_outside_seeds_the_next_episode_alone():
    lamp = Seeded()
    env = from_gym(lamp)
    env.unwrapped.np_random = np.random.default_rng(5)
    env.reset()
    assert lamp.given[0] == np.random.default_rng(5).integers(1 << 31)
    env.reset()
    assert lamp.given[0] is None
    unseeded = from_gym(Lamp())
    unseeded.unwrapped.np_random = np.random.default_rng(5)
    unseeded.reset()


def test_attributes_copies_and_closing():
    lamp = Lamp()
    env = from_gym(lamp)
    env.reset()
    env.step(2)
    other = copy.deepcopy(env)
    assert (other.step(1)[0], env.step(1)[0], lamp.count) == ((2, {"a": 2}), (2, {"a": 2}), 2)
    assert env.get_wrapper_attr("count") == 2
    env.set_wrapper_attr("count", 0)
    assert lamp.count == 0
    with pytest.raises(SnapshotUnsupported, match="Lamp can't save its state"):
        env.snapshot()
    env.close(), env.close()
    assert lamp.closings == 1


def test_what_is_no_environment_is_refused():
    with pytest.raises(WrongClass, match="int has no reset"):
        from_gym(3)
    short = Lamp()
    short.step = lambda action: (1, 2, 3)
    env = from_gym(short)
    env.reset()
    with pytest.raises(WrongClass, match="returned 3 values"):
        env.unwrapped.step(1)


def test_spaces_of_gymnasium_keep_all_that_they_say():
    class Moved(Lamp):
        action_space = theirs.MultiDiscrete([3, 2], start=[-1, 4])
        observation_space = theirs.Sequence(theirs.Box(0, 1), stack=True)

    env = from_gym(Moved())
    assert env.action_space.start.tolist() == [-1, 4]
    assert env.observation_space.stack


def test_metadata_gets_the_newer_names():
    assert modernize_metadata({"render.modes": ("ansi",), "video.frames_per_second": 3})["render_modes"] == ["ansi"]
    assert modernize_metadata({"render.modes": ("ansi",), "video.frames_per_second": 3})["render_fps"] == 3
    assert modernize_metadata({"render_modes": ["rgb_array"], "render.modes": ["human"]})["render_modes"] == [
        "rgb_array"
    ]
    assert modernize_metadata(None) == {"render_modes": []}


@pytest.mark.parametrize(
    ("target", "command"),
    [
        ("gym:CartPole-v1", "pip install gym"),
        ("pettingzoo:classic/tictactoe_v3", "pip install pettingzoo pygame-ce"),
        ("envpool:Pong-v5", "pip install envpool"),
    ],
)
@pytest.mark.parametrize("isolation", [None, "sandbox"])
def test_a_missing_library_is_named_with_the_command(target, command, isolation, monkeypatch):
    monkeypatch.setattr("paddock.sources.families.is_installed", lambda module: module == "gymnasium")
    with pytest.raises(DependencyNotInstalled) as raised:
        paddock.make(target, isolation=isolation)
    assert str(raised.value).endswith(command)
