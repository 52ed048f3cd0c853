"""gym.utils, gym.logger and gym.error: the same answers as Gymnasium's for the same arguments."""

import copy
import pickle
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils import colorize as their_colorize
from gymnasium.utils import env_checker as their_env_checker
from gymnasium.utils import env_match as their_env_match
from gymnasium.utils import step_api_compatibility as their_step_api

from paddock import errors, spaces
from paddock.core.env import Env
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.core.wrapper import Wrapper
from paddock.gym import error, logger
from paddock.gym.utils import EzPickle, RecordConstructorArgs, colorize, env_checker, env_match, performance, seeding
from paddock.gym.utils import step_api_compatibility as step_api
from paddock.testing import data_equivalence
from tests.testing.bad_envs import bad_env, good
from tests.testing.bad_envs_of_gymnasium import gymnasiums_bad_envs

COLOURS = ["gray", "red", "green", "yellow", "blue", "magenta", "cyan", "white", "crimson"]


@pytest.mark.parametrize("color", COLOURS)
@pytest.mark.parametrize("bold", [False, True])
@pytest.mark.parametrize("highlight", [False, True])
def test_colours_have_gymnasiums_codes(color, bold, highlight):
    assert colorize("text", color, bold, highlight) == their_colorize("text", color, bold, highlight)


def test_unknown_colour_is_a_key_error():
    with pytest.raises(KeyError):
        colorize("text", "octarine")


class Rover(EzPickle):
    def __init__(self, wheels, *, name="rover"):
        EzPickle.__init__(self, wheels, name=name)
        self.wheels, self.name, self.metres = wheels, name, 0


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_ezpickle_makes_the_object_anew_from_its_arguments(duplicate):
    rover = Rover(6, name="percy")
    rover.metres = 5
    other = duplicate(rover)
    assert (other.wheels, other.name, other.metres) == (6, "percy", 0)


def test_first_recorded_arguments_win_and_are_copies():
    class Base(RecordConstructorArgs):
        def __init__(self, size):
            RecordConstructorArgs.__init__(self, size=size)

    class Derived(Base):
        def __init__(self, sizes):
            RecordConstructorArgs.__init__(self, sizes=sizes)
            Base.__init__(self, len(sizes))

    sizes = [1, 2]
    made = Derived(sizes)
    sizes.append(3)
    assert made._saved_kwargs == {"sizes": [1, 2]}
    assert Base(3)._saved_kwargs == {"size": 3}


def test_arguments_can_be_recorded_without_copying():
    class Holder(RecordConstructorArgs):
        def __init__(self, thing):
            RecordConstructorArgs.__init__(self, thing=thing, _disable_deepcopy=True)

    thing = object()
    assert Holder(thing)._saved_kwargs["thing"] is thing


def test_recorded_arguments_of_a_wrapper_are_in_its_spec():
    class Scale(Wrapper, RecordConstructorArgs):
        def __init__(self, env, factor):
            RecordConstructorArgs.__init__(self, factor=factor)
            Wrapper.__init__(self, env)

    assert Scale(good(), 3).spec.additional_wrappers[-1].kwargs == {"factor": 3}


def single(flags, key=None):
    info = {"x": 1} if key is None else {"x": 1, "TimeLimit.truncated": key}
    return (np.zeros(2), 1.5, *flags, info)


def lanes(flags, infos):
    return (np.zeros((2, 2)), np.ones(2), *(np.array(flag) for flag in flags), infos)


STEPS = [
    *(((single((done,), key)), False) for done in (False, True) for key in (None, False, True)),
    *(((single((terminated, truncated))), False) for terminated in (False, True) for truncated in (False, True)),
    (lanes([[True, False]], {}), True),
    (lanes([[True, True]], {"TimeLimit.truncated": np.array([True, False])}), True),
    (lanes([[True, True]], [{"TimeLimit.truncated": True}, {}]), True),
    (lanes([[True, False], [False, False]], {}), True),
    (lanes([[True, True], [True, False]], {"a": 1}), True),
    (lanes([[False, True], [True, False]], [{}, {}]), True),
    (lanes([[False, False], [False, False]], {}), True),
]


@pytest.mark.parametrize("number", range(len(STEPS)))
@pytest.mark.parametrize("two_flags", [False, True])
def test_steps_are_converted_as_in_gymnasium(number, two_flags):
    step, is_vector = STEPS[number]
    own = step_api.step_api_compatibility(copy.deepcopy(step), two_flags, is_vector)
    their = their_step_api.step_api_compatibility(copy.deepcopy(step), two_flags, is_vector)
    assert data_equivalence(own, their, exact=True)


