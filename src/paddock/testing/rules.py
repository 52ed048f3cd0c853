"""The rules for environments, as data, and Finding: a problem under its rule. Retire a code, but never reuse it.

Level ``error`` is for what Gymnasium's checker fails on, and for a reward that is not a finite number, of which it only
warns. Everything else that only paddock checks is a ``warning``, or a ``note`` if it is often intended.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, cast

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
    cause = problem.cause
    place = None if cause is None else place_of(cause)
    file, line = (None, None) if place is None else (short_path(Path(place.file)), place.line)
    found = finding(problem.rule, problem.message, file=file, line=line)
    return replace(found, fix=_FIXES.get(str(getattr(cause, "code", "")), found.fix))


def finding(rule_name: str, message: str, *, file: str | None = None, line: int | None = None) -> Finding:
    """Make a finding under the rule of that name."""
    rule = RULE[rule_name]
    return Finding(rule.code, rule.level, rule.name, message, rule.fix, file, line)


def short_path(path: Path) -> str:
    """Return the path relative to the working folder, as code hosts want it; unchanged if it is outside."""
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()  # noqa: PTH100 - links are not followed
    except ValueError:
        return str(path)


def _read(text: str) -> tuple[Rule, ...]:
    """Read rules of three lines each: code, name and level; what is wrong; how to fix it."""
    lines = text.strip().splitlines()
    rules = []
    for head, meaning, fix in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
        code, name, level = head.split()
        rules.append(Rule(code, name, cast("Level", level), meaning.strip(), fix.strip()))
    return tuple(rules)


RULES = _read("""
PD001 not-an-env error
    The object does not inherit from Env.
    Subclass `paddock.Env` (`paddock.gym.Env` is the same class).
PD002 wrapped warning
    A wrapper stands around the environment, so the checks judge both together.
    Check `env.unwrapped`, then the wrapped one on purpose.
PD003 missing-space error
    The environment has no `action_space` or no `observation_space`.
    Set both in `__init__`, or on the class.
PD004 not-a-space error
    A space, or a part of one, does not inherit from Space.
    Take it from `paddock.spaces`, or subclass `paddock.Space`.
PD005 space-malformed error
    A space has no values: it is empty, or its sizes are not positive.
    Give the space at least one value, and a Dict or Tuple at least one part.
PD006 box-bounds-equal warning
    Somewhere in a Box, low equals high (only one value fits) or exceeds it (none does).
    Correct the bounds, or leave the constant entry out of the space.
PD007 box-unbounded warning
    A Box reaches to infinity: actions can't be sampled sensibly, observations can't be scaled.
    Give the bounds that the quantity really has, even if they are wide.
PD008 action-not-normalized warning
    A one-dimensional action Box is neither [-1, 1] nor [0, 1], the range in which many agents begin.
    Use Box(-1, 1) and scale in `step`, or wrap with `RescaleAction`.
PD009 image-box warning
    A Box looks like an image, but is neither uint8 in [0, 255] nor floating point in [0, 1].
    Use `Box(0, 255, shape, np.uint8)`.
PD010 reset-no-seed error
    `reset` takes no `seed`.
    Write `def reset(self, *, seed=None, options=None)` and begin with `super().reset(seed=seed)`.
PD011 reset-no-options error
    `reset` takes no `options`.
    Write `def reset(self, *, seed=None, options=None)`, and ignore `options` if there are none.
PD012 reset-seed-default warning
    The default of `seed` in `reset` is not None, so every unseeded episode is the same.
    Make the default None.
PD013 reset-refuses error
    `reset` raises TypeError for a `seed` or `options` that its signature takes.
    Accept an integer as `seed` and an empty dict as `options`; `super().reset` takes `seed=seed`.
PD014 reset-result error
    `reset` does not return a tuple of two.
    End `reset` with `return observation, {}`.
PD015 info-not-dict error
    The info that `reset` or `step` returns is not a dict.
    Return `{}` when there is nothing to tell.
PD016 observation-type warning
    An observation has another Python type or dtype than its space.
    Convert once, where it is made: `np.asarray(value, dtype=self.observation_space.dtype)`.
PD017 observation-outside error
    An observation is not in the observation space: shape, keys, dtype, bounds or NaN.
    Correct the value, or widen the space so that it holds every value that can occur.
PD018 rng-not-seeded error
    `reset(seed=...)` does not seed the environment's random stream.
    Begin `reset` with `super().reset(seed=seed)` and draw from `self.np_random`.
