"""Plan a run: look at each environment of a suite once, and write down all that will matter, before any episode.

Also the way back: make the environment that a task of somebody's plan names, behind a wall unless it is paddock's own.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import paddock.envs.catalog  # noqa: F401 - puts the built-in ids into the registry
from paddock import __version__
from paddock.bench.bundle import FORMAT, Plan, PolicyPlan, Task
from paddock.bench.log import MOST_EPISODES
from paddock.bench.suites import WRAPPERS, Suite, SuiteTask, check_suite, public_target
from paddock.core.env import Env
from paddock.core.registry import registry
from paddock.core.spec import EnvSpec, entry_point_text, public_path
from paddock.core.values import canonical_bytes
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import InvalidSpec, InvalidSuite, NoCanonicalForm, PaddockError, PlanError
from paddock.making import make
from paddock.making.options import LaneOptions
from paddock.making.target import is_own, split_folder
from paddock.record.digest import environment_digest
from paddock.spaces.rows import from_layout, layout

_ROW_BYTES = 256  # larger observations are recorded as their digest
_ENDLESS, _ENDLESS_TALK = 10_000, 200  # steps where neither the environment nor the suite has a limit
_PROBE_STEPS = 64


def make_plan(suite: Suite, policy: PolicyPlan, *, episodes: int | None = None, isolation: str | None = None) -> Plan:
    """The plan of a run of ``suite``. Makes each environment twice, and plays a few steps to see whether they agree."""
    check_suite(suite)
    if (total := sum(episodes or task.episodes for task in suite.task)) > MOST_EPISODES:
        raise InvalidSuite(f"{total:,} episodes; a bundle has at most {MOST_EPISODES:,}. Make several runs of it.")
    tasks = tuple(_plan_task(suite, task, episodes, isolation) for task in suite.task)
    return Plan(
        format=FORMAT,
        suite=suite.name,
        tasks=tasks,
        policy=policy,
        isolation=isolation or "default",
        seed_rule="paddock-seed-v1",
        retries=0,
        paddock=__version__,
    )


def _plan_task(suite: Suite, task: SuiteTask, episodes: int | None, isolation: str | None) -> Task:
    wrappers, known = tuple(one.spec() for one in task.wrappers), registry.get(task.env)
    if known is not None:
        known = replace(known, kwargs={**known.kwargs, **task.kwargs}, additional_wrappers=wrappers)
    options: dict[str, Any] = {
        "wrappers": wrappers,
        "env_kwargs": task.kwargs,
        "isolation": isolation or ("sandbox" if known is None or needs_wall(known) else None),
    }
    if task.max_steps is not None:
        options["max_episode_steps"] = task.max_steps
    with closing(make(task.env, **options)) as env:
        spec = env.spec
        if spec is None:
            raise InvalidSuite(f"the suite {suite.name!r}, task {task.name!r}: it has no spec, so it has no digest.")
        form = describe_form(env)
        max_steps = task.max_steps or spec.max_episode_steps or (_ENDLESS_TALK if form["agentic"] else _ENDLESS)
        if spec.max_episode_steps is None:
            options["max_episode_steps"] = max_steps
    with closing(make(task.env, **options)) as env, closing(make(task.env, **options)) as other:
        try:
            text, digest = env.spec.to_json(), environment_digest(env.spec)
        except (InvalidSpec, NoCanonicalForm) as error:
            raise InvalidSuite(f"the suite {suite.name!r}, task {task.name!r}: {error}") from error
        exact = not env.spec.nondeterministic and _agree(env, other)
    return Task(
        name=task.name,
        target=public_target(task.env),
        spec=text,
        environment=digest,
        package=code_digest(task.env),
        episodes=episodes or task.episodes,
        max_steps=max_steps,
        metric=task.metric,
        success_at=_text(task.success_at),
        failure=repr(float(task.failure)),
        floor=_text(task.floor),
        ceiling=_text(task.ceiling),
        determinism="exact" if exact else "none",
        **form,
    )


def _text(number: float | None) -> str | None:
    return None if number is None else repr(float(number))


def is_built_in(spec: EnvSpec) -> bool:
    """Whether this is an environment of paddock's, within wrappers of paddock's that a suite may name."""
    return is_own(spec) and {f"paddock.wrappers:{name}" for name in WRAPPERS}.issuperset(_wrappers_of(spec))


def needs_wall(spec: EnvSpec) -> bool:
    """Whether somebody's plan or trace may have this only behind a wall: for its code, or for arguments with which
    paddock's own code could take all time or memory, as a stack of a billion frames does.
    """
    simple = all(value is None or type(value) in (bool, int, float, str) for value in spec.kwargs.values())
    unframed = spec.kwargs.get("render_mode") is None and _wrappers_of(spec) in ([], ["paddock.wrappers:TimeLimit"])
    return not (is_own(spec) and simple and unframed)


def _wrappers_of(spec: EnvSpec) -> list[str]:
    return [public_path(entry_point_text(one.entry_point)) for one in spec.additional_wrappers]


def make_environment(
    task: Task, num_envs: int | None = None, *, targets: Mapping[str, str] | None = None, isolation: str | None = None
) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """The environment of a task. ``targets`` says, by the task's name, where code lies that a plan can't carry.

    What needs a wall runs behind one unless ``isolation`` says otherwise.
    """
    spec = EnvSpec.from_json(task.spec)
    place = place_of(task, targets)
    chosen: Any = spec if place == spec.id and place in registry else place
    options: dict[str, Any] = {} if num_envs is None else {"num_envs": num_envs}
    if chosen is place:
        options |= {"wrappers": spec.additional_wrappers, "env_kwargs": spec.kwargs}
        options["max_episode_steps"] = spec.max_episode_steps
    options["isolation"] = isolation or ("sandbox" if needs_wall(spec) or chosen is place else None)
    if num_envs is not None:
        options["lanes"] = LaneOptions(autoreset=AutoresetMode.DISABLED)
    made: Env[Any, Any] | VectorEnv[Any, Any, Any] = make(chosen, **options)
    return made


def place_of(task: Task, targets: Mapping[str, str] | None) -> str:
    """Where the code of a task is: where ``targets`` says, or what its plan names. A stranger's plan names no paths."""
    own = (targets or {}).get(task.name)
    place = own or task.target
    if (folder := split_folder(place)) is None:
        return place
    near = own or re.fullmatch(r"\./[^./][^/]*", folder[0])
    if not near or not Path(folder[0]).expanduser().is_dir():
        raise PlanError(f"There is no folder {place[:80]} here. Say where the code is: --env {task.name}=./FOLDER")
    return place