@pytest.mark.parametrize("step", [lanes([[True, False]], None), lanes([[True, False], [False, True]], None)])
def test_infos_of_no_known_kind_are_a_type_error(step):
    with pytest.raises(TypeError, match="Unexpected value of infos"):
        step_api.step_api_compatibility(step, len(step) == 4, True)


def test_wrong_number_of_results_is_an_error():
    with pytest.raises(ValueError, match="unpack"):
        step_api.convert_to_done_step_api((1, 2, 3))


class Drift(Env):
    """Walks by chance; what differs between two of them can be chosen."""

    spaces = spaces

    def __init__(self, *, reward=1.0, info=None, flag=False, frame=0, size=3):
        self.observation_space = self.spaces.Discrete(size)
        self.action_space = self.spaces.Discrete(2)
        self.render_mode = "rgb_array"
        self.reward, self.info, self.flag, self.frame = reward, info or {}, flag, frame

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return int(self.np_random.integers(3)), {}

    def step(self, action):
        self.steps += 1
        return int(self.np_random.integers(3)), self.reward, self.steps == 4, self.flag, dict(self.info)

    def render(self):
        return np.full((2, 2, 3), self.frame, np.uint8)


class TheirDrift(gymnasium.Env):
    spaces = gymnasium.spaces
    __init__, step, render = Drift.__init__, Drift.step, Drift.render

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return int(self.np_random.integers(3)), {}


PAIRS = {
    "equal": ({}, {}),
    "reward": ({"reward": 1.0}, {"reward": 2.0}),
    "info": ({"info": {"a": 1}}, {"info": {"a": 2}}),
    "info, more": ({"info": {"a": 1}}, {"info": {"a": 1, "b": 2}}),
    "info, less": ({"info": {"a": 1, "b": 2}}, {"info": {"a": 1}}),
    "flag": ({"flag": False}, {"flag": True}),
    "frame": ({"frame": 1}, {"frame": 2}),
    "space": ({"size": 3}, {"size": 4}),
}
SKIPS = ["skip_obs", "skip_rew", "skip_terminal", "skip_truncated", "skip_render"]
COMPARISONS = ["equivalence", "superset", "keys-equivalence", "keys-superset", "skip", "whatever"]


def matches(check, make, pair, **how):
    try:
        check(make(**pair[0]), make(**pair[1]), 6, **how)
    except (AssertionError, KeyError):
        return False
    return True


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize(
    "how", [{}, *({skip: True} for skip in SKIPS), *({"info_comparison": c} for c in COMPARISONS)], ids=str
)
def test_environments_match_when_gymnasium_says_so(pair, how):
    own = matches(env_match.check_environments_match, Drift, pair, **how)
    assert own is matches(their_env_match.check_environments_match, TheirDrift, pair, **how)


def test_mismatch_names_part_step_and_values():
    with pytest.raises(AssertionError, match=r"stepping reward is not equivalent in step = 0, a = 1\.0, b = 2\.0"):
        env_match.check_environments_match(Drift(), Drift(reward=2.0), 3)


PARTS = {
    "check_reset_seed_determinism": ["rng-not-seeded", "reset-no-seed", "reset-refuses", "reset-seed-default"],
    "check_reset_options": ["reset-no-options"],
    "check_step_determinism": ["truncates-at-once"],
    "check_returned_data_not_reused": ["data-reused"],
    "check_reset_return_info_deprecation": ["return-info"],
    "check_seed_deprecation": ["seed-method"],
    "check_reset_return_type": ["reset-result"],
}


