"""Build what a plan says. Here, and only here, environment code is imported and run."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from paddock.core.env import Env
from paddock.core.problem import kind, warn_user
from paddock.core.registry import check_entry_point, find_spec, registry
from paddock.core.spec import EnvSpec, WrapperSpec, entry_point_text, public_path
from paddock.core.vector_env import AutoresetMode, VectorEnv
from paddock.errors import (
    DependencyNotInstalled,
    EnvironmentViolation,
    InvalidSpec,
    PaddockError,
    PlanError,
    PluginError,
    RegistrationError,
    UnregisteredEnv,
    UnsupportedMode,
)
from paddock.making.options import LaneOptions
from paddock.making.plan import Isolation, Plan, WrapperLike, as_wrapper_spec, choose_wall, in_actors
from paddock.making.target import Target

# Gymnasium's specs name its modules; the class names are the same here, the modules are not.
_OURS = {
    "gymnasium.wrappers.vector": "paddock.wrappers.vector",
    "gymnasium.wrappers": "paddock.wrappers",
    "gymnasium.envs": "paddock.envs",
}


def build(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """Build the environment of a plan for a resolved target. If that fails, what was opened is closed."""
    if plan.target.url is not None:
        return _build_remote(plan)
    if plan.target.dependencies:
        _require_dependencies(plan.target)
    env = _build_here_or_in_workers(plan)
    if plan.target.package is not None and not plan.wrappers and not plan.env_kwargs:
        _compare_spaces(env, plan.target.package.spaces.get(plan.target.id or "", {}), plan.target)
    return env


def _require_dependencies(target: Target) -> None:
    from paddock.package.dependencies import find_unmet

    if unmet := list(find_unmet(target.dependencies, target.libraries)):
        way = "install the package again" if target.package else f"make({target.text!r}, install=True)"
        raise DependencyNotInstalled(
            f"{target.text!r} needs {'; '.join(unmet)}. To install what is missing, for it alone: {way}. Where another "
            f"version is found first, use a Python without that."
        )


def _compare_spaces(env: Any, declared: Mapping[str, str], target: Target) -> None:
    """Raise EnvironmentViolation if the environment has other spaces than its package says."""
    from paddock.spaces.json_form import from_json

    lane = "single_" if isinstance(env, VectorEnv) else ""
    for what, text in declared.items():
        own = getattr(env, f"{lane}{what}_space")
        try:
            said = from_json(text)
        except PaddockError as error:
            said, text = None, str(error)
        if said != own:
            env.close()
            raise EnvironmentViolation(
                f"{target.text!r}: the package declares the {what} space {ascii(said or text)[:200]}, and the "
                f"environment has {ascii(own)[:200]}. Its author has to pack it again.",
                path=f"{what}_space",
            )


def _build_here_or_in_workers(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    if plan.num_envs is None and plan.backend == "ray":
        from paddock.vector.ray_lanes import ray_env

        env = ray_env(partial(build_one, plan))
        env.spec = env.spec or _predicted_spec(plan)
        return env
    if plan.num_envs is None and plan.isolation == "none":
        return build_one(plan)
    if plan.num_envs is None:
        elsewhere = _build_in_worker(plan)
        elsewhere.unwrapped._isolation = plan.isolation
        return elsewhere
    lanes = with_vector_spec(_LANES[plan.backend](plan, plan.num_envs), plan, plan.num_envs)
    lanes.unwrapped._isolation = plan.isolation
    return lanes


def build_one(plan: Plan) -> Env[Any, Any]:
    """Build one environment in its guard, with the spec's wrappers and then the caller's around it."""
    spec, kwargs = _spec_and_kwargs(plan)
    if plan.target.package is not None:
        sys.dont_write_bytecode = True  # the store stays as it was signed, for root too
    entry_point = _require_entry_point(spec.entry_point, spec, "entry_point")
    if plan.target.folder is not None:
        _require_own_module(entry_point, plan.target.folder)
    sys.path += [folder for folder in plan.target.folders if folder not in sys.path]  # last: it shadows nothing
    creator = load(entry_point)
    if hasattr(creator, "for_spec"):  # one entry point for a whole library: the spec's id says which environment
        creator = creator.for_spec(spec)
    offered = getattr(creator, "metadata", {}).get("render_modes", ())
    mode, display = negotiate_render_mode(plan.render_mode or kwargs.get("render_mode"), offered)
    if mode is not None:
        kwargs["render_mode"] = mode
    try:
        env = _construct(creator, spec, kwargs)
    except TypeError as error:
        if display is None or "render_mode" not in str(error.__cause__):
            raise
        raise UnsupportedMode(
            f"{spec.id!r} takes no render_mode, so there are no frames for render_mode={plan.render_mode!r} to show. "
            f"Give its class a render_mode, or drop yours."
        ) from error
    try:
        return _wrap_all(env, plan, _final_spec(spec, kwargs, plan), display)
    except BaseException:
        env.close()
        raise


def _require_own_module(entry_point: str, folder: str) -> None:
    """A folder's module must not be taken for another of its name, which this Python or this process has already."""
    top = entry_point.partition(":")[0].partition(".")[0]
    found = None if top == "paddock" else importlib.util.find_spec(top)
    if found is not None and found.origin is not None and not Path(found.origin).resolve().is_relative_to(folder):
        raise PlanError(
            f"The module {top!r} of {folder} is hidden by another of that name: {found.origin}. Rename one, or "
            f"uninstall the other; if it is another folder's, isolation='sandbox' keeps them apart."
        )


