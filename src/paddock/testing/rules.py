"""The rules for environments, as data, and Finding: a problem under its rule. Retire a code, but never reuse it.

Level ``error`` is for what Gymnasium's checker fails on, and for a reward that is not a finite number, of which it only
warns. Everything else that only paddock checks is a ``warning``, or a ``note`` if it is often intended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from paddock.core.problem import Problem
from paddock.errors import DeadlineExceeded, WorkerLost
from paddock.hosting.failures import place_of

Level = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Rule:
    """What environments must or should do, and how to fix one that does not."""

    code: str
    name: str
    level: Level
    meaning: str
    fix: str


# Where no exception has a file and a line, by the error's code.
_FIXES = {
    DeadlineExceeded.code: "The call did not return within the deadline; look at that line for a loop or a wait.",
    WorkerLost.code: "Look in that call for what ends a process: `os._exit`, a signal, a crash in C code, a limit.",
}


@dataclass(frozen=True)
class Finding:
    """A problem with its code, level and remedy: plain data, safe to print, store and compare.

    ``message`` says what is wrong, with values; ``fix`` says what to do about it. ``file`` and ``line`` are the place
    in the source, or where the environment raised or got stuck. ``environment`` is the id, in a report on several.
    """

    code: str
    level: Level
    rule: str
    message: str
    fix: str
    file: str | None = None
    line: int | None = None
    environment: str | None = None

    def __str__(self) -> str:
        return f"{self.code} {self.rule} ({self.level}): {self.message} Fix: {self.fix}"


def finding_of(problem: Problem) -> Finding:
    """Put a problem under the rule that it breaks."""
    rule, cause = RULE[problem.rule], problem.cause
    fix = _FIXES.get(str(getattr(cause, "code", "")), rule.fix)
    place = None if cause is None else place_of(cause)
    file, line = (None, None) if place is None else (short_path(Path(place.file)), place.line)
    return Finding(rule.code, rule.level, rule.name, problem.message, fix, file, line)


def short_path(path: Path) -> str:
    """Return the path relative to the working folder, as code hosts want it; unchanged if it is outside."""
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()  # noqa: PTH100 - links are not followed
    except ValueError:
        return str(path)


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
        meaning="The default of `seed` in `reset` is not None, so every unseeded episode is the same.",
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
        meaning="`reset()` without a seed restarts the random stream, so episodes repeat or can't be reproduced.",
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
        fix="Draw from `self.np_random`: other code seeds and uses the global streams too.",
    ),
    Rule(
        *("PD039", "env-raised", "error"),
        meaning="The environment raised an exception for calls that the API allows.",
        fix="Follow the exception's file and line.",
    ),
    Rule(
        *("PD040", "prints", "warning"),
        meaning="`step` prints, and training calls it millions of times.",
        fix="Remove it, or use `logging` at level DEBUG. Put what the agent should see into the info.",
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
        meaning="`render` does not return what its mode promises.",
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


def rules_as_markdown() -> str:
    """Write the page docs/checks.md."""
    lines = [_HEAD, "| code | rule | level | what is wrong | how to fix it |", "|---|---|---|---|---|"]
    lines += [f"| {r.code} | {r.name} | {r.level} | {_cell(r.meaning)} | {_cell(r.fix)} |" for r in RULES]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


_HEAD = """# What `paddock check` looks for

`paddock check ID` and `paddock.check_env(env)` apply these rules. An *error* makes `check_env` raise `CheckFailed` and
`paddock check` exit with 1; a *warning* is a Python warning; a *note* is only listed. Errors are what Gymnasium's
checker fails on too, with two exceptions. paddock checks a whole episode where Gymnasium checks one step. And a reward
that is not a finite number (PD032, PD033) is an error, because it ruins any training: for an array or infinity,
Gymnasium only warns, and so does its checker here, `paddock.gym.utils.env_checker.check_env`.