def begins(check, env):
    """How the outcome begins: (kind, first words)."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            check(env)
        except Exception as raised:
            return "raised", str(raised)[:50]
    return "warned" if warned else "passed", str(warned[0].message).removeprefix("\x1b[33mWARN: ")[
        :31
    ] if warned else ""


@pytest.mark.parametrize(("part", "rule"), [(part, rule) for part, rules in PARTS.items() for rule in rules])
def test_parts_of_check_env_judge_as_in_gymnasium(part, rule):
    own = begins(getattr(env_checker, part), bad_env(rule))
    their = begins(getattr(their_env_checker, part), gymnasiums_bad_envs().bad_env(rule))
    assert own[0] == their[0] != "passed"
    assert own[1] == their[1]
    assert begins(getattr(env_checker, part), good())[0] == "passed"


@pytest.mark.parametrize("space_type", ["action", "observation"])
@pytest.mark.parametrize(
    "make",
    [
        lambda s: s.Box(-1, 1, (2,)),
        lambda s: s.Box(0, 1, (2,)),
        lambda s: s.Box(-2, 2, (2,)),
        lambda s: s.Box(-1, 0.5, (2,)),
        lambda s: s.Box(-np.inf, 1, (2,)),
        lambda s: s.Tuple((s.Box(0, np.inf, (2, 2)),)),
        lambda s: s.Dict(a=s.Box(-3, 3, (1,))),
    ],
)
def test_space_limits_are_judged_as_in_gymnasium(make, space_type):
    own = begins(lambda space: env_checker.check_space_limit(space, space_type), make(spaces))
    their = begins(lambda space: their_env_checker.check_space_limit(space, space_type), make(gymnasium.spaces))
    assert own == their


def test_logger_warns_in_colour_from_the_callers_line():
    with pytest.warns(UserWarning, match="hot 3") as warned:
        logger.warn("hot %d", 3)
    assert str(warned[0].message) == "\x1b[33mWARN: hot 3\x1b[0m"
    assert warned[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="old"):
        logger.deprecation("old")
    with pytest.warns(UserWarning, match="bad") as warned:
        logger.error("bad")
    assert str(warned[0].message) == "\x1b[31mERROR: bad\x1b[0m"


def test_logger_is_silent_below_its_level(monkeypatch, recwarn):
    monkeypatch.setattr(logger, "min_level", logger.ERROR)
    logger.warn("hot")
    logger.deprecation("old")
    monkeypatch.setattr(logger, "min_level", logger.ERROR + 1)
    logger.error("bad")
    assert list(recwarn) == []


def test_errors_are_paddocks_own_under_gymnasiums_names():
    from gymnasium import error as theirs

    for name, cls in vars(theirs).items():
        if isinstance(cls, type):
            own = getattr(error, name)
            assert own is getattr(errors, "PaddockError" if name == "Error" else name)
            assert issubclass(own, ImportError) == issubclass(cls, ImportError)


def test_seeding_is_paddocks():
    generator, seed = seeding.np_random(3)
    assert (seed, generator.random()) == (3, gymnasium.utils.seeding.np_random(3)[0].random())


class TwoLanes(VectorEnv):
    """Every lane ends at every third step; begins anew as its mode says."""

    num_envs = 2

    def __init__(self, mode):
        self.metadata = {"autoreset_mode": mode}
        self.action_space = spaces.MultiDiscrete([2, 2])
        self.masks, self.steps = [], 0

    def reset(self, *, seed=None, options=None):
        self.masks += [options["reset_mask"]] if options else []
        return np.zeros(2), {}

    def step(self, actions):
        self.steps += 1
        ended = np.full(2, self.steps % 3 == 0)
        return np.zeros(2), np.zeros(2), ended, np.zeros(2, bool), {}


def steps_counted(monkeypatch, mode):
    """Lane steps that the benchmark counts in six calls of step, one of them before the clock starts."""
    ticks = iter([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])
    monkeypatch.setattr(performance.time, "time", lambda: next(ticks))
    env = TwoLanes(mode)
    return performance.benchmark_vector_step(env, target_duration=0.5, seed=1), env


def test_lanes_that_only_begin_anew_are_not_counted(monkeypatch):
    # Steps 2 to 6: both lanes end at 3 and 6, so in next-step mode the fourth is a beginning.
    assert steps_counted(monkeypatch, AutoresetMode.NEXT_STEP)[0] == 8
    assert steps_counted(monkeypatch, AutoresetMode.SAME_STEP)[0] == 10


def test_lanes_without_autoreset_are_reset_by_mask(monkeypatch):
    rate, env = steps_counted(monkeypatch, AutoresetMode.DISABLED)
    assert rate == 10
    assert [mask.tolist() for mask in env.masks] == [[True, True], [True, True]]


def test_rates_are_positive_and_environments_are_closed():
    class Closing(Drift):
        made = closed = 0

        def __init__(self):
            super().__init__()
            Closing.made += 1

        def close(self):
            Closing.closed += 1

    assert performance.benchmark_step(Drift(), target_duration=0, seed=1) > 0
    assert performance.benchmark_render(Drift(), target_duration=0) > 0
    assert performance.benchmark_init(Closing, target_duration=0) > 0
    assert Closing.made == Closing.closed > 0
