"""One environment for each rule that breaks this rule, all made from one that breaks none."""

import random
import threading
from itertools import count

import numpy as np

from paddock.core.env import Env
from paddock.core.spec import EnvSpec
from paddock.core.wrapper import Wrapper
from paddock.spaces import Box, Dict, Discrete


class Good(Env):
    """A point that drifts at random between 0 and 1; an episode is twenty steps."""

    metadata = {"render_modes": ["rgb_array", "ansi"], "render_fps": 30}

    def __init__(self, render_mode=None):
        self.render_mode = render_mode
        self.observation_space = Box(0.0, 1.0, (2,), np.float64)
        self.action_space = Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.look(), {"steps": 0}

    def step(self, action):
        self.steps += 1
        return self.look(), 1.0, self.steps >= 20, False, {"steps": self.steps}

    def look(self):
        return self.np_random.random(2)

    def render(self):
        return np.zeros((4, 6, 3), np.uint8) if self.render_mode == "rgb_array" else "a point"


GOOD_SPEC = EnvSpec("test/Good-v0", Good)


def good():
    env = Good()
    env.spec = GOOD_SPEC
    return env


BAD = {}


def breaks(rule):
    """Enter a class or a function that makes an environment under the rule that it breaks."""

    def enter(maker):
        assert rule not in BAD
        BAD[rule] = maker
        return maker

    return enter


def bad_env(rule):
    env = BAD[rule]()
    # With a spec nothing is left unchecked; those that want none or their own say so.
    if isinstance(env, Good) and env.spec is None and rule != "render-unchecked":
        env.spec = EnvSpec("test/Bad-v0", BAD[rule])
    return env


BAD["not-an-env"] = object
BAD["wrapped"] = lambda: Wrapper(good())


@breaks("missing-space")
class MissingSpace(Good):
    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        del self.action_space


def with_space(**spaces):
    class WithSpace(Good):
        def __init__(self, render_mode=None):
            super().__init__(render_mode)
            vars(self).update(spaces)

    return WithSpace


BAD["not-a-space"] = with_space(action_space=[0, 1])
BAD["space-malformed"] = with_space(observation_space=Dict({}))
BAD["box-unbounded"] = with_space(observation_space=Box(-np.inf, np.inf, (2,), np.float64))
BAD["action-not-normalized"] = with_space(action_space=Box(-2.0, 2.0, (1,)))


@breaks("box-bounds-equal")
class BoxBoundsEqual(with_space(observation_space=Box(np.zeros(2), np.array([1.0, 0.0]), dtype=np.float64))):
    def look(self):
        return super().look() * [1, 0]


@breaks("image-box")
class ImageBox(with_space(observation_space=Box(-5.0, 5.0, (8, 8, 3)))):
    def look(self):
        return self.np_random.random((8, 8, 3), np.float32)


@breaks("reset-no-seed")
class ResetNoSeed(Good):
    def reset(self, *, options=None):
        return super().reset()


@breaks("reset-no-options")
class ResetNoOptions(Good):
    def reset(self, *, seed=None):
        return super().reset(seed=seed)


@breaks("reset-seed-default")
class ResetSeedDefault(Good):
    def reset(self, *, seed=7, options=None):
        return super().reset(seed=seed)


@breaks("reset-refuses")
class ResetRefuses(Good):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            raise TypeError("no seeds here")
        return super().reset()


@breaks("reset-result")
class ResetResult(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)[0]


@breaks("info-not-dict")
class InfoNotDict(Good):
    def step(self, action):
        return (*super().step(action)[:4], None)


@breaks("observation-type")
class ObservationType(Good):
    def look(self):
        return super().look().astype(np.float32)


@breaks("observation-outside")
class ObservationOutside(Good):
    def look(self):
        return super().look() * (np.nan if self.steps == 7 else 1)


@breaks("rng-not-seeded")
class RngNotSeeded(Good):
    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2), {}

    def look(self):
        return np.zeros(2)