PD019 reset-nondeterministic error
    The same seed gives different first observations.
    Draw from `self.np_random` alone and set all state in `reset`; or register with `nondeterministic=True`.
PD020 almost-equal warning
    Two runs with the same seed and actions agree only within a tolerance.
    Look for sums in changing order, threads, or state that `reset` does not clear.
PD021 reset-reseeds warning
    `reset()` without a seed restarts the random stream, so episodes repeat or can't be reproduced.
    Leave `self.np_random` alone when `seed` is None, as `super().reset(seed=seed)` does.
PD022 seed-without-effect note
    Two different seeds give the same first observation.
    Nothing, if the start is fixed on purpose; otherwise draw it from `self.np_random`.
PD023 seed-method warning
    The environment has a method `seed`, which nothing calls any more.
    Move what it does into `reset(seed=...)` and remove it.
PD024 return-info warning
    `reset` has the parameter `return_info` of an old API.
    Remove it and always return `(observation, info)`.
PD030 step-result error
    `step` does not return a tuple of five.
    Return `(observation, reward, terminated, truncated, info)`.
PD031 flag-type warning
    `terminated` or `truncated` is not a bool.
    Wrap the expression in `bool(...)`.
PD032 reward-type error
    The reward is not a number: a bool, an array, None.
    Return `float(reward)`.
PD033 reward-not-finite error
    The reward is NaN or infinite.
    Find the division or logarithm that makes it, or clip it.
PD034 step-nondeterministic error
    The same seed and the same actions lead to different steps.
    Draw from `self.np_random` alone and set all state in `reset`; or register with `nondeterministic=True`.
PD035 truncates-at-once error
    The first step is truncated already.
    Set the time limit when registering (`max_episode_steps=...`) and reset the step counter in `reset`.
PD036 data-reused error
    Two calls return observations or infos that share memory: what an agent stored changes later.
    Return a copy, as `self.state.copy()`, and a new dict.
PD037 data-changed warning
    A later call changed an observation or info that was returned earlier.
    Return copies of lists and objects that the environment goes on changing.
PD038 global-random warning
    The environment draws from `numpy.random` or `random`, the streams of the whole process.
    Draw from `self.np_random`: other code seeds and uses the global streams too.
PD039 env-raised error
    The environment raised an exception for calls that the API allows.
    Follow the exception's file and line.
PD040 prints warning
    `step` prints, and training calls it millions of times.
    Remove it, or use `logging` at level DEBUG. Put what the agent should see into the info.
PD050 render-modes warning
    `metadata['render_modes']` is missing or is not a list of strings.
    Declare them on the class: `metadata = {'render_modes': ['rgb_array'], 'render_fps': 30}`.
PD051 render-fps warning
    `metadata['render_fps']` is missing or not a number, so recordings have no speed.
    Add `'render_fps': 30` to the metadata.
PD052 render-fps-not-positive error
    `metadata['render_fps']` is not above zero.
    Use the frames per second at which the world looks natural.
PD053 render-mode-unsupported error
    `render_mode` is one that `metadata['render_modes']` does not list.
    Refuse unknown modes in `__init__`, or list this one.
PD054 render-frame warning
    `render` does not return what its mode promises.
    rgb_array: uint8 (height, width, 3); depth_array: 2 axes; ansi: str; human: None; _list: a list of them.
PD055 render-mode-refused error
    A mode that `metadata['render_modes']` lists can't be made or rendered.
    Accept `render_mode` in `__init__`, and list only modes that `render` implements.
PD056 render-unchecked warning
    Render modes other than the one in use were not tried.
    Make the environment by its id, so that it has a spec, and install what rendering needs.
PD060 close-twice warning
    The second `close` raises.
    Make `close` forget what it has freed: `self.window = None`.
PD061 spec-broken error
    The spec can't be copied, or does not make the environment again.
    Pass plain data as kwargs; make locks, files and connections inside the environment.
""")

# Rules for environments that others should be able to trust. They are advice to authors: the wall is what enforces. All
# are warnings, because reading source can't tell for sure; ``paddock check --strict`` fails on them.
SECURE_RULES = _read("""
SEC001 import-effects warning
    Importing the module already opens files, reaches the network, or starts processes or threads.
    Move it into `__init__` or `reset`. An import should define things and do nothing.
SEC002 starts-processes warning
    The environment starts processes itself. Behind the wall that is denied.
    Ask the host for a workspace and declare `workspaces` with what each may do.
SEC003 runs-data warning
    Data is run as code: `eval`, `exec`, `pickle`, `marshal`, `np.load(allow_pickle=True)`, `torch.load`.
    Read JSON, TOML or plain arrays; `ast.literal_eval` for literals; run an agent's code in a workspace.