def _wrap_all(env: Env[Any, Any], plan: Plan, spec: EnvSpec, display: Callable[[Any], Any] | None) -> Env[Any, Any]:
    env.unwrapped.spec = replace(spec, additional_wrappers=())
    inner = env.spec.additional_wrappers if env.spec is not None else ()
    # A spec with fewer wrappers was written without knowing those inside; one of this environment names them all.
    known = len(inner) if len(inner) <= len(spec.additional_wrappers) else 0
    if spec.additional_wrappers[:known] != inner[:known]:
        raise InvalidSpec(
            f"{spec.id!r}: the environment comes with the wrappers {[w.name for w in inner]}, "
            f"but the spec begins with {[w.name for w in spec.additional_wrappers[:known]]}."
        )
    if spec.order_enforce or plan.validates() or spec.max_episode_steps is not None:
        from paddock.wrappers.guard import Guard

        env = Guard(
            env,
            max_episode_steps=spec.max_episode_steps,
            order_enforce=spec.order_enforce,
            validate=plan.validates(),
            strict=plan.strict,
        )
    for wrapper in (*spec.additional_wrappers[known:], *plan.wrappers):
        env = _wrap(env, wrapper)
    return env if display is None else display(env)


def _wrap(env: Env[Any, Any], wrapper: WrapperLike) -> Env[Any, Any]:
    """Put one wrapper, as data or as a callable, around an environment."""
    if not isinstance(wrapper, WrapperSpec):
        return wrapper(env)  # type: ignore[no-any-return]
    if wrapper.kwargs is None:
        raise InvalidSpec(
            f"{wrapper.name} wrapper does not inherit from `gymnasium.utils.RecordConstructorArgs`, "
            f"therefore, the wrapper cannot be recreated."
        )
    return load(wrapper.entry_point)(env=env, **wrapper.kwargs)  # type: ignore[no-any-return]


def _build_in_worker(plan: Plan) -> Env[Any, Any]:
    if plan.wall is not None:
        from paddock.making.payload import pack
        from paddock.making.walls import walled_env

        spec = plan.target.spec
        walled = walled_env(pack(plan), plan.wall, ordered=spec is None or spec.order_enforce)
        walled.spec = _outside_spec(plan, walled.spec)
        walled._another = partial(_build_in_worker, plan)
        return walled
    from paddock.hosting.client import HostedEnv
    from paddock.hosting.factories import dumps
    from paddock.hosting.launch import start_fresh
    from paddock.hosting.process_channel import ProcessChannel

    env = HostedEnv(ProcessChannel(*start_fresh(), pickler=dumps), {"factory": partial(build_one, plan)})
    env.spec = env.spec or _predicted_spec(plan)
    env._another = partial(_build_in_worker, plan)
    return env


def _build_remote(plan: Plan) -> Env[Any, Any] | VectorEnv[Any, Any, Any]:
    from paddock.making.remote import build_remote

    env = build_remote(plan)
    env._isolation = plan.isolation
    if isinstance(env, VectorEnv):
        return env
    dressed = env
    try:
        for wrapper in plan.wrappers:
            dressed = _wrap(dressed, wrapper)
    except BaseException:
        env.close()
        raise
    return dressed


