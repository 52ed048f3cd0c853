"""The rules that check_env applies, as data. A code keeps its meaning for good: retire one, never reuse it.

Level ``error`` is what Gymnasium's checker fails on as well, and a reward that is not a finite number, of which it only
warns; everything else that only paddock looks at is a ``warning``, or a ``note`` where it is often meant that way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Rule:
    """One row of the table."""

    code: str
    name: str
    level: Level
    meaning: str
    fix: str


RULES: tuple[Rule, ...] = (
    Rule(
        *("PD001", "not-an-env", "error"),
        meaning="The object does not inherit from Env.",
        fix="Subclass `paddock.Env` (`paddock.gym.Env` is the same class).",
    ),
    Rule(
        *("PD002", "wrapped", "warning"),
        meaning="A wrapper stands around the environment, so the checks judge both together.",
        fix="Check `env.unwrapped`, then the wrapped one on purpose.",
    ),
    Rule(
        *("PD003", "missing-space", "error"),
        meaning="The environment has no `action_space` or no `observation_space`.",
        fix="Set both in `__init__`, or on the class.",
    ),
    Rule(
        *("PD004", "not-a-space", "error"),
        meaning="A space, or a part of one, does not inherit from Space.",
        fix="Take it from `paddock.spaces`, or subclass `paddock.Space`.",
    ),
    Rule(
        *("PD005", "space-malformed", "error"),
        meaning="A space has no values: it is empty, or its sizes are not positive.",
        fix="Give the space at least one value, and a Dict or Tuple at least one part.",
    ),
    Rule(
        *("PD006", "box-bounds-equal", "warning"),
        meaning="Somewhere in a Box, low equals high (only one value fits) or exceeds it (none does).",
        fix="Correct the bounds, or leave the constant entry out of the space.",
    ),
    Rule(
        *("PD007", "box-unbounded", "warning"),
        meaning="A Box reaches to infinity: actions can't be sampled sensibly, observations can't be scaled.",
        fix="Give the bounds that the quantity really has, even if they are wide.",
    ),
    Rule(
        *("PD008", "action-not-normalized", "warning"),
        meaning="A one-dimensional action Box is neither [-1, 1] nor [0, 1], the range in which many agents begin.",
        fix="Use Box(-1, 1) and scale in `step`, or wrap with `RescaleAction`.",
    ),
    Rule(
        *("PD009", "image-box", "warning"),
        meaning="A Box looks like an image, but is neither uint8 in [0, 255] nor floating point in [0, 1].",
        fix="Use `Box(0, 255, shape, np.uint8)`.",
    ),
    Rule(
        *("PD010", "reset-no-seed", "error"),
        meaning="`reset` takes no `seed`.",
        fix="Write `def reset(self, *, seed=None, options=None)` and begin with `super().reset(seed=seed)`.",
    ),
    Rule(
        *("PD011", "reset-no-options", "error"),
        meaning="`reset` takes no `options`.",
        fix="Write `def reset(self, *, seed=None, options=None)`, and ignore `options` if there are none.",
    ),
    Rule(
        *("PD012", "reset-seed-default", "warning"),
        meaning="The default of `seed` in `reset` is not None, so every episode that nobody seeds is the same.",
        fix="Make the default None.",
    ),
    Rule(
        *("PD013", "reset-refuses", "error"),
        meaning="`reset` raises TypeError for a `seed` or `options` that its signature takes.",
        fix="Accept an integer as `seed` and an empty dict as `options`; `super().reset` takes `seed=seed`.",
    ),
    Rule(
        *("PD014", "reset-result", "error"),
        meaning="`reset` does not return a tuple of two.",
        fix="End `reset` with `return observation, {}`.",
    ),
    Rule(
        *("PD015", "info-not-dict", "error"),
        meaning="The info that `reset` or `step` returns is not a dict.",
        fix="Return `{}` when there is nothing to tell.",
    ),
    Rule(
        *("PD016", "observation-type", "warning"),
        meaning="An observation has another Python type or dtype than its space.",
        fix="Convert once, where it is made: `np.asarray(value, dtype=self.observation_space.dtype)`.",
    ),
    Rule(
        *("PD017", "observation-outside", "error"),
        meaning="An observation is not in the observation space: shape, keys, dtype, bounds or NaN.",
        fix="Correct the value, or widen the space so that it holds every value that can occur.",
    ),
    Rule(
        *("PD018", "rng-not-seeded", "error"),
        meaning="`reset(seed=...)` does not seed the environment's random stream.",
        fix="Begin `reset` with `super().reset(seed=seed)` and draw from `self.np_random`.",
    ),
    Rule(
        *("PD019", "reset-nondeterministic", "error"),
        meaning="The same seed gives different first observations.",
        fix="Draw from `self.np_random` alone and set all state in `reset`; or register with `nondeterministic=True`.",
    ),
    Rule(
        *("PD020", "almost-equal", "warning"),
        meaning="Two runs with the same seed and actions agree only within a tolerance.",
        fix="Look for sums in changing order, threads, or state that `reset` does not clear.",
    ),
    Rule(
        *("PD021", "reset-reseeds", "warning"),
        meaning="`reset()` without a seed starts the random stream anew, so episodes repeat or can't be reproduced.",
        fix="Leave `self.np_random` alone when `seed` is None, as `super().reset(seed=seed)` does.",
    ),
    Rule(
        *("PD022", "seed-without-effect", "note"),
        meaning="Two different seeds give the same first observation.",
        fix="Nothing, if the start is fixed on purpose; otherwise draw it from `self.np_random`.",
    ),
    Rule(
        *("PD023", "seed-method", "warning"),
        meaning="The environment has a method `seed`, which nothing calls any more.",
        fix="Move what it does into `reset(seed=...)` and remove it.",
    ),
    Rule(
        *("PD024", "return-info", "warning"),
        meaning="`reset` has the parameter `return_info` of an old API.",
        fix="Remove it and always return `(observation, info)`.",
    ),
    Rule(
        *("PD030", "step-result", "error"),
        meaning="`step` does not return a tuple of five.",
        fix="Return `(observation, reward, terminated, truncated, info)`.",
    ),
    Rule(
        *("PD031", "flag-type", "warning"),
        meaning="`terminated` or `truncated` is not a bool.",
        fix="Wrap the expression in `bool(...)`.",
    ),
    Rule(
        *("PD032", "reward-type", "error"),
        meaning="The reward is not a number: a bool, an array, None.",
        fix="Return `float(reward)`.",
    ),
    Rule(
        *("PD033", "reward-not-finite", "error"),
        meaning="The reward is NaN or infinite.",
        fix="Find the division or logarithm that makes it, or clip it.",
    ),
    Rule(
        *("PD034", "step-nondeterministic", "error"),
        meaning="The same seed and the same actions lead to different steps.",
        fix="Draw from `self.np_random` alone and set all state in `reset`; or register with `nondeterministic=True`.",
    ),
    Rule(
        *("PD035", "truncates-at-once", "error"),
        meaning="The first step is truncated already.",
        fix="Set the time limit when registering (`max_episode_steps=...`) and reset the step counter in `reset`.",
    ),
    Rule(
        *("PD036", "data-reused", "error"),
        meaning="Two calls return observations or infos that share memory: what an agent stored changes later.",
        fix="Return a copy, as `self.state.copy()`, and a new dict.",
    ),
    Rule(
        *("PD037", "data-changed", "warning"),
        meaning="A later call changed an observation or info that was returned earlier.",
        fix="Return copies of lists and objects that the environment goes on changing.",
    ),
    Rule(
        *("PD038", "global-random", "warning"),
        meaning="The environment draws from `numpy.random` or `random`, the streams of the whole process.",
        fix="Draw from `self.np_random`: others seed and use the global streams, too.",
    ),
    Rule(
        *("PD039", "env-raised", "error"),
        meaning="The environment raised an exception for calls that the API allows.",
        fix="Follow the exception's file and line.",
    ),
    Rule(
        *("PD040", "prints", "warning"),
        meaning="`step` prints, and training calls it millions of times.",
        fix="Remove it, or use `logging` at level DEBUG. What an agent is to see goes into the info.",
    ),
    Rule(
        *("PD050", "render-modes", "warning"),
        meaning="`metadata['render_modes']` is missing or is not a list of strings.",
        fix="Declare them on the class: `metadata = {'render_modes': ['rgb_array'], 'render_fps': 30}`.",
    ),
    Rule(
        *("PD051", "render-fps", "warning"),
        meaning="`metadata['render_fps']` is missing or not a number, so recordings have no speed.",
        fix="Add `'render_fps': 30` to the metadata.",
    ),
    Rule(
        *("PD052", "render-fps-not-positive", "error"),
        meaning="`metadata['render_fps']` is not above zero.",
        fix="Use the frames per second at which the world looks natural.",
    ),
    Rule(
        *("PD053", "render-mode-unsupported", "error"),
        meaning="`render_mode` is one that `metadata['render_modes']` does not list.",
        fix="Refuse unknown modes in `__init__`, or list this one.",
    ),
    Rule(
        *("PD054", "render-frame", "warning"),
        meaning="`render` returns something else than its mode promises.",
        fix="rgb_array: uint8 (height, width, 3); depth_array: 2 axes; ansi: str; human: None; _list: a list of them.",
    ),
    Rule(
        *("PD055", "render-mode-refused", "error"),
        meaning="A mode that `metadata['render_modes']` lists can't be made or rendered.",
        fix="Accept `render_mode` in `__init__`, and list only modes that `render` implements.",
    ),
    Rule(
        *("PD056", "render-unchecked", "warning"),
        meaning="Render modes other than the one in use were not tried.",
        fix="Make the environment by its id, so that it has a spec, and install what rendering needs.",
    ),
    Rule(
        *("PD060", "close-twice", "warning"),
        meaning="The second `close` raises.",
        fix="Make `close` forget what it has freed: `self.window = None`.",
    ),
    Rule(
        *("PD061", "spec-broken", "error"),
        meaning="The spec can't be copied, or does not make the environment again.",
        fix="Pass plain data as kwargs; make locks, files and connections inside the environment.",
    ),
)

RULE: dict[str, Rule] = {rule.name: rule for rule in RULES}


def as_markdown() -> str:
    """The page docs/checks.md."""
    lines = [_HEAD, "| code | rule | level | what is wrong | how to fix it |", "|---|---|---|---|---|"]
    lines += [f"| {r.code} | {r.name} | {r.level} | {_cell(r.meaning)} | {_cell(r.fix)} |" for r in RULES]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_HEAD = """# What `paddock check` looks for

`paddock check ID` and `paddock.check_env(env)` apply these rules. An *error* makes `check_env` raise `CheckFailed` and
`paddock check` exit with 1; a *warning* is a Python warning; a *note* is listed and nothing more. Errors are what
Gymnasium's checker fails on as well, except that paddock looks at a whole episode where Gymnasium looks at one step,
and that a reward that is not a finite number (PD032, PD033) is an error: it ruins any training. Of an array or infinity
Gymnasium only warns, and so does its checker here, `paddock.gym.utils.env_checker.check_env`.

This page is made from `paddock.testing.RULES`; a test compares the two.
"""
