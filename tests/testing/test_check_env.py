"""check_env and find: each rule has an environment that breaks it, and a good environment breaks none."""

import json
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import gymnasium
import jsonschema
import numpy as np
import pytest
from gymnasium.utils import env_checker as gymnasium_checker

from paddock import errors
from paddock.core.env import Env
from paddock.gym.utils import env_checker as gymnasiums_name
from paddock.spaces import Box, Discrete
from paddock.testing import RULES, check_env, find, report
from tests.testing import bad_envs
from tests.testing.bad_envs import BAD, Good, bad_env, good
from tests.testing.bad_envs_of_gymnasium import gymnasiums_bad_envs

BY_NAME = {rule.name: rule for rule in RULES}


def test_good_environment_has_no_findings():
    assert find(good()) == []


def test_good_environment_passes_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(good())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_bad_environment_is_found_by_its_rule(rule):
    found = [finding for finding in find(bad_env(rule.name)) if finding.rule == rule.name]
    assert found, f"no environment in bad_envs.py shows {rule.code} {rule.name}"
    assert {(f.code, f.level, f.fix) for f in found} == {(rule.code, rule.level, rule.fix)}
    assert all(finding.message for finding in found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_check_env_fails_on_errors_and_warns_of_warnings(rule):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            check_env(bad_env(rule.name))
            failed = ""
        except errors.CheckFailed as error:
            failed = str(error)
    told = {"error": failed, "warning": " ".join(str(w.message) for w in warned), "note": ""}
    assert {level for level, text in told.items() if f"[{rule.code}]" in text} == {rule.level} - {"note"}


# Where Gymnasium's checker and the level of our rule part ways, and why.
THEIRS_IS_BLIND = {
    "observation-outside": "the sample is wrong from the seventh step on, Gymnasium looks at the first",
    "step-nondeterministic": "from the tenth step on",
    "env-raised": "from the fifteenth step on",
}
THEIRS_FAILS = {
    "wrapped": "a wrapper without recorded arguments can't be made again from its spec",
    "render-modes": "KeyError",
}
# paddock.gym.utils.env_checker.check_env warns, too.
THEIRS_WARNS = {"reward-type": "an array as reward ends training later, far from its cause"}


@pytest.mark.filterwarnings("ignore")
def test_errors_are_what_gymnasiums_checker_fails_on():
    theirs = gymnasiums_bad_envs()
    differing = set()
    for rule in RULES:
        try:
            gymnasium_checker.check_env(theirs.bad_env(rule.name))
            failed = False
        except Exception:
            failed = True
        if failed != (rule.level == "error"):
            differing.add(rule.name)
    assert differing == {*THEIRS_IS_BLIND, *THEIRS_FAILS, *THEIRS_WARNS}
    page = " ".join((Path(__file__).parents[2] / "docs/differences.md").read_text(encoding="utf-8").split())
    assert "Missing `render_modes` are a warning here" in page and "A NaN reward is an error here (`PD033`)" in page


def rewarding(reward):
    class Rewarding(Good):
        def step(self, action):
            observation, _, *rest = super().step(action)
            return (observation, reward, *rest)

    return Rewarding()


@pytest.mark.parametrize("reward", [np.ones(1), np.inf, None, np.nan], ids=str)
@pytest.mark.filterwarnings("ignore")
def test_rewards_fail_here_and_under_gymnasiums_name_as_there(reward):
    with pytest.raises(errors.CheckFailed, match=r"PD03[23]"):
        check_env(rewarding(reward), skip_render_check=True)
    fails = reward is not None and np.isnan(reward).any()  # NaN is not NaN: to Gymnasium it looks nondeterministic
    with pytest.raises(errors.CheckFailed) if fails else nullcontext():
        gymnasiums_name.check_env(rewarding(reward), skip_render_check=True)


def test_what_steps_print_is_counted(capsys):
    class Chatty(Good):
        def step(self, action):
            print("one\ntwo")
            print("three", file=sys.stderr)
            return super().step(action)

    found = [one.message for one in find(Chatty(), skip_render_check=True) if one.rule == "prints"]
    assert found == ["`env.step()` prints 3 lines per step."]
    assert "two" in capsys.readouterr().out


def test_every_bad_environment_belongs_to_a_rule():
    assert set(BAD) == set(BY_NAME)


def test_codes_and_names_are_unique_and_codes_are_in_order():
    codes = [rule.code for rule in RULES]
    assert codes == sorted(set(codes))
    assert len(BY_NAME) == len(RULES)


def test_page_of_checks_is_the_table(request):
    page = request.config.rootpath / "docs" / "checks.md"
    head = ["| code | rule | level | what is wrong | how to fix it |", "|---|---|---|---|---|"]
    cells = ([one.replace("|", "\\|") for one in (r.code, r.name, r.level, r.meaning, r.fix)] for r in RULES)
    assert page.read_text().endswith("\n".join(["", *head, *(f"| {' | '.join(row)} |" for row in cells), ""]))


@pytest.mark.parametrize(
    ("rule", "also"),
    [
        ("not-an-env", TypeError),
        ("not-a-space", TypeError),
        ("missing-space", AttributeError),
        ("step-result", AssertionError),
    ],
)
def test_failure_is_also_the_kind_of_error_that_gymnasium_raises(rule, also):
    with pytest.raises(errors.CheckFailed) as caught:
        check_env(bad_env(rule))
    assert isinstance(caught.value, also)
    assert rule in {finding.rule for finding in caught.value.findings}


def test_exception_of_the_environment_is_the_cause():
    with pytest.raises(errors.CheckFailed, match=r"step\(\).*the wheel came off.*bad_envs.py") as caught:
        check_env(bad_env("env-raised"))
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_one_failure_tells_of_all_errors():
    class TwoMistakes(Good):
        def look(self):
            return super().look() + 1

        def step(self, action):
            observation, reward, _, _, info = super().step(action)
            return observation, reward, False, True, info

    with pytest.raises(errors.CheckFailed) as caught, pytest.warns(UserWarning, match="PD056"):
        check_env(TwoMistakes())
    assert "[PD017]" in str(caught.value)
    assert "[PD035]" in str(caught.value)


def test_warnings_point_to_the_line_that_called():
    with pytest.warns(UserWarning, match="PD051") as warned:
        check_env(bad_env("render-fps"))
    assert warned[0].filename == __file__


def test_warn_argument_is_ignored_with_a_warning():
    with pytest.warns(UserWarning, match=r"`check_env\(warn=\.\.\.\)` parameter is now ignored"):
        check_env(good(), warn=True)


def test_render_and_close_checks_can_be_skipped():
    assert find(bad_env("render-frame"), skip_render_check=True) == []
    assert find(bad_env("close-twice"), skip_close_check=True) == []
    assert find(bad_env("spec-broken"), skip_render_check=True, skip_close_check=True) == []


def test_environment_registered_as_nondeterministic_may_vary():
    for rule in ("reset-nondeterministic", "step-nondeterministic"):
        env = bad_env(rule)
        env.spec.nondeterministic = True
        assert find(env) == []


class NewSpaces(Good):
    """As environments do whose options choose the spaces: each reset makes them anew."""

    def reset(self, *, seed=None, options=None):
        self.action_space = Discrete(2)
        return super().reset(seed=seed, options=options)

    def step(self, action):
        observation, _, *rest = super().step(action)
        return (observation, float(action), *rest)


def test_environment_whose_reset_makes_a_new_action_space_is_given_the_same_actions_twice():
    env = NewSpaces()
    env.spec = bad_envs.GOOD_SPEC
    assert find(env) == []


def test_checking_leaves_the_global_random_streams_alone():
    before = np.random.get_state(legacy=False)["state"]
    find(good())
    assert np.random.get_state(legacy=False)["state"]["pos"] == before["pos"]


def test_guard_of_make_is_looked_through():
    from paddock.wrappers.guard import Guard

    assert find(Guard(good(), max_episode_steps=3)) == []


class FakeTensor:
    """What the checks may rely on in a foreign array."""

    def __init__(self, value):
        self.value = np.asarray(value)

    def __array__(self, dtype=None, copy=None):
        return np.array(self.value, dtype=dtype)


class Foreign(Good):
    def look(self):
        return FakeTensor(super().look())

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, FakeTensor(reward), FakeTensor(terminated), FakeTensor(truncated), info


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_environment_of_foreign_arrays_is_checked_in_numpy(library):
    env = Foreign()
    env.metadata = {"render_modes": [], library: True}
    check_env(env)


def test_plain_numpy_environment_that_claims_torch_does_not_crash():
    env = Good()
    env.metadata = {"render_modes": [], "torch": True}
    assert find(env) == []
    if not hasattr(gymnasium.wrappers, "TorchToNumpy"):

        class Theirs(gymnasium.Env):
            metadata = {"torch": True}

        with pytest.raises(AttributeError, match="TorchToNumpy"):
            gymnasium_checker.check_env(Theirs())


def test_whole_episode_is_checked_not_only_its_first_step():
    class LateNan(Good):
        def look(self):
            return super().look() if self.steps < 13 else np.full(2, np.nan)

    late = [finding for finding in find(LateNan()) if finding.rule == "observation-outside"]
    assert [finding.message.endswith("it is nan, which is not in [0.0, 1.0]. (step 13)") for finding in late] == [True]


LEVELS = {"enum": ["none", "note", "warning", "error"]}
SARIF_SHAPE = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "type": "object",
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "type": "object",
                                "required": ["name", "rules"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "type": "object",
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": {"type": "object", "required": ["text"]},
                                                "help": {"type": "object", "required": ["text"]},
                                                "defaultConfiguration": {"properties": {"level": LEVELS}},
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["ruleId", "level", "message"],
                            "properties": {
                                "level": LEVELS,
                                "message": {"type": "object", "required": ["text"]},
                                "ruleIndex": {"type": "integer", "minimum": 0},
                            },
                        },
                    },
                },
            },
        },
    },
}