@breaks("reset-nondeterministic")
class ResetNondeterministic(Good):
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.random.default_rng().random(2), {}


@breaks("almost-equal")
class AlmostEqual(Good):
    calls = count()

    def look(self):
        return np.clip(super().look(), 0.1, 0.9) + 1e-9 * next(self.calls)


@breaks("reset-reseeds")
class ResetReseeds(Good):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=5 if seed is None else seed)


@breaks("seed-without-effect")
class SeedWithoutEffect(Good):
    def look(self):
        return np.zeros(2)


@breaks("seed-method")
class SeedMethod(Good):
    def seed(self, seed=None):
        self.np_random = np.random.default_rng(seed)


@breaks("return-info")
class ReturnInfo(Good):
    def reset(self, *, seed=None, options=None, return_info=True):
        return super().reset(seed=seed)


@breaks("step-result")
class StepResult(Good):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, info


@breaks("flag-type")
class FlagType(Good):
    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, int(terminated), truncated, info


@breaks("reward-type")
class RewardType(Good):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return (observation, np.ones(1), *rest)


@breaks("reward-not-finite")
class RewardNotFinite(Good):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return (observation, float("nan"), *rest)


@breaks("step-nondeterministic")
class StepNondeterministic(Good):
    """The reward of the tenth step counts the episodes, which reset forgets to clear."""

    lived = 0

    def step(self, action):
        observation, reward, *rest = super().step(action)
        if self.steps == 10:
            self.lived += 1
            reward += self.lived
        return (observation, reward, *rest)


@breaks("truncates-at-once")
class TruncatesAtOnce(Good):
    def step(self, action):
        observation, reward, terminated, _, info = super().step(action)
        return observation, reward, terminated, True, info


@breaks("data-reused")
class DataReused(Good):
    buffer = np.zeros(2)

    def look(self):
        self.buffer[:] = super().look()
        return self.buffer


@breaks("data-changed")
class DataChanged(Good):
    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.past = []
        return observation, {**info, "past": self.past}

    def step(self, action):
        *result, info = super().step(action)
        self.past.append(action)
        return (*result, {**info, "past": self.past})


@breaks("global-random")
class GlobalRandom(Good):
    def step(self, action):
        random.random()
        return super().step(action)


@breaks("prints")
class Prints(Good):
    def step(self, action):
        print("a step")
        return super().step(action)


@breaks("env-raised")
class EnvRaised(Good):
    def step(self, action):
        if self.steps == 15:
            raise ZeroDivisionError("the wheel came off")
        return super().step(action)


def with_metadata(mode=None, **metadata):
    class WithMetadata(Good):
        def __init__(self, render_mode=None):
            super().__init__(render_mode if mode is None else mode)
            self.metadata = metadata

    return WithMetadata


BAD["render-modes"] = with_metadata()
BAD["render-fps"] = with_metadata(render_modes=["ansi"])
BAD["render-fps-not-positive"] = with_metadata(render_modes=["ansi"], render_fps=0)
BAD["render-mode-unsupported"] = with_metadata("sepia", render_modes=["ansi"], render_fps=30)
BAD["render-unchecked"] = Good


@breaks("render-frame")
class RenderFrame(Good):
    def render(self):
        return np.zeros((4, 6), np.float32)


@breaks("render-mode-refused")
class RenderModeRefused(Good):
    def render(self):
        if self.render_mode == "ansi":
            raise NotImplementedError
        return super().render()


@breaks("close-twice")
class CloseTwice(Good):
    window = "open"

    def close(self):
        if self.window is None:
            raise RuntimeError("closed already")
        self.window = None


@breaks("spec-broken")
def spec_with_a_lock():
    env = Good()

    def maker(lock, render_mode=None):
        return Good(render_mode)

    env.spec = EnvSpec("test/Bad-v0", maker, kwargs={"lock": threading.Lock()})
    return env