def code_digest(target: str) -> str | None:
    """The digest of an installed package, or over the files of a folder; None for other targets."""
    folder = split_folder(target)
    if folder is not None:
        return folder_digest(Path(folder[0]).expanduser())
    if "@" not in target:
        return None
    from paddock.package.store import find_installed

    name, _, version = target.partition("@")
    return find_installed(name, version.partition(":")[0]).digest


def folder_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of the regular files in a folder, caches left out."""
    files: list[Path] = []
    for where, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in ("__pycache__", ".git", ".venv"))
        files += [place for name in names if (place := Path(where) / name).is_file()]
    found = {file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return hashlib.sha256(b"paddock folder 1\n" + canonical_bytes(found)).hexdigest()


def read_platform() -> dict[str, str]:
    """What numbers may depend on, as text. ``class`` is the digest of the part on which exact replays rely."""
    libc = " ".join(platform.libc_ver())
    rely = {
        "machine": platform.machine(),
        "libc": libc,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "paddock": __version__,
    }
    kind = hashlib.sha256(canonical_bytes(rely)).hexdigest()
    return {**rely, "system": platform.system(), "python": platform.python_version(), "class": kind}


def describe_form(env: Env[Any, Any]) -> dict[str, Any]:
    """What a Task says of the values of its environment: its spaces, and how a step is recorded."""
    spaces = canonical_bytes([env.observation_space.to_json(), env.action_space.to_json()])
    form = {"spaces": hashlib.sha256(spaces).hexdigest(), "agentic": "tools" in env.metadata}
    action, observation = layout(env.action_space), layout(env.observation_space)
    if action is None or observation is None or "array" not in action:
        return {**form, "actions": None, "observation_bytes": 0}
    dtype, shape = action["array"]
    sizes: list[int] = []
    from_layout(observation, lambda dtype, shape: sizes.append(dtype.itemsize * int(np.prod(shape))))
    whole = sum(sizes) if sum(sizes) <= _ROW_BYTES else 0
    return {**form, "actions": (np.dtype(dtype).newbyteorder("<").str, tuple(shape)), "observation_bytes": whole}


def _agree(one: Env[Any, Any], other: Env[Any, Any]) -> bool:
    """Whether two environments that were made alike answer alike, to the same seeds and actions."""
    try:
        return _probe(one) == _probe(other)
    except (PaddockError, NoCanonicalForm):
        return False


def _probe(env: Env[Any, Any]) -> str:
    from paddock.record import TrajectoryDigest
    from paddock.testing.probes import sample_allowed

    digest, steps = TrajectoryDigest(), 0
    for seed in (11, 12):
        env.action_space.seed(seed)
        observation, info = env.reset(seed=seed)
        digest.reset(seed, observation)
        ended = False
        while not ended and steps < _PROBE_STEPS * (seed - 10):
            action = sample_allowed(env.action_space, info)
            observation, reward, terminated, truncated, info = env.step(action)
            digest.step(action, observation, reward, terminated, truncated)
            steps, ended = steps + 1, terminated or truncated
    return digest.hexdigest()