def _outside_spec(plan: Plan, described: EnvSpec | None) -> EnvSpec | None:
    """Return the spec of an environment behind a wall. It names no code to load here that only the worker knows.

    What this side knows is not taken from the worker: the id, by which another one may be made, and the arguments.
    """
    target = plan.target
    if target.spec is not None and target.folder is None:
        return _predicted_spec(plan)
    if described is None:
        return None
    kwargs = {**({} if target.spec is None else deepcopy(target.spec.kwargs)), **plan.env_kwargs}
    if plan.render_mode is not None:
        kwargs["render_mode"] = plan.render_mode
    bare = replace(described, entry_point=None, vector_entry_point=None, additional_wrappers=(), kwargs=kwargs)
    return bare if target.id is None else replace(bare, id=target.id)


def _build_processes(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.vector.processes import ProcessVectorEnv

    lanes = plan.lanes
    lane: Any = partial(build_one, plan)
    wall: dict[str, Any] = {}
    if plan.wall is not None:  # plain data instead of a function, which does not go behind a wall
        from paddock.hosting.judge import WallRules
        from paddock.making.payload import pack
        from paddock.making.walls import walled_launcher

        sent = pack(plan)
        lane = sent.what
        wall = {"launcher": walled_launcher(sent, plan.wall), "wall": WallRules.of(plan.wall)}
    env = ProcessVectorEnv(
        [lane] * num_envs,
        workers=lanes.workers,
        copy=lanes.copy,
        autoreset_mode=lanes.autoreset,
        on_fault=lanes.on_fault,
        deadline_s=lanes.deadline_s,
        max_concurrency=lanes.max_concurrency,
        batch_size=lanes.batch_size,
        **wall,
    )
    if plan.wall is not None:
        env.lane_spec = _outside_spec(plan, env.lane_spec)
    return env


def _build_ray(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.vector.ray_lanes import RayVectorEnv

    lanes, spec = plan.lanes, plan.target.spec
    return RayVectorEnv(
        num_envs,
        lambda count: partial(build, in_actors(plan, count)),
        lanes_per_actor=lanes.lanes_per_actor,
        resources=lanes.resources,
        deterministic=spec is None or not spec.nondeterministic,
        on_fault=lanes.on_fault,
        copy=lanes.copy,
    )


def _build_here(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Lanes of this process, stepped in a loop or by threads."""
    lanes, makers = plan.lanes, [partial(build_one, plan)] * num_envs
    how: dict[str, Any] = {"copy": lanes.copy, "autoreset_mode": lanes.autoreset, "on_fault": lanes.on_fault}
    if plan.backend == "loop":
        from paddock.vector.loop import SyncVectorEnv

        return SyncVectorEnv(makers, **how)
    from paddock.sources.mujoco_lanes import mujoco_lanes
    from paddock.vector.threads import ThreadVectorEnv

    return ThreadVectorEnv(makers, **how, threads=lanes.threads, recogniser=mujoco_lanes)


def _build_ale(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    from paddock.sources.atari import AtariLanes

    spec, kwargs = _spec_and_kwargs(plan)
    lanes = plan.lanes
    how = {"num_envs": num_envs, "autoreset_mode": lanes.autoreset, "threads": lanes.threads}
    return _construct(AtariLanes, spec, {**kwargs, **how}, VectorEnv)  # type: ignore[no-any-return]


def _build_compiled(plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    spec, kwargs = _spec_and_kwargs(plan)
    if plan.render_mode is not None:
        kwargs["render_mode"] = plan.render_mode
    if plan.max_steps() is not None:
        kwargs["max_episode_steps"] = plan.max_steps()
    creator = load(_require_entry_point(spec.vector_entry_point, spec, "vector_entry_point"))
    options = _as_arguments(plan.lanes)
    if getattr(creator, "takes_lane_options", False):  # our own lanes take all of them
        in_kwargs = [name for name in options if name in plan.env_kwargs]
        if in_kwargs and plan.strict:
            raise PlanError(f"{in_kwargs[0]}= is an option of the lanes. Pass it as lanes=LaneOptions(...).")
        options.update(threads=plan.lanes.threads or 1, strict=plan.strict)
        kwargs.update({name: value for name, value in options.items() if name not in in_kwargs})
    else:
        default = _as_arguments(LaneOptions())
        kwargs.update({name: value for name, value in options.items() if value != default[name]})
    env = _construct(creator, spec, {"num_envs": num_envs, **kwargs}, VectorEnv)
    mode = env.metadata.get("autoreset_mode")
    if not isinstance(mode, AutoresetMode):
        warn_user(
            f"{spec.id!r}: metadata['autoreset_mode'] is {mode!r}, expected an AutoresetMode; "
            f"wrappers will take it for NEXT_STEP."
        )
    return env  # type: ignore[no-any-return]


def _as_arguments(lanes: LaneOptions) -> dict[str, Any]:
    return {
        "autoreset_mode": lanes.autoreset,
        "copy": lanes.copy,
        "threads": lanes.threads,
        "statistics": lanes.statistics,
    }


def with_vector_spec(env: VectorEnv[Any, Any, Any], plan: Plan, num_envs: int) -> VectorEnv[Any, Any, Any]:
    """Give ``env`` the spec that makes it again; its arguments say how many lanes there are, and of what kind."""
    # A lane's own spec has all arguments of its wrappers too; compiled lanes have none.
    spec = getattr(env, "lane_spec", None) or (None if plan.target.spec is None else _predicted_spec(plan))
    if spec is None:  # made behind a wall by code without a spec
        return env
    mode = {"compiled": "vector_entry_point", "ale": "vector_entry_point", "processes": "async"}.get(
        plan.backend, "sync"
    )
    kwargs = {**spec.kwargs, "num_envs": num_envs, "vectorization_mode": mode}
    env.unwrapped.spec = replace(spec, kwargs=kwargs)
    return env


def _predicted_spec(plan: Plan) -> EnvSpec:
    """Return the spec without asking the environment: it is compiled, or can't send its own as JSON."""
    spec, kwargs = _spec_and_kwargs(plan)
    if plan.render_mode is not None:
        kwargs["render_mode"] = plan.render_mode
    wrappers = (*spec.additional_wrappers, *map(as_wrapper_spec, plan.wrappers))
    return replace(_final_spec(spec, kwargs, plan), additional_wrappers=wrappers)


_LANES = {
    "loop": _build_here,
    "threads": _build_here,
    "ale": _build_ale,
    "compiled": _build_compiled,
    "processes": _build_processes,
    "ray": _build_ray,
}


def resolve(target: Target, isolation: Isolation = None) -> Target:
    """Find the target's spec: import its module, load its plugin. Not if the code shall stay behind a wall."""
    if target.kind == "url" or choose_wall(target, isolation) is not None:
        return target
    if target.kind == "module":
        assert target.module is not None
        assert target.id is not None
        before = set(registry)
        try:
            module = importlib.import_module(target.module)
        except ModuleNotFoundError as error:
            from paddock.sources.families import suggest_source

            raise ModuleNotFoundError(
                f"{error}. Environment registration via importing a module failed. "
                f"Check whether '{target.module}' contains env registration and can be imported."
                f"{suggest_source(target.module, target.id) if error.name == target.module else ''}"
            ) from error
        written_for_openenv = getattr(module, target.id, None)
        if written_for_openenv is not None:
            from paddock.sources.openenv_classes import spec_of

            openenv_spec = spec_of(target.module, target.id, written_for_openenv)
            if openenv_spec is not None:
                return replace(target, spec=openenv_spec)
        try:
            return replace(target, spec=find_spec(target.id))
        except UnregisteredEnv as error:
            raise type(error)(
                f"{str(error).rstrip('.')}. {describe_registrations(target.module, set(registry) - before)}"
            ) from None
    if target.kind == "source":
        assert target.module is not None
        from paddock.sources.families import SOURCES

        spec: EnvSpec = load(SOURCES[target.module])(target.id)
        return replace(target, spec=spec)
    if target.kind == "plugin":
        assert target.spec is not None
        assert isinstance(target.spec.entry_point, str)
        id, entry_point = target.spec.id, target.spec.entry_point
        try:
            found = load_object(entry_point)
        except Exception as error:  # a plugin may raise anything when it is imported
            raise PluginError(
                f"The plugin that offers {id!r} failed to load {entry_point!r}: {type(error).__name__}: {error}. "
                f"Upgrade or remove the distribution that provides it."
            ) from error
        return replace(target, spec=replace(found, id=id)) if isinstance(found, EnvSpec) else target
    return target


def describe_registrations(module: str, new: Iterable[str] = (), *, like: str = "") -> str:
    """Say which ids a module registers: those ``new`` since it was imported, and those of code in it or below it.

    The example is one that contains ``like``, if there is one.
    """
    ids = set(new)
    for spec in registry.values():
        entry = spec.entry_point if spec.entry_point is not None else spec.vector_entry_point
        code = "" if entry is None else entry_point_text(entry).partition(":")[0]
        if f"{code}.".startswith(f"{module}."):
            ids.add(spec.id)
    if not ids:
        return f"{module} registers no environments: call paddock.register('me/Maze-v0', '{module}:Maze') in it."
    example = min(ids, key=lambda id: (like not in id, id))
    return f"{module} registers: {', '.join(sorted(ids))}. Name one, as {module}:{example}."


def _final_spec(spec: EnvSpec, kwargs: dict[str, Any], plan: Plan) -> EnvSpec:
    """Return the spec as it was really made."""
    return replace(spec, kwargs=kwargs, max_episode_steps=plan.max_steps(), disable_env_checker=not plan.validates())


def _spec_and_kwargs(plan: Plan) -> tuple[EnvSpec, dict[str, Any]]:
    spec = plan.target.spec
    assert spec is not None, "the spec is known once the plan is built"
    return spec, {**deepcopy(spec.kwargs), **plan.env_kwargs}


def _require_entry_point(entry_point: Any, spec: EnvSpec, field: str) -> Any:
    if entry_point is None:
        raise InvalidSpec(f"Cannot make {spec.id!r}: its spec has no {field}. Register it with one.")
    return entry_point


def _construct(creator: Callable[..., Any], spec: EnvSpec, kwargs: dict[str, Any], kind: type = Env) -> Any:
    if kind is Env and not (isinstance(creator, type) and issubclass(creator, Env)):
        from paddock.sources.openenv_classes import adapt_openenv  # environments written for OpenEnv

        creator = adapt_openenv(creator, kwargs)
    try:
        env = creator(**kwargs)
    except TypeError as error:
        options = [field.name for field in fields(LaneOptions) if f"'{field.name}'" in str(error)]
        hint = f". Options of lanes: lanes=LaneOptions({options[0]}=…)" if options else ""
        said, place, _ = str(error).partition(" was raised from the environment creator for ")
        words = f"{said}{place or ' was raised from the environment creator for '}"  # once: Gymnasium says it too
        raise type(error)(f"{words}{spec.id} with kwargs ({kwargs}){hint}") from error
    if not isinstance(env, kind):
        raise TypeError(
            f"The environment must inherit from paddock.{kind.__name__} (paddock.gym.{kind.__name__} is the same "
            f"class), actual type: {type(env)}."
        )
    return env


def load(entry_point: str | Callable[..., Any]) -> Callable[..., Any]:
    """Load the callable that an entry point names. Gymnasium's own classes mean ours of the same name."""
    found = load_object(entry_point) if isinstance(entry_point, str) else entry_point
    if not callable(found):
        raise RegistrationError(f"{entry_point!r} is {kind(found)}, expected a class or function.")
    return found


def load_object(entry_point: str) -> Any:
    """Import the module and return the attribute, whatever it is."""
    module_name, attribute = check_entry_point(entry_point)
    exporter = public_path(entry_point).partition(":")[0]
    if exporter != module_name and hasattr(importlib.import_module(exporter), attribute):
        module_name = exporter  # a spec may be older than the files of today
    for theirs, ours in _OURS.items():
        if module_name == theirs or module_name.startswith(theirs + "."):
            module_name = ours
            break
    found: Any = importlib.import_module(module_name)
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            hint = " Move it to its own module." if module_name == "__main__" else ""
            raise RegistrationError(f"{entry_point!r}: {module_name} has no {attribute!r}.{hint}") from None
    return found


def negotiate_render_mode(wanted: str | None, offered: Sequence[str]) -> tuple[str | None, Callable[[Any], Any] | None]:
    """Return the mode to construct the environment with, and the wrapper that turns it into the wanted one."""
    if wanted is None or wanted in offered:
        return wanted, None
    from paddock.wrappers.rendering import HumanRendering, RenderCollection

    frames = next((mode for mode in ("rgb_array", "rgb_array_list") if mode in offered), None)
    if wanted == "human" and frames is not None:
        warn_user(
            "You are trying to use 'human' rendering for an environment that doesn't natively support it. "
            "The HumanRendering wrapper is being applied to your environment."
        )
        return frames, HumanRendering
    if wanted.endswith("_list") and wanted[: -len("_list")] in offered:
        return wanted[: -len("_list")], RenderCollection
    warn_user(
        f"The environment is being initialised with render_mode={wanted!r} "
        f"that is not in the possible render_modes ({list(offered)})."
    )
    return wanted, None