@pytest.mark.parametrize("rule", ["data-reused", "render-fps", "seed-without-effect"])
def test_sarif_has_its_shape_and_names_rules_that_it_lists(rule):
    log = json.loads(json.dumps(report.to_sarif(find(bad_env(rule)), "test/Bad-v0")))
    jsonschema.validate(log, SARIF_SHAPE)
    run = log["runs"][0]
    [result] = run["results"]
    assert result["ruleId"] == BY_NAME[rule].code == run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"]
    assert result["level"] == BY_NAME[rule].level
    assert BY_NAME[rule].fix in result["message"]["text"]
    assert result["locations"][0]["logicalLocations"][0]["name"] == "test/Bad-v0"


def test_json_says_what_was_found_and_whether_it_is_fatal():
    errors_found = json.loads(json.dumps(report.to_json(find(bad_env("data-reused")), "test/Bad-v0")))
    assert (errors_found["target"], errors_found["ok"]) == ("test/Bad-v0", False)
    assert errors_found["findings"][0]["code"] == "PD036"
    assert report.to_json(find(bad_env("render-fps")), "test/Bad-v0")["ok"] is True
    assert report.to_json([], "x") == {"target": "x", "ok": True, "findings": []}


@pytest.mark.parametrize(
    ("box", "found"),
    [
        (Box(0, 255, (16, 16, 3), np.uint8), []),
        (Box(0, 1, (16, 16, 1), np.float32), []),
        (Box(0, 200, (16, 16, 3), np.uint8), ["image-box"]),
        (Box(-1, 1, (16, 16, 3), np.float32), ["image-box"]),
        (Box(-1, 1, (4, 4, 3), np.float32), []),
        (Box(-1, 1, (16, 16, 7), np.float32), []),
    ],
)
def test_box_that_looks_like_an_image_holds_pixels(box, found):
    from paddock.testing.probes import limit_problems

    assert [problem.rule for problem in limit_problems(box, "observation")] == found


def test_unusual_environments_end_in_findings_not_in_exceptions():
    class Bare(Env):
        pass

    class Silent(Good):
        def reset(self, *, seed=None, options=None):
            raise KeyError("x")

    class Rude(Good):
        def look(self):
            return Unfriendly()

    class Unfriendly:
        def __eq__(self, other):
            raise RuntimeError("no")

        def __repr__(self):
            raise RuntimeError("no")

        __hash__ = None

    assert [finding.rule for finding in find(Bare())] == ["missing-space", "missing-space"]
    assert [finding.rule for finding in find(Silent())] == ["env-raised"]
    assert "observation-outside" in {finding.rule for finding in find(Rude())}


def test_streams_that_nobody_has_loaded_are_not_looked_for(monkeypatch):
    monkeypatch.delitem(sys.modules, "numpy.random")
    assert find(good()) == []