SEC004 native-code warning
    Machine code is called by address or by hand (`ctypes`, `cffi`): one wrong pointer ends the worker.
    Use a library with a Python interface, or a kernel that paddock compiles.
SEC005 undeclared-network warning
    The code uses the network, and `hosts` does not name what it reaches.
    Declare each as `hosts = ['name:port']`, or ship the data with the package.
SEC006 no-timeout warning
    A call over the network has no timeout, so the far end decides how long a step takes.
    Pass `timeout=`, shorter than the time that a call may take (`call_s`).
SEC007 hidden-input warning
    Results depend on more than seed and actions: a clock, `random`, `numpy.random`, `uuid4`, `urandom`.
    Draw from `self.np_random` and count steps instead of seconds; or declare `deterministic = false`.
SEC008 writes-elsewhere warning
    A file is written outside the scratch folder, which is all that may be written by default.
    Use `tempfile`, whose folder is the scratch, or declare the path in `write`.
SEC009 reads-elsewhere warning
    A file is read that lies outside the package, so it does not exist behind the wall or elsewhere.
    Ship it beside the module and use `Path(__file__).parent`, or declare the path in `read`.
SEC010 environment-variables warning
    Environment variables are read or set. Behind the wall there are none but those in `variables`.
    Take it as an argument (`kwargs`), or declare the variable.
SEC011 secret-in-source warning
    The source or the manifest contains a password, key or token, where everyone can read it.
    Remove and revoke it. Whoever runs the environment passes it in `variables` of a Policy.
SEC012 looks-around warning
    The code inspects frames, the garbage collector or loaded modules: the agent, or the grader.
    Use what `reset` and `step` are given.
SEC013 changes-others warning
    The code changes modules that are not its own, or where Python looks for them.
    Subclass or wrap instead; write relative imports instead of changing `sys.path`.
SEC014 waits warning
    The code waits: for a person (`input`) who is not there, or for time to pass (`sleep`).
    Compute the next state at once. A limit on speed belongs to whoever plays, not to the dynamics.
SEC015 ends-process warning
    The code ends or signals processes, or takes over signals. Its worker may hold other lanes.
    Raise an exception for what can't go on, and return `terminated` for the end of an episode.
SEC020 no-manifest warning
    The folder has no `paddock.toml`, so only running it would show what it needs.
    Write one: name, version, environments, permissions.
SEC021 permission-unused warning
    A permission is asked for that nothing in the source seems to use.
    Drop it: whoever runs the environment has to grant it.
SEC022 permission-broad warning
    A permission is so broad that it says little: any host, a home, the system's folders, its own code.
    Name the hosts and folders that are needed, and keep code apart from data that is written.
SEC023 unread-source warning
    Code could not be read by these rules: compiled, malformed, too large, or a link out of the folder.
    Ship Python source that parses; build compiled parts where they are installed.
SEC030 reward-outside warning
    A reward lies outside the declared `reward_range`. Behind the wall this ends the environment.
    Declare the range that the rewards really have.
SEC031 info-refused warning
    An info can't cross the wall: too large, too deep, or of types that are not plain data.
    Return a small dict of texts, numbers and arrays; raise `info_kb` if it must be large.
SEC032 info-tells warning
    An info seems to hold the answer or hidden state. Agents see infos.
    Keep it out of `info`; let the environment's own reward use it.
""")

# What `paddock audit` looks for on top, in a package that strangers shall run.
AUDIT_RULES = _read("""
AUD001 undeclared-import warning
    A module is imported that neither the package, Python nor paddock brings, and `[dependencies]` does not name.
    Declare its distribution under `[dependencies]` in `paddock.toml`, or drop the import.
AUD002 dependency-unpinned warning
    The dependencies are not pinned by hash, so another day brings other code.
    Write `lock/requirements.txt`: `uv pip compile --generate-hashes`.
AUD003 runs-unasked warning
    A file that Python or pip runs by itself: `.pth`, `sitecustomize.py`, `usercustomize.py`, `setup.py`.
    Remove it; `pyproject.toml` says all that an installer has to know.
AUD004 not-repeatable error
    The same seed and actions lead to other results in another worker, although it is declared deterministic.
    Draw from `self.np_random`, count steps, sort sets before use; or declare `deterministic = false`.
""")

RULE: dict[str, Rule] = {rule.name: rule for rule in (*RULES, *SECURE_RULES, *AUDIT_RULES)}