This page is generated from `paddock.testing.RULES`; a test compares the two.
"""


# Rules for environments that others should be able to trust. They are advice to authors: the wall is what enforces. All
# are warnings, because reading source can't tell for sure; ``paddock check --strict`` fails on them.
SECURE_RULES: tuple[Rule, ...] = (
    Rule(
        *("SEC001", "import-effects", "warning"),
        meaning="Importing the module already opens files, reaches the network, or starts processes or threads.",
        fix="Move it into `__init__` or `reset`. An import should define things and do nothing.",
    ),
    Rule(
        *("SEC002", "starts-processes", "warning"),
        meaning="The environment starts processes itself. Behind the wall that is denied.",
        fix="Ask the host for a workspace and declare `workspaces` with what each may do.",
    ),
    Rule(
        *("SEC003", "runs-data", "warning"),
        meaning="Data is run as code: `eval`, `exec`, `pickle`, `marshal`, `np.load(allow_pickle=True)`, `torch.load`.",
        fix="Read JSON, TOML or plain arrays; `ast.literal_eval` for literals; run an agent's code in a workspace.",
    ),
    Rule(
        *("SEC004", "native-code", "warning"),
        meaning="Machine code is called by address or by hand (`ctypes`, `cffi`): one wrong pointer ends the worker.",
        fix="Use a library with a Python interface, or a kernel that paddock compiles.",
    ),
    Rule(
        *("SEC005", "undeclared-network", "warning"),
        meaning="The code uses the network, and `hosts` does not name what it reaches.",
        fix="Declare each as `hosts = ['name:port']`, or ship the data with the package.",
    ),
    Rule(
        *("SEC006", "no-timeout", "warning"),
        meaning="A call over the network has no timeout, so the far end decides how long a step takes.",
        fix="Pass `timeout=`, shorter than the time that a call may take (`call_s`).",
    ),
    Rule(
        *("SEC007", "hidden-input", "warning"),
        meaning="Results depend on more than seed and actions: a clock, `random`, `numpy.random`, `uuid4`, `urandom`.",
        fix="Draw from `self.np_random` and count steps instead of seconds; or declare `deterministic = false`.",
    ),
    Rule(
        *("SEC008", "writes-elsewhere", "warning"),
        meaning="A file is written outside the scratch folder, which is all that may be written by default.",
        fix="Use `tempfile`, whose folder is the scratch, or declare the path in `write`.",
    ),
    Rule(
        *("SEC009", "reads-elsewhere", "warning"),
        meaning="A file is read that lies outside the package, so it does not exist behind the wall or elsewhere.",
        fix="Ship it beside the module and use `Path(__file__).parent`, or declare the path in `read`.",
    ),
    Rule(
        *("SEC010", "environment-variables", "warning"),
        meaning="Environment variables are read or set. Behind the wall there are none but those in `variables`.",
        fix="Take it as an argument (`kwargs`), or declare the variable.",
    ),
    Rule(
        *("SEC011", "secret-in-source", "warning"),
        meaning="The source or the manifest contains a password, key or token, where everyone can read it.",
        fix="Remove and revoke it. Whoever runs the environment passes it in `variables` of a Policy.",
    ),
    Rule(
        *("SEC012", "looks-around", "warning"),
        meaning="The code inspects frames, the garbage collector or loaded modules: the agent, or the grader.",
        fix="Use what `reset` and `step` are given.",
    ),
    Rule(
        *("SEC013", "changes-others", "warning"),
        meaning="The code changes modules that are not its own, or where Python looks for them.",
        fix="Subclass or wrap instead; write relative imports instead of changing `sys.path`.",
    ),
    Rule(
        *("SEC014", "waits", "warning"),
        meaning="The code waits: for a person (`input`) who is not there, or for time to pass (`sleep`).",
        fix="Compute the next state at once. A limit on speed belongs to whoever plays, not to the dynamics.",
    ),
    Rule(
        *("SEC015", "ends-process", "warning"),
        meaning="The code ends or signals processes, or takes over signals. Its worker may hold other lanes.",
        fix="Raise an exception for what can't go on, and return `terminated` for the end of an episode.",
    ),
    Rule(
        *("SEC020", "no-manifest", "warning"),
        meaning="The folder has no `paddock.toml`, so there is no telling what it needs without running it.",
        fix="Write one: name, version, environments, permissions.",
    ),
    Rule(
        *("SEC021", "permission-unused", "warning"),
        meaning="A permission is asked for that nothing in the source seems to use.",
        fix="Drop it: whoever runs the environment has to grant it.",
    ),
    Rule(
        *("SEC022", "permission-broad", "warning"),
        meaning="A permission is so broad that it says little: any host, a home, the system's folders, its own code.",
        fix="Name the hosts and folders that are needed, and keep code apart from data that is written.",
    ),
    Rule(
        *("SEC023", "unread-source", "warning"),
        meaning="Code could not be read by these rules: compiled, malformed, too large, or a link out of the folder.",
        fix="Ship Python source that parses; build compiled parts where they are installed.",
    ),
    Rule(
        *("SEC030", "reward-outside", "warning"),
        meaning="A reward lies outside the declared `reward_range`. Behind the wall this ends the environment.",
        fix="Declare the range that the rewards really have.",
    ),
    Rule(
        *("SEC031", "info-refused", "warning"),
        meaning="An info can't cross the wall: too large, too deep, or of types that are not plain data.",
        fix="Return a small dict of texts, numbers and arrays; raise `info_kb` if it must be large.",
    ),
    Rule(
        *("SEC032", "info-tells", "warning"),
        meaning="An info seems to hold the answer or hidden state. Agents see infos.",
        fix="Keep it out of `info`; let the environment's own reward use it.",
    ),
)

SECURE_RULE: dict[str, Rule] = {rule.name: rule for rule in SECURE_RULES}


def secure_rules_as_markdown() -> str:
    """Write the table in docs/secure-environments.md."""
    lines = ["| code | rule | what is wrong | how to fix it |", "|---|---|---|---|"]
    lines += [f"| {rule.code} | {rule.name} | {rule.meaning} | {rule.fix} |" for rule in SECURE_RULES]
    return "\n".join(lines) + "\n"
